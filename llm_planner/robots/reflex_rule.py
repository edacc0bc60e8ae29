# SPDX-License-Identifier: Apache-2.0
"""The reflex of a robot model, as its file says it."""

from dataclasses import dataclass
from enum import Enum

from llm_planner.robots.record import Record, require


class ReflexAction(Enum):
    """What a robot does when something comes too near; its goal ends in any case."""

    STOP = "stop"  # its stop skill, once per approach
    BACK_OFF = "back_off"  # stop, then one motion away from the thing, again if it follows
    HOLD = "hold"  # stop, and carry nothing out while the thing is near


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflexRule(Record):
    """Acts on anything that moves.

    Attributes:
        distance_m: Between the thing's surface and the body's reference point, or the tool of an arm.
        back_off_m: How far BACK_OFF moves; the skill's own limits apply. With ``ahead_s`` up to four times as far.
        ahead_s: It also acts on what would touch the robot within this many seconds if both go on as they are seen
            going, and BACK_OFF then takes the way that keeps clear of it; 0 for the distance alone.
    """

    distance_m: float
    action: ReflexAction
    back_off_m: float = 0.5
    ahead_s: float = 0.0

    def __post_init__(self) -> None:
        require(self.distance_m > 0 and self.back_off_m > 0, "distance_m and back_off_m must be > 0")
        require(0 <= self.ahead_s <= 10, "ahead_s must be in [0, 10]")
