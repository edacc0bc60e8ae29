# SPDX-License-Identifier: Apache-2.0
"""Ways of an arm's tool that stay inside its workspace: a ring around the pedestal, between two heights.

The ring is not convex: a straight line between two points inside may cross the pedestal, and joints that move together
lead the tool along an arc. Where the direct way would leave the ring, intermediate points lead the tool around. A tool
that is outside already (after a collision, or moved by hand) may return, but never gets farther outside than it was.
"""

import math
from collections.abc import Callable, Generator, Iterable
from typing import Protocol, TypeVar

from llm_planner.robots.model import Workspace
from llm_planner.robots.shape import Point

Joints = tuple[float, ...]

TOLERANCE_M = 1e-6
JOINT_TOLERANCE_M = 0.005  # for joint motions: their ends are exact to 1 mm
NUM_SAMPLES = 64  # per joint motion: at most 5.5 degrees of a joint apart
MAX_HALVINGS = 5  # at most 32 legs

_StateT = TypeVar("_StateT")
_FoundT = TypeVar("_FoundT")


class Kinematics(Protocol):
    """An arm's forward and inverse kinematics; angles in any unit."""

    def position_m(self, joints: Joints, /) -> Point:
        """Returns where the tool is."""
        ...

    def joints(self, point_m: Point, near: Joints, /) -> Iterable[float] | None:
        """Returns joint angles that bring the tool to a point, None if there are none."""
        ...


def straight_legs(space: Workspace, begin: Point, end: Point) -> tuple[Point, ...] | None:
    """Returns the ends of straight legs that lead a tool from ``begin`` to ``end`` inside its workspace.

    None if there are none: ``end`` lies outside, or the ring is too thin.
    """

    def leg(begin: Point, end: Point) -> Point | None:
        return end if _is_straight_leg_inside(space, begin, end) else None

    return _found(_legs(space, leg, lambda point: point, begin, end))


def joint_legs(arm: Kinematics, space: Workspace, here: Joints, end: Point) -> tuple[Joints, ...] | None:
    """Returns the ends of joint motions that lead a tool to ``end`` inside its workspace.

    In a joint motion, every joint covers the same share of its way at the same time. None if the arm cannot reach
    ``end``, or the ways that were tried leave the workspace.
    """
    return _found(search_joint_legs(arm, space, here, end))


def search_joint_legs(
    arm: Kinematics, space: Workspace, here: Joints, end: Point
) -> Generator[None, None, tuple[Joints, ...] | None]:
    """Returns what ``joint_legs`` does, and pauses before each leg that it tries: one may take half a second."""

    def leg(begin: Joints, end: Point) -> Joints | None:
        solution = arm.joints(end, begin)
        if solution is None:
            return None
        target = tuple(float(angle) for angle in solution)
        return target if _is_joint_motion_inside(arm, space, begin, target) else None

    return (yield from _legs(space, leg, arm.position_m, here, end))


def _found(search: Generator[None, None, _FoundT]) -> _FoundT:
    """Returns what a search finds, without a pause."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            found: _FoundT = end.value
            return found


def _legs(
    space: Workspace,
    leg: Callable[[_StateT, Point], _StateT | None],
    position_m: Callable[[_StateT], Point],
    begin: _StateT,
    end: Point,
    num_halvings: int = MAX_HALVINGS,
) -> Generator[None, None, tuple[_StateT, ...] | None]:
    """Returns the ends of permitted legs, in order; a leg that is not permitted is replaced by its two halves."""
    yield
    whole = leg(begin, end)
    if whole is not None:
        return (whole,)
    if num_halvings == 0:
        return None
    middle = _halfway(space, position_m(begin), end)
    first = yield from _legs(space, leg, position_m, begin, middle, num_halvings - 1)
    if first is None:
        return None
    second = yield from _legs(space, leg, position_m, first[-1], end, num_halvings - 1)
    return None if second is None else (*first, *second)


def _halfway(space: Workspace, begin: Point, end: Point) -> Point:
    """Returns the middle of the straight way if that is inside; else a point halfway around the pedestal."""
    x, y, z = ((a + b) / 2.0 for a, b in zip(begin, end, strict=True))
    if _is_straight_leg_inside(space, begin, end):
        return x, y, z
    angle = math.atan2(begin[1], begin[0])
    turn = math.remainder(math.atan2(end[1], end[0]) - angle, math.tau)
    nearest_m, farthest_m = space.reach_m
    reach_m = (math.hypot(*begin[:2]) + math.hypot(*end[:2])) / 2.0
    reach_m = min(max(reach_m, (nearest_m + farthest_m) / 2.0), farthest_m)
    return reach_m * math.cos(angle + turn / 2.0), reach_m * math.sin(angle + turn / 2.0), z


def _is_straight_leg_inside(space: Workspace, begin: Point, end: Point) -> bool:
    """Whether no point of a straight leg is farther outside than its beginning: only the pedestal is not convex."""
    crossing_m = space.reach_m[0] - _nearest_m(begin, end)
    return max(space.excess_m(end), crossing_m) <= max(space.excess_m(begin), TOLERANCE_M)


def _nearest_m(begin: Point, end: Point) -> float:
    """Returns the least level distance of a straight leg from the base."""
    dx, dy = end[0] - begin[0], end[1] - begin[1]
    length_squared = dx * dx + dy * dy
    share = -(begin[0] * dx + begin[1] * dy) / length_squared if length_squared > 0.0 else 0.0
    share = min(1.0, max(0.0, share))
    return math.hypot(begin[0] + share * dx, begin[1] + share * dy)


def _is_joint_motion_inside(arm: Kinematics, space: Workspace, begin: Joints, end: Joints) -> bool:
    """Whether no sample of a joint motion is farther outside than its beginning."""
    limit_m = max(space.excess_m(arm.position_m(begin)), JOINT_TOLERANCE_M)
    shares = (number / NUM_SAMPLES for number in range(1, NUM_SAMPLES + 1))
    samples = (tuple(a + share * (b - a) for a, b in zip(begin, end, strict=True)) for share in shares)
    return all(space.excess_m(arm.position_m(sample)) <= limit_m for sample in samples)
