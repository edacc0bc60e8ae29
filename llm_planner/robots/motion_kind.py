# SPDX-License-Identifier: Apache-2.0
"""What kind of motion a skill is: what a plan that was made again may do depends on it."""

from enum import Enum

from llm_planner.robots.effect import (
    Approach,
    GoTo,
    Grasp,
    Gripper,
    Home,
    MoveTool,
    Orient,
    Place,
    Push,
    Scan,
    TakeOff,
    Translate,
    Turn,
)
from llm_planner.robots.model import RobotKind, Skill


class MotionKind(Enum):
    """Families of motions: a request for one member may be met by another."""

    TRAVEL = "travel"
    TAKE_OFF = "take-off"
    MANIPULATION = "manipulation"


_KINDS: dict[type, MotionKind] = {
    **dict.fromkeys((Translate, Turn, Orient, Approach, GoTo, Scan), MotionKind.TRAVEL),
    **dict.fromkeys((Grasp, Place, Push, MoveTool, Gripper), MotionKind.MANIPULATION),
    TakeOff: MotionKind.TAKE_OFF,
}


def motion_kind(skill: Skill, robot: RobotKind) -> MotionKind | None:
    """Returns which kind of motion a skill is; None for one that moves nothing, or is always safe (stop, land)."""
    if isinstance(skill.effect, Home):
        return MotionKind.MANIPULATION if robot is RobotKind.ARM else MotionKind.TRAVEL
    return _KINDS.get(type(skill.effect))
