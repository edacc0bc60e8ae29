# SPDX-License-Identifier: Apache-2.0
"""An arm as a driver: skills as ways of the tool, from above, and orders to the gripper.

The joints move together to each target. The tool travels above everything that lies there, and by intermediate targets
where it would leave the workspace; other obstacles are not planned for.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from llm_planner.robots.arm import ArmBody, highest_under
from llm_planner.robots.body import Job
from llm_planner.robots.driver import SkillFailedError
from llm_planner.robots.duration import sample_s
from llm_planner.robots.effect import Grasp, Gripper, Home, MoveTool, Place, Push, Stop
from llm_planner.robots.model import Pose, RobotModel
from llm_planner.robots.shape import ChainBody, Point
from llm_planner.robots.tool_path import Joints, joint_legs
from llm_planner.robots.world import HELD, ObjectRole, World, WorldObject
from llm_planner.sim.physics.driver import Course, PhysicsDriver, dated
from llm_planner.sim.physics.inverse import ChainKinematics
from llm_planner.sim.physics.port import ArmPort
from llm_planner.sim.physics.things import WALL_M

CLEARANCE_M = 0.06  # between what is carried and what lies below
PRESS_M = 0.002  # the tip goes so deep into what it shall touch
LIFT_M = 0.03  # after grasping and letting go
LET_GO_M = 0.003  # what is placed falls so deep
AS_BELIEVED_M = 0.03  # what lies so near to where it was put lies on what it was put on
PUSH_STEP_M, PUSH_TIP_M, NUM_PUSHES = 0.08, 0.008, 30
PUSHED_M = 0.015  # near enough


class ArmDriver(PhysicsDriver[ArmPort]):
    """Moves an arm of a physical world.

    Args:
        model: Of the arm, with a chain for a body.
        port: To it.
        rng: Of how long looks and words take, which physics says nothing about.
    """

    def __init__(self, model: RobotModel, port: ArmPort, rng: random.Random) -> None:
        assert isinstance(model.body, ChainBody)
        assert model.workspace is not None
        self._rng, self._shape, self._space = rng, model.body, model.workspace
        self._chain = ChainKinematics(model.body)
        self._may_touch: str | None = None
        super().__init__(model, port)

    def _body_at(self, pose: Pose, world: World) -> ArmBody:
        return ArmBody(self._model, world, self._rng, pose)

    def enter(self, world: World, pose: Pose | None, epoch_s: float) -> None:
        """Takes another world; what lies on what, it says, and of what it does not speak, where it lies."""
        super().enter(world, pose, epoch_s)
        self._world.objects = {
            name: replace(thing, support=world.objects[name].support) if name in world.objects else thing
            for name, thing in self._world.objects.items()
        }
        self._body.world = self._world  # an arm sees its whole table: what it knows is what there is

    def _survey(self) -> None:
        """Brings positions up to date, and what lies on what."""
        believed = self._world.objects
        found = {thing.name: dated(thing, self._now_s) for thing in self._port.survey()}
        self._world.objects = {
            name: replace(thing, support=believed[name].support) if name in believed else thing
            for name, thing in found.items()
        }
        for name, thing in list(self._world.objects.items()):
            support = self._support(thing, believed.get(name))
            self._world.objects[name] = replace(thing, support=support)

    def _support(self, thing: WorldObject, believed: WorldObject | None) -> str | None:
        if thing.name == self._telemetry.held:
            return HELD
        is_believed = believed is not None and math.dist(believed.position_m, thing.position_m) < AS_BELIEVED_M
        if believed is not None and (is_believed or thing.is_fixed) and believed.support != HELD:
            return believed.support
        below = highest_under(self._world, thing)
        return None if below is None else below.name

    def _watch(self) -> None:
        strangers = [name for name in self._touched if name != self._may_touch]
        if strangers:
            raise SkillFailedError(f"has touched {', '.join(strangers)}")
        if self._telemetry.is_blocked:
            raise SkillFailedError("something is in the arm's way")

    def _course_of(self, job: Job) -> Course:
        effect = job.skill.effect
        self._may_touch = None
        if isinstance(effect, Stop):
            return self._hold(job)
        self._survey()
        self.state.held = self._telemetry.held
        courses: dict[type, Callable[[Job], Course]] = {
            Grasp: self._grasp,
            Place: self._place,
            Push: self._push,
            MoveTool: self._go,
            Home: self._go,
            Gripper: self._open,
        }
        return courses.get(type(effect), self._ordinary)(job)

    def _hold(self, job: Job) -> Course:
        self._port.stop()
        yield self._now_s + sample_s(job.skill, None, self._rng)
        return None

    def _ordinary(self, job: Job) -> Course:
        course = self._body.plan(job)
        yield course.end_s
        self._survey()
        return course.finish()

    def _go(self, job: Job) -> Course:
        course = self._body.plan(job)
        end = course.motions[-1].end
        yield from self._travel((end.x_m, end.y_m, end.z_m))
        return None

    def _open(self, job: Job) -> Course:
        effect, course = job.skill.effect, self._body.plan(job)
        assert isinstance(effect, Gripper)
        self._port.grip(is_open=effect.is_open)
        yield self._now_s + self._shape.tool.closing_s.value + (0.3 if effect.is_open else 0.0)  # falls
        self.state.held = self._telemetry.held
        return None if not effect.is_open else course.finish()

    def _grasp(self, job: Job) -> Course:
        self._body.plan(job)  # judges whether it may be grasped
        thing = self._world.one(job.names[0])
        self._may_touch = thing.name
        x, y, z = thing.position_m
        is_container = thing.role is ObjectRole.CONTAINER
        top_m = z - thing.size_m[2] / 2.0 + WALL_M if is_container else thing.top_m
        self._port.grip(is_open=True)
        yield from self._travel((x, y, top_m - PRESS_M))
        self._port.grip(is_open=False)
        yield self._now_s + self._shape.tool.closing_s.value
        held = self._telemetry.held
        if held != thing.name:
            self._port.grip(is_open=True)
            raise SkillFailedError(f"grasped {held} instead of {thing.name}" if held else f"{thing.name} slipped away")
        self.state.held = held
        self._world.move(held, thing.position_m, HELD)
        yield from self._rise()
        return None

    def _place(self, job: Job) -> Course:
        self._body.plan(job)  # judges whether it fits there
        thing, target = self._world.one(job.names[0]), self._world.one(job.names[1])
        self._may_touch = thing.name
        position = self._rest_on(thing, target)
        x, y, z = self._tool_above(thing, position)
        yield from self._travel((x, y, z + LET_GO_M))
        self._port.grip(is_open=True)
        yield self._now_s + self._shape.tool.closing_s.value
        self.state.held = None
        self._world.move(thing.name, position, target.name)
        yield from self._rise()
        return None

    def _tool_above(self, thing: WorldObject, position: Point) -> Point:
        """Returns where the tool is once what it holds is at a position."""
        offset = np.array(self._tool) - np.array(thing.position_m)
        x, y, z = np.array(position) + offset
        return float(x), float(y), float(z)

    def _rest_on(self, thing: WorldObject, target: WorldObject) -> Point:
        """Returns the centre of what is held once it lies on or in a target; in a container, where there is room."""
        if target.role is ObjectRole.AREA:
            return self._world.spot(thing.name, target)
        x, y, z = target.position_m
        half_m = thing.size_m[2] / 2.0
        fits = all(thing.size_m[axis] <= target.size_m[axis] - 2.0 * WALL_M for axis in (0, 1))
        if target.role is not ObjectRole.CONTAINER or not fits:
            return x, y, target.top_m + half_m
        inside = [
            o for o in self._world.objects.values() if o.name not in (thing.name, target.name) and _is_in(o, target)
        ]
        free_m = [max(0.0, (target.size_m[a] - thing.size_m[a]) / 2.0 - 2.0 * WALL_M) for a in (0, 1)]
        places = [(x + i * free_m[0], y + j * free_m[1]) for i in (0, 1, -1) for j in (0, 1, -1)]
        place = min(places, key=lambda p: _height_at(p, thing, inside))
        bottom_m = max(_height_at(place, thing, inside), z - target.size_m[2] / 2.0 + WALL_M)
        return (*place, bottom_m + half_m)

    def _push(self, job: Job) -> Course:
        """Pushes from behind, a short way at a time, and looks where the thing went."""
        course = self._body.plan(job)
        name, end = job.names[0], course.motions[-1].end
        name = self._world.one(name).name
        self._may_touch = name
        self._port.grip(is_open=False)
        goal = np.array([end.x_m, end.y_m])
        for _ in range(NUM_PUSHES):
            self._survey()
            thing = self._world.objects[name]
            way = goal - np.array(thing.position_m[:2])
            left_m = float(np.linalg.norm(way))
            if left_m < PUSHED_M:
                break
            ahead = way / left_m
            behind_m = _extent(thing, ahead) + PUSH_TIP_M
            low_m = thing.position_m[2] - thing.size_m[2] / 2.0 + max(0.006, 0.25 * thing.size_m[2])
            start = np.array(thing.position_m[:2]) - ahead * (behind_m + 0.004)
            if math.dist(self._tool, (*start, low_m)) > 0.02:
                yield from self._travel((float(start[0]), float(start[1]), low_m))
            step = start + ahead * (min(PUSH_STEP_M, left_m) + 0.004)
            yield from self._reach((float(step[0]), float(step[1]), low_m))
        else:
            raise SkillFailedError(f"{name} does not go where it is pushed")
        target = self._world.one(job.names[1])
        support = target.name if target.role is ObjectRole.AREA else target.support
        self._world.move(name, self._world.objects[name].position_m, support)
        yield from self._rise()
        return None

    def _travel(self, point: Point) -> Course:
        """Goes over everything to a point: up, across, down."""
        x, y, z = self._tool
        if math.dist((x, y), point[:2]) > 0.01:
            over_m = max(self._over_m, point[2])
            if z < over_m - 0.01:
                yield from self._reach_high((x, y, over_m))
            yield from self._reach_high((point[0], point[1], over_m))
        yield from self._reach(point)
        return None

    def _rise(self) -> Course:
        """Goes just off what was grasped or let go; the next way goes higher by itself."""
        x, y, z = self._tool
        yield from self._reach_high((x, y, z + LIFT_M))
        return None

    def _reach_high(self, point: Point) -> Course:
        """Goes to a point, or to the highest one below it that can be reached."""
        x, y, z = point[0], point[1], min(point[2], self._space.z_m[1])
        for lower_m in (0.0, 0.05, 0.1, 0.15, 0.2):
            legs = self._legs((x, y, z - lower_m))
            if legs is not None:
                yield from self._follow(legs)
                return None
        yield from self._reach(point)
        return None

    def _reach(self, point: Point) -> Course:
        legs = self._legs(point)
        if legs is None:
            x, y, z = point
            raise SkillFailedError(f"({x:.2f}, {y:.2f}, {z:.2f}) m is unreachable from above, inside the workspace")
        yield from self._follow(legs)
        return None

    def _follow(self, legs: Sequence[Joints]) -> Course:
        for joints in legs:
            self._port.move(joints)
            yield None
        return None

    def _legs(self, point: Point) -> tuple[Joints, ...] | None:
        return joint_legs(self._chain, self._space, tuple(self._telemetry.joints), point)

    @property
    def _over_m(self) -> float:
        """Height of the tool at which it, and what it holds, passes over all that lies there."""
        reach_m = self._space.reach_m[1]
        near = (o for o in self._world.objects.values() if math.hypot(*o.position_m[:2]) < reach_m)
        things = [o for o in near if o.role is not ObjectRole.AREA]
        held = self._telemetry.held
        top_m = max((o.top_m for o in things if o.name != held), default=0.0)
        hangs_m = self._world.objects[held].size_m[2] if held in self._world.objects else 0.0
        return top_m + hangs_m + CLEARANCE_M

    @property
    def _tool(self) -> Point:
        pose = self._telemetry.pose
        return pose.x_m, pose.y_m, pose.z_m


def _is_in(thing: WorldObject, container: WorldObject) -> bool:
    pairs = zip(thing.position_m, container.position_m, container.size_m, strict=True)
    return all(abs(p - c) < size / 2.0 for p, c, size in pairs)


def _height_at(place: tuple[float, float], thing: WorldObject, others: list[WorldObject]) -> float:
    """Returns how high the things are that lie where another one would be put."""
    tops = [
        other.top_m
        for other in others
        if all(abs(place[a] - other.position_m[a]) < (thing.size_m[a] + other.size_m[a]) / 2.0 for a in (0, 1))
    ]
    return max(tops, default=-math.inf)


def _extent(thing: WorldObject, ahead: np.ndarray) -> float:
    """Returns how far a box reaches from its centre against a direction."""
    sides = [thing.size_m[a] / 2.0 / max(1e-9, abs(float(ahead[a]))) for a in (0, 1)]
    return min(sides)
