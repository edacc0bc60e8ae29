# SPDX-License-Identifier: Apache-2.0
"""What became of one encounter, and of the planner's answer in it."""

import math
from dataclasses import dataclass, field
from enum import Enum


class Use(Enum):
    """What became of an answer that came in time."""

    ENDED = "carried out to its end"
    OVER = "followed until the danger was over"  # what came was never as near again
    OVERRIDDEN = "overridden"  # a reflex broke it off before that
    NOT_BEGUN = "not begun"  # a reflex had acted before it came


@dataclass(slots=True, kw_only=True)
class Trial:
    """What happened in one encounter. Times in seconds from its start; None for never.

    Attributes:
        least_gap_m: From the surface of what comes to the middle of the drone.
        nearest_s: When that was.
        instruction: What the drone asked.
        budget_s: Until the planner's answer had to be there.
        answered_s: When its first segment reached the robot.
        begun_s: When the robot began to carry it out.
        broken_off_s: When something kept it from going on with the answer.
        ended_s: When the robot had carried the whole answer out.
        flown_m: How far it flew by it.
        plan: What the planner answered.
        reflexes: When each began, and why.
    """

    seed: int
    begin: str
    planner: str
    asking: str
    errand: str
    collided_with: tuple[str, ...] = ()
    least_gap_m: float = math.inf
    nearest_s: float = 0.0
    alarm_s: float | None = None
    instruction: str = ""
    budget_s: float | None = None
    answered_s: float | None = None
    begun_s: float | None = None
    broken_off_s: float | None = None
    ended_s: float | None = None
    flown_m: float = 0.0
    plan: str = ""
    reflexes: list[tuple[float, str, str]] = field(default_factory=list)

    @property
    def is_in_time(self) -> bool:
        """Whether the planner's answer came within the budget."""
        return self.alarm_s is not None and self.answered_s is not None and self.within_s <= (self.budget_s or 0.0)

    @property
    def within_s(self) -> float:
        """From the alarm to the answer."""
        return math.inf if self.answered_s is None or self.alarm_s is None else self.answered_s - self.alarm_s

    @property
    def use(self) -> Use | None:
        """What became of the answer; None if none came in time."""
        if not self.is_in_time:
            return None
        if self.begun_s is None:
            return Use.NOT_BEGUN
        if self.ended_s is not None:
            return Use.ENDED
        is_over = self.broken_off_s is None or self.broken_off_s >= self.nearest_s
        return Use.OVER if is_over else Use.OVERRIDDEN
