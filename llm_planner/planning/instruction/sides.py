# SPDX-License-Identifier: Apache-2.0
"""The sides to which a robot goes or turns."""

from collections.abc import Mapping
from enum import StrEnum

from llm_planner.robots.effect import Translate, Turn


class Side(StrEnum):
    """A direction from where the robot stands; the groups of ``quantities.SIDE`` are called so."""

    LEFT = "left"
    RIGHT = "right"
    FRONT = "forward"
    BACK = "back"
    UP = "up"
    DOWN = "down"


AXES = ((Side.FRONT, Side.BACK), (Side.LEFT, Side.RIGHT), (Side.UP, Side.DOWN))
"""Along each axis of the body frame, and against it."""
OPPOSITE: Mapping[str, Side] = {one: other for pair in AXES for one, other in (pair, pair[::-1])}


def side_of_effect(effect: object) -> Side | None:
    """Returns the side to which a skill turns, or most of its motion goes; None if to none."""
    match effect:
        case Turn(direction=direction):
            return Side.LEFT if direction > 0 else Side.RIGHT
        case Translate(axis=axis):
            part, sides = max(zip(axis, AXES, strict=True), key=lambda each: abs(each[0]))
            return sides[part < 0]
        case _:
            return None
