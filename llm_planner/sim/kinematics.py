# SPDX-License-Identifier: Apache-2.0
"""A robot without physics: moves by its duration model, sees by geometry, in whatever time it is ticked with."""

import bisect
import math
import random
from collections.abc import Callable, Mapping

from llm_planner.core.skill import SkillCall
from llm_planner.robots.arm import ArmBody
from llm_planner.robots.body import Body, BodyState, Course, Job
from llm_planner.robots.driver import SkillFailedError, SkillResult, SkillStatus, argument_problem, failed
from llm_planner.robots.mobile import MobileBody
from llm_planner.robots.model import Pose, RobotKind, RobotModel
from llm_planner.robots.motion import Motion
from llm_planner.robots.robot_driver import MapSight
from llm_planner.robots.world import World

FAILURE_TIME_S = 0.1  # a robot needs a moment to find out that it cannot
IDLE = SkillResult(SkillStatus.SUCCEEDED)


class KinematicDriver(MapSight):
    """Executes one call at a time (a ``SkillDriver``). The same seed, calls and times give the same run.

    Args:
        model: Of the robot.
        world: What the robot sees and changes.
        rng: Source of the noise of all durations.
        pose: Where to start; the model's start pose by default.
        failures: ``(skill, n) -> reason``: the n-th call of a skill, from 1, fails. For tests.
    """

    def __init__(
        self,
        model: RobotModel,
        world: World,
        rng: random.Random,
        *,
        pose: Pose | None = None,
        failures: Mapping[tuple[str, int], str] | None = None,
    ) -> None:
        body = ArmBody if model.kind is RobotKind.ARM else MobileBody
        self._body: Body = body(model, world, rng, pose)
        self._failures = dict(failures or {})
        self._num_calls: dict[str, int] = {}
        self._course: Course | None = None
        self._result = IDLE
        self._start_pose = self.state.pose
        self._history: list[tuple[Motion, float]] = []  # every motion, and until when it was followed

    @property
    def model(self) -> RobotModel:
        """The robot's model."""
        return self._body.model

    @property
    def world(self) -> World:
        """The world as it is now."""
        return self._body.world

    @property
    def state(self) -> BodyState:
        """The pose as of the last tick, held object, texts said, pictures taken."""
        return self._body.state

    @property
    def end_s(self) -> float | None:
        """When the running call will be over; None when idle. Lets virtual time jump."""
        return self._course.end_s if self._course else None

    @property
    def target(self) -> Pose | None:
        """Where the present motion leads; None while it stands."""
        motions = self._course.motions if self._course else ()
        return motions[-1].end if motions else None

    def start(self, call: SkillCall, now_s: float) -> None:
        """Begins a call. Raises RuntimeError if one is running: drivers are told one thing at a time."""
        if self._course is not None:
            raise RuntimeError(f"{call.name} started while another skill runs")
        try:
            self._course = self._plan(call, now_s)
        except SkillFailedError as failure:
            self._course = Course(now_s + FAILURE_TIME_S, finish=_failing(failure))
        self._result = SkillResult(SkillStatus.RUNNING)
        self._history += [(motion, motion.end_s) for motion in self._course.motions]

    def tick(self, now_s: float) -> SkillResult:
        """Moves the robot to where it is at ``now_s`` and returns how the call stands."""
        course = self._course
        if course is None:
            return self._result
        self._follow(course, now_s)
        if now_s >= course.end_s:
            self._course = None
            try:
                self._result = SkillResult(SkillStatus.SUCCEEDED, course.finish())
            except SkillFailedError as failure:
                self._result = failed(failure)
        return self._result

    def halt(self, now_s: float) -> None:
        """Stops where the robot is at ``now_s``; what would have happened at the end does not happen."""
        if self._course is None:
            return
        self._follow(self._course, now_s)
        self._course = None
        self._result = SkillResult(SkillStatus.FAILED, reason="halted")
        self._history = [(motion, min(until_s, now_s)) for motion, until_s in self._history if motion.start_s <= now_s]

    def attend(self, _now_s: float) -> float:
        """Does nothing: this robot stays as it is for ever."""
        return math.inf

    def pose_at(self, time_s: float) -> Pose:
        """Returns where the robot was at a past time."""
        index = bisect.bisect_right(self._history, time_s, key=lambda entry: entry[0].start_s)
        if index == 0:
            return self._start_pose
        motion, until_s = self._history[index - 1]
        return motion.pose_at(min(time_s, until_s))

    def forget(self, before_s: float) -> None:
        """Drops the motions that are needed for earlier times only."""
        index = bisect.bisect_right(self._history, before_s, key=lambda entry: entry[0].start_s)
        del self._history[: max(0, index - 1)]

    def _plan(self, call: SkillCall, now_s: float) -> Course:
        skill = self.model.skills.get(call.name)
        if skill is None:
            raise SkillFailedError(f"there is no skill {call.name}")
        problem = argument_problem(skill, call.arguments)
        if problem:
            raise SkillFailedError(problem)
        count = self._num_calls[skill.name] = self._num_calls.get(skill.name, 0) + 1
        if (skill.name, count) in self._failures:
            raise SkillFailedError(self._failures[skill.name, count])
        return self._body.plan(Job(skill, call.arguments, now_s))

    def _follow(self, course: Course, now_s: float) -> None:
        begun = [motion for motion in course.motions if motion.start_s <= now_s]
        if begun:
            self.state.pose = begun[-1].pose_at(now_s)
            self._body.carry()


def _failing(failure: SkillFailedError) -> Callable[[], None]:
    def fail() -> None:
        raise failure

    return fail
