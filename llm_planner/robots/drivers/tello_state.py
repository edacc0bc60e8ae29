# SPDX-License-Identifier: Apache-2.0
"""What a Tello's state stream says: how fast, which way, how high, how much battery; and what that proves."""

import re
from collections import deque
from dataclasses import dataclass
from itertools import islice, pairwise

from llm_planner.robots.motion import wrapped_deg

_FIELD = re.compile(r"(\w+):(-?\d{1,6}(?:\.\d+)?)(?=;)")
_NEEDED = ("vgx", "vgy", "vgz", "yaw", "h", "bat")

STANDING_DM_S = 1  # a hovering drone may report this much (assumed)
MOVING_DM_S = 2
STEADY_DEG = 2.0  # between two states
KEPT = 600  # states: a minute


@dataclass(frozen=True, slots=True)
class State:
    """One line of the stream.

    Attributes:
        at_s: When it came.
        speed_dm_s: The greatest of the three velocities; decimetres per second were seen by users of DJITelloPy.
        yaw_deg: Clockwise, from where the drone was switched on.
        height_m: Above where it took off.
        battery_percent: What is left.
    """

    at_s: float
    speed_dm_s: float
    yaw_deg: float
    height_m: float
    battery_percent: float


def parse_state(text: str, at_s: float) -> State | None:
    """Returns a state line as a value, or None for anything that is none."""
    fields = {name: float(value) for name, value in _FIELD.findall(text)}
    if not all(name in fields for name in _NEEDED) or not 0.0 <= fields["bat"] <= 100.0:
        return None
    speed_dm_s = max(abs(fields[name]) for name in ("vgx", "vgy", "vgz"))
    return State(at_s, speed_dm_s, fields["yaw"], fields["h"] / 100.0, fields["bat"])


class Telemetry:
    """The states of the last minute."""

    def __init__(self) -> None:
        self._states: deque[State] = deque(maxlen=KEPT)

    @property
    def last(self) -> State | None:
        """The newest state."""
        return self._states[-1] if self._states else None

    def newest(self, most: int) -> list[State]:
        """Returns the newest states, the newest first."""
        return list(islice(reversed(self._states), most))

    def note(self, text: str, at_s: float) -> None:
        """Takes a line; what is no state is ignored."""
        state = parse_state(text, at_s)
        if state is not None:
            self._states.append(state)

    def age_s(self, now_s: float) -> float:
        """Returns how old the newest state is; infinite without any."""
        return now_s - self._states[-1].at_s if self._states else float("inf")

    def since(self, at_s: float) -> list[State]:
        """Returns the states that came after a time, in order."""
        newer: list[State] = []
        for state in reversed(self._states):
            if state.at_s <= at_s:
                break
            newer.append(state)
        return newer[::-1]


def is_steady(states: list[State]) -> bool:
    """Returns whether the last two states show a drone that neither moves nor turns."""
    if len(states) < 2:
        return False
    is_standing = all(state.speed_dm_s <= STANDING_DM_S for state in states[-2:])
    return is_standing and apart_deg(states[-1].yaw_deg, states[-2].yaw_deg) <= STEADY_DEG


def turned_deg(states: list[State]) -> float:
    """Returns by how much a drone has turned over some states, more than once around too; clockwise if positive."""
    steps = (wrapped_deg(after.yaw_deg - before.yaw_deg) for before, after in pairwise(states))
    return sum(steps)


def apart_deg(a_deg: float, b_deg: float) -> float:
    """Returns the angle between two directions, in [0, 180]."""
    return abs((a_deg - b_deg + 180.0) % 360.0 - 180.0)
