# SPDX-License-Identifier: Apache-2.0
"""A real Indy7 as a driver: the skills of the robot model as joint targets and gripper orders, one at a time.

What a skill does to the world (who holds what, what lies where) is planned and judged by ``ArmBody``, exactly as for
the kinematic arm; where objects are, the map says. That the gripper holds something is believed: it has no sensor.
"""

import math
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, Protocol, runtime_checkable

from llm_planner.core.skill import SkillCall
from llm_planner.robots.arm import ArmBody
from llm_planner.robots.body import BodyState, Course, Job
from llm_planner.robots.driver import (
    PermanentFailureError,
    SkillFailedError,
    SkillResult,
    SkillStatus,
    argument_problem,
    failed,
)
from llm_planner.robots.duration import skill_duration
from llm_planner.robots.effect import Ask, Effect, Grasp, Gripper, Place, Push, Stop, TakePicture
from llm_planner.robots.model import Pose, RobotModel
from llm_planner.robots.robot_driver import MapSight, TrackMemory
from llm_planner.robots.shape import ChainBody
from llm_planner.robots.tool_path import Joints, Kinematics, search_joint_legs
from llm_planner.robots.track import Track
from llm_planner.robots.world import World

UNSUPPORTED = (TakePicture, Ask, Push)  # effects of skills
NEEDS_GRIPPER = (Grasp, Place, Gripper)
CLEARANCE_M = 0.1  # over an object, and what it lies in, before and after it is grasped or placed
LEAST_CLEARANCE_M = 0.02  # where the workspace leaves no more
STILL_DEG = 0.5  # a target that near is not sent: Neuromeka's driver would wait for a motion that never begins
GRIP_S = 1.0  # for the fingers, once the order has left: assumed
STOP_LIMIT_S = 2.0
MARGIN_S = 10.0  # over twice the time that the robot model expects
ATTENTION_S = 0.25
MAX_PERCENT, MAX_M_PER_S, MAX_DEG_PER_S = 25, 0.5, 37.5  # of the joints' speed: never more, and what that comes to
UNKNOWN = "nothing is received from the arm, so where it is is not known"
LOST = "the arm did not stop when it was told to; stop it again, and if that fails, start its node again"
CHECK_GRIPPER = "check the gripper: an order to it was cut short, so what it holds is not known; open it first"
UNKNOWN_HAND = (
    "what the gripper has held since before the arm was connected is not known; say 'open the gripper' first, where "
    "what it may hold can fall"
)


def speed_percent(model: RobotModel) -> int:
    """Returns the percentage of the joints' speed that a robot model allows, rounded down; at most ``MAX_PERCENT``."""
    limits, share = model.speed_limits, 1.0
    if isinstance(model.body, ChainBody):
        share = model.body.speed_share.value
    limited = min(1.0, limits.translation_m_per_s / MAX_M_PER_S, limits.rotation_deg_per_s / MAX_DEG_PER_S)
    return math.floor(min(100.0 * share, MAX_PERCENT * limited) + 1e-9)


class ArmPort(Protocol):
    """The way to an arm's controller; nothing blocks, everything may be called at any time."""

    def joints_deg(self) -> Joints | None:
        """Returns where the joints are; None if nothing was received lately."""
        ...

    def move(self, joints_deg: Joints) -> None:
        """Begins to move all joints; what was ordered before must have ended, a stop too."""
        ...

    def ending(self) -> str | None:
        """Returns how the last order stands: None while it goes on, an empty text for success, or why it failed.

        A stop goes on until the arm is known to stand.
        """
        ...

    def stop(self) -> None:
        """Stops the motion at once, past everything else that was asked."""
        ...

    def close(self) -> None:
        """Stops, and frees everything."""
        ...


@runtime_checkable
class GrippingPort(ArmPort, Protocol):
    """The same of an arm that has a gripper."""

    def grip(self, *, is_open: bool) -> None:
        """Opens or closes the gripper at once, past everything else that was asked, which goes on; a stop too."""
        ...

    def grip_ending(self) -> str | None:
        """Returns how the last order to the gripper stands, as ``ending`` does for the joints."""
        ...


@dataclass(frozen=True, slots=True)
class _Step:
    """A target of the tool, or an order to the gripper; ``finishes`` if the call has its effect with it."""

    target: Pose | None = None
    is_open: bool = False
    finishes: bool = False


class Indy7Driver(MapSight, TrackMemory):
    """Executes one call at a time (a ``SkillDriver``), in ticks.

    Args:
        model: Of the arm.
        port: To its controller; it has answered once.
        kinematics: Of the arm with its gripper.
    """

    def __init__(self, model: RobotModel, port: ArmPort, kinematics: Kinematics) -> None:
        self._model, self._port, self._kinematics = model, port, kinematics
        self._gripper = port if isinstance(port, GrippingPort) else None
        self._steps: deque[_Step] = deque()
        self._search: Iterator[None] | None = None  # for the legs of the step at work
        self._legs: deque[Joints] = deque()  # of that step
        self._grip: _Step | None = None  # the order to the gripper at work
        self._until_s: float | None = None  # of a gripper that moves
        self._is_moving = self._is_stopping = False
        self._is_lost = False  # a stop has failed, and none has succeeded since
        self._is_grip_unsure = False  # an order to the gripper was cut short; opening it ends the doubt
        self._is_hand_known = False  # until it was opened: who had the arm before may have left something in it
        self._course: Course | None = None
        self._limit_s = 0.0
        self._result = SkillResult(SkillStatus.SUCCEEDED)
        self._body = ArmBody(model, World(), random.Random(0))
        self.enter(World())

    @property
    def model(self) -> RobotModel:
        """The robot's model."""
        return self._model

    @property
    def world(self) -> World:
        """The map."""
        return self._body.world

    @property
    def state(self) -> BodyState:
        """The pose of the tool by the joints as of the last tick; what is held; texts said."""
        return self._body.state

    def enter(self, world: World) -> None:
        """Takes another world for its map; the arm stops and stays where it is, and keeps what it holds."""
        self.halt(0.0)
        held, before = self.state.held, self.world
        self._body = ArmBody(self._model, world, random.Random(0), self._tool_pose())
        if held is not None:  # whatever the new map says of it: to grasp another thing would let it fall
            world.objects[held], self.state.held = before.objects[held], held
            self._body.carry()
        self._track = Track(self._body.state.pose)

    @property
    def target(self) -> Pose | None:
        """None: an arm does not get out of the way."""
        return None

    def start(self, call: SkillCall, now_s: float) -> None:
        """Begins a call. Raises RuntimeError if one is running: drivers are told one thing at a time."""
        if self._result.status is SkillStatus.RUNNING:
            raise RuntimeError(f"{call.name} started while another skill runs")
        self._result = SkillResult(SkillStatus.RUNNING)
        try:
            self._begin(call, now_s)
        except SkillFailedError as failure:
            self._give_up(failure)

    def tick(self, now_s: float) -> SkillResult:
        """Goes on with the call and returns how it stands."""
        self._look(now_s)
        if self._result.status is SkillStatus.RUNNING:
            try:
                self._go_on(now_s)
            except SkillFailedError as failure:
                self._give_up(failure)
        return self._result

    def halt(self, _now_s: float) -> None:
        """Stops the arm where it is; the call counts as failed."""
        if self._result.status is SkillStatus.RUNNING:
            self._port.stop()
            self._give_up(SkillFailedError("halted"))

    def attend(self, now_s: float) -> float:
        """Looks where the arm is; returns after how many seconds to be called again."""
        self._look(now_s)
        return ATTENTION_S

    def _begin(self, call: SkillCall, now_s: float) -> None:
        skill = self._model.skills.get(call.name)
        if skill is None:
            raise PermanentFailureError(f"there is no skill {call.name}")
        if problem := argument_problem(skill, call.arguments):
            raise SkillFailedError(problem)
        if isinstance(skill.effect, UNSUPPORTED):
            raise PermanentFailureError(f"this driver cannot {skill.effect.kind}")
        if isinstance(skill.effect, NEEDS_GRIPPER) and self._gripper is None:
            raise PermanentFailureError("this driver knows no gripper")
        self._is_stopping = isinstance(skill.effect, Stop)
        if self._is_stopping:
            self._port.stop()
            self._limit_s = now_s + STOP_LIMIT_S
            return
        lets_go = isinstance(skill.effect, Gripper) and skill.effect.is_open  # a hand may be in it
        if self._is_lost and not lets_go:
            raise PermanentFailureError(LOST)
        job = Job(skill, call.arguments, now_s)
        course = self._body.plan(job)
        if course.motions and self._is_grip_unsure:
            raise SkillFailedError(CHECK_GRIPPER)
        if isinstance(skill.effect, Grasp) and not self._is_hand_known:
            raise PermanentFailureError(UNKNOWN_HAND)  # another plan would open it, and let that fall
        steps = self._steps_of(skill.effect, job, course)
        self._course = course
        self._steps.extend(steps)
        self._limit_s = now_s + MARGIN_S + 2.0 * skill_duration(skill, job.number).p90_s
        if lets_go:
            self._step(self._steps.popleft())

    def _steps_of(self, effect: Effect, job: Job, course: Course) -> list[_Step]:
        """Returns what the arm does for a course: grasping and placing come and go from above."""
        if isinstance(effect, Gripper):
            return [_Step(is_open=effect.is_open, finishes=True)]
        targets = [motion.end for motion in course.motions]
        if not isinstance(effect, Grasp | Place) or not targets:
            return [_Step(target) for target in targets]
        at = targets[-1]
        above = replace(at, z_m=self._over_m(job.names, at.z_m))
        opens_first = [_Step(is_open=True)] if isinstance(effect, Grasp) else []
        grip = _Step(is_open=isinstance(effect, Place), finishes=True)
        return [*opens_first, _Step(above), _Step(at), grip, _Step(above)]

    def _over_m(self, names: Sequence[str], at_m: float) -> float:
        """Returns how high the tool comes and goes: with a thing in its fingers over what that lies, or will lie, in.

        Args:
            names: Of the thing, and of where it is placed.
            at_m: The height of the thing's centre there.

        Raises:
            SkillFailedError: The workspace ends below that.
        """
        thing, objects = self.world.objects[names[0]], self.world.objects
        around = objects.get(names[1] if len(names) > 1 else thing.support or "")
        half_m = thing.size_m[2] / 2.0
        needed_m = half_m + max(at_m, around.top_m if around else 0.0)
        over_m = min(needed_m + CLEARANCE_M, self._body.space.z_m[1])
        if over_m < needed_m + LEAST_CLEARANCE_M:
            raise SkillFailedError(
                f"there is no room over {(around or thing).name}: the workspace ends at {over_m:g} m"
            )
        return over_m

    def _go_on(self, now_s: float) -> None:
        if now_s >= self._limit_s:
            self._end_late()
        if self._grip is not None:
            self._go_on_gripping(self._grip, now_s)
        elif self._search is None:
            self._go_on_moving(now_s)
        elif next(self._search, True):
            self._search = None

    def _go_on_moving(self, now_s: float) -> None:
        """Ends the step at work, or begins the next one, or ends the call."""
        has_orders = self._is_stopping or self._is_moving or self._legs or self._steps
        ending = self._port.ending() if has_orders else ""
        if ending is None:  # of this call's order, or of a stop before it
            return
        if self._is_stopping:
            self._is_stopping = self._is_lost = False
            self._result = SkillResult(SkillStatus.SUCCEEDED)
        elif self._is_moving:
            self._is_moving = False
            if ending:
                raise SkillFailedError(ending)
        elif self._legs:
            self._move(self._legs.popleft())
        elif self._steps:
            self._step(self._steps.popleft())
        elif self._course is not None and (self._course.motions or now_s >= self._course.end_s):
            self._result = SkillResult(SkillStatus.SUCCEEDED, self._course.finish())
            self._course = None

    def _end_late(self) -> NoReturn:
        self._port.stop()
        if self._is_stopping:
            self._is_lost = True
            raise PermanentFailureError(LOST)
        raise SkillFailedError("the arm takes too long; is it stopped, or in collision?")

    def _step(self, step: _Step) -> None:
        if step.target is None:
            assert self._gripper is not None  # else the call was refused
            self._gripper.grip(is_open=step.is_open)
            self._grip = step
            return
        self._search = self._find_legs(step.target)

    def _find_legs(self, target: Pose) -> Iterator[None]:
        """Tries one leg at a time: to wait for all of them would keep a stop and the robot's heartbeats for seconds."""
        x, y, z = target.x_m, target.y_m, target.z_m
        legs = yield from search_joint_legs(self._kinematics, self._body.space, self._joints_deg(), (x, y, z))
        if legs is None:
            reason = f"the arm cannot reach ({x:.2f}, {y:.2f}, {z:.2f}) m from above, inside the workspace"
            raise SkillFailedError(reason)
        self._legs.extend(legs)

    def _go_on_gripping(self, step: _Step, now_s: float) -> None:
        """Waits for the fingers once the order has left; what the call does to the world is then done."""
        assert self._gripper is not None  # else there was no order
        ending = self._gripper.grip_ending()
        if ending is None:
            return
        if ending:
            raise SkillFailedError(ending)
        if self._until_s is None:
            self._until_s = now_s + GRIP_S
        elif now_s >= self._until_s:
            self._grip, self._until_s = None, None
            if step.is_open:
                self._is_grip_unsure, self._is_hand_known = False, True
            if step.finishes and self._course is not None:
                self._course.finish()
                self._course = replace(self._course, finish=lambda: None)

    def _move(self, joints: Joints) -> None:
        if max(abs(a - b) for a, b in zip(joints, self._joints_deg(), strict=True)) > STILL_DEG:
            self._port.move(joints)
            self._is_moving = True

    def _joints_deg(self) -> Joints:
        """Returns where the joints are.

        Raises:
            SkillFailedError: It is not known, so nothing may move.
        """
        joints = self._port.joints_deg()
        if joints is None:
            raise SkillFailedError(UNKNOWN)
        return joints

    def _give_up(self, failure: SkillFailedError) -> None:
        self._steps.clear()
        self._search = None
        self._legs.clear()
        self._is_grip_unsure |= self._grip is not None
        self._course, self._grip, self._until_s = None, None, None
        self._is_moving = self._is_stopping = False
        self._result = failed(failure)

    def _tool_pose(self) -> Pose:
        """Returns where the tool is, or was when that was known last."""
        joints = self._port.joints_deg()
        if joints is None:
            return self._body.state.pose
        x, y, z = self._kinematics.position_m(joints)
        return replace(self._model.start, x_m=x, y_m=y, z_m=z)

    def _look(self, now_s: float) -> None:
        pose = self._tool_pose()
        if pose != self._body.state.pose:
            self._body.state.pose = pose
            self._body.carry()
            self._track.note(now_s, pose)
