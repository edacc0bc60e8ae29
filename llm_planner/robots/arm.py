# SPDX-License-Identifier: Apache-2.0
"""The skills of an arm: grasping, placing and pushing on a table."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from llm_planner.core.skill import Value
from llm_planner.robots.body import Body, Course, Job
from llm_planner.robots.driver import SkillFailedError
from llm_planner.robots.effect import Grasp, Gripper, Home, MoveTool, Place, Push
from llm_planner.robots.model import Workspace, trapezoids
from llm_planner.robots.motion import lengths_m, sample_timing
from llm_planner.robots.shape import Point
from llm_planner.robots.tool_path import straight_legs
from llm_planner.robots.world import GAP_M, HELD, ObjectRole, World, WorldObject


class ArmBody(Body):
    """An arm at the origin of its world. Its tool never leaves the workspace, at no point of its way."""

    def carry(self) -> None:
        """Moves the held object along with the tool."""
        if self.state.held is not None:
            pose = self.state.pose
            self.world.move(self.state.held, (pose.x_m, pose.y_m, pose.z_m), HELD)

    def _courses(self) -> dict[type, Callable[[Any, Job], Course]]:
        return {
            **super()._courses(),
            Grasp: self._grasp,
            Place: self._place,
            Push: self._push,
            MoveTool: self._move_tool,
            Home: self._home,
            Gripper: self._gripper,
        }

    def _grasp(self, _: Grasp, job: Job) -> Course:
        thing = self._loose(job.names[0])

        def take() -> None:
            self.state.held = thing.name
            self.carry()

        return self._reach(job, thing.position_m, take)

    def _place(self, _: Place, job: Job) -> Course:
        thing = self.world.one(job.names[0])
        if self.state.held is None:
            raise SkillFailedError(f"nothing is held, so {thing.name} cannot be placed")
        if self.state.held != thing.name:
            raise SkillFailedError(f"{self.state.held} is held, not {thing.name}")
        target = self.world.one(job.names[1])
        if target.name == thing.name:
            raise SkillFailedError(f"{thing.name} cannot be placed on itself")
        position = self._rest_on(thing, target)

        def release() -> None:
            self.state.held = None
            self.world.move(thing.name, position, target.name)

        return self._reach(job, position, release)

    def _push(self, _: Push, job: Job) -> Course:
        thing, target = self._loose(job.names[0]), self.world.one(job.names[1])
        self._require_reachable(thing.position_m, thing.name)
        lies_on = self.world.objects.get(thing.support or "")
        if lies_on is not None and lies_on.role is not ObjectRole.AREA:
            raise SkillFailedError(f"{thing.name} lies on or in {lies_on.name} and cannot be pushed")
        if target.name == thing.name:
            raise SkillFailedError(f"{thing.name} cannot be pushed to itself")
        is_area = target.role is ObjectRole.AREA
        position = self.world.spot(thing.name, target) if is_area else self._next_to(thing, target)
        support = target.name if is_area else target.support
        return self._reach(job, position, lambda: self.world.move(thing.name, position, support))

    def _move_tool(self, effect: MoveTool, job: Job) -> Course:
        target = self.world.one(job.names[0])
        x, y, _ = target.position_m
        return self._reach(job, (x, y, target.top_m + effect.clearance_m))

    def _home(self, _: Home, job: Job) -> Course:
        start = self.model.start
        return self._reach(job, (start.x_m, start.y_m, start.z_m))

    def _gripper(self, effect: Gripper, job: Job) -> Course:
        return self._still(job, lambda _: self._drop() if effect.is_open else None)

    def _loose(self, name: str) -> WorldObject:
        """Returns an object that an empty hand may grasp or push.

        Raises:
            SkillFailedError: If the hand is full, or the object is fixed or covered.
        """
        thing = self.world.one(name)
        if self.state.held is not None:
            raise SkillFailedError(f"the hand is full: it holds {self.state.held}")
        if thing.is_fixed or thing.role is ObjectRole.AREA:
            raise SkillFailedError(f"{thing.name} cannot be moved")
        covering = self.world.on_top_of(thing.name)
        if covering:
            raise SkillFailedError(f"{thing.name} is covered by {', '.join(covering)}")
        return thing

    def _rest_on(self, thing: WorldObject, target: WorldObject) -> Point:
        """Returns the centre of ``thing`` once it lies on or in ``target``."""
        x, y, z = target.position_m
        half = thing.size_m[2] / 2.0
        if target.role is ObjectRole.AREA:
            return self.world.spot(thing.name, target)
        if target.role is ObjectRole.CONTAINER:
            return x, y, z - target.size_m[2] / 2.0 + half
        covering = self.world.on_top_of(target.name)
        if covering:
            raise SkillFailedError(f"{target.name} is covered by {', '.join(covering)}")
        return x, y, target.top_m + half

    def _next_to(self, thing: WorldObject, target: WorldObject) -> Point:
        """Returns the free place next to ``target`` that is nearest to where ``thing`` is."""
        x, y, _ = target.position_m
        apart = [(a + b) / 2.0 + GAP_M for a, b in zip(thing.size_m[:2], target.size_m[:2], strict=True)]
        sides = [(x + apart[0], y), (x - apart[0], y), (x, y + apart[1]), (x, y - apart[1])]
        for side in sorted(sides, key=lambda s: math.dist(s, thing.position_m[:2])):
            position = (*side, thing.position_m[2])
            if self._is_reachable(position) and self.world.is_free(thing.name, position):
                return position
        raise SkillFailedError(f"there is no room next to {target.name}")

    def _drop(self) -> Value | None:
        name = self.state.held
        if name is None:
            return None
        self.state.held = None
        thing = self.world.objects[name]
        below = highest_under(self.world, thing)
        x, y, _ = thing.position_m
        if below is None:
            self.world.move(name, (x, y, thing.size_m[2] / 2.0), None)
        elif below.role is ObjectRole.THING:
            self.world.move(name, (x, y, below.top_m + thing.size_m[2] / 2.0), below.name)
        else:
            bottom_m = below.position_m[2] - below.size_m[2] / 2.0
            self.world.move(name, (x, y, bottom_m + thing.size_m[2] / 2.0), below.name)
        return None

    def _reach(self, job: Job, point: Point, finish: Callable[[], Value | None] = lambda: None) -> Course:
        """Returns a straight way, or one around the pedestal where the straight one would leave the workspace."""
        self._require_reachable(point, "the target")
        begin = self.state.pose
        legs = straight_legs(self.space, (begin.x_m, begin.y_m, begin.z_m), point)
        if legs is None:
            raise SkillFailedError(f"no way to ({point[0]:.2f}, {point[1]:.2f}, {point[2]:.2f}) m inside the workspace")
        poses = [replace(begin, x_m=x, y_m=y, z_m=z) for x, y, z in legs]
        known = trapezoids(job.skill.duration)
        trapezoid = known[0] if known else None
        length_m = sum(lengths_m((begin, *poses)))
        timing = sample_timing(job.skill, trapezoid, job.number, length_m, job.start_s, self._rng)
        return Course(timing.over_s, (timing.straight(begin, poses[-1], tuple(poses[:-1])),), finish)

    def _require_reachable(self, point: Point, what: str) -> None:
        if not self._is_reachable(point):
            raise SkillFailedError(f"{what} at ({point[0]:.2f}, {point[1]:.2f}, {point[2]:.2f}) m is unreachable")

    def _is_reachable(self, point: Point) -> bool:
        return self.space.excess_m(point) == 0.0

    @property
    def space(self) -> Workspace:
        """Where the tool may be."""
        space = self.model.workspace
        assert space is not None  # every arm has one
        return space


def highest_under(world: World, thing: WorldObject) -> WorldObject | None:
    """Returns what an object would fall on: the highest thing below its centre, else an area, else None."""
    x, y, z = thing.position_m
    below = [
        other
        for other in world.objects.values()
        if other.name != thing.name
        and abs(x - other.position_m[0]) <= other.size_m[0] / 2.0
        and abs(y - other.position_m[1]) <= other.size_m[1] / 2.0
        and other.position_m[2] <= z
    ]
    return max(below, key=lambda o: (o.role is not ObjectRole.AREA, o.top_m, -o.size_m[0] * o.size_m[1]), default=None)
