# SPDX-License-Identifier: Apache-2.0
"""What robots with bodies leave behind, as a goal test can judge it: no body hovers, or lies, to the last digit."""

import math
from collections.abc import Mapping, Sequence

from llm_planner.demo.outcome import distinct
from llm_planner.robots.model import Pose
from llm_planner.robots.world import World, WorldObject

STAYED_M = 0.1  # a pose that differs by less is the same waypoint
STAYED_DEG = 3.0
LAIN_M = 0.02  # a thing that lies so near to where it lay, on the same thing, was not moved


def waypoints(poses: Sequence[Pose]) -> tuple[Pose, ...]:
    """Returns the poses after each call that really moved the robot."""
    return distinct(list(poses), STAYED_M, STAYED_DEG)


def as_left(objects: Mapping[str, WorldObject], start: World) -> World:
    """Returns the world at the end, in which what was not moved is as it was."""
    return World(
        (
            start.objects[name] if name in start.objects and _has_stayed(thing, start.objects[name]) else thing
            for name, thing in objects.items()
        ),
        start.answers,
    )


def _has_stayed(thing: WorldObject, before: WorldObject) -> bool:
    return math.dist(thing.position_m, before.position_m) <= LAIN_M and thing.support == before.support
