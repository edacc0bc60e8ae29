# SPDX-License-Identifier: Apache-2.0
"""What drivers of robots with bodies have in common: a call is a course of orders, waited for in ticks.

What a skill means is planned by the same code as for the kinematic robot (``MobileBody``, ``ArmBody``); how long it
takes, and whether it succeeds, the physical world decides.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import replace
from typing import Generic, TypeVar

from llm_planner.core.skill import SkillCall, Value
from llm_planner.robots.body import Body, BodyState, Job
from llm_planner.robots.driver import (
    PermanentFailureError,
    SkillFailedError,
    SkillResult,
    SkillStatus,
    argument_problem,
    failed,
)
from llm_planner.robots.model import Pose, RobotModel
from llm_planner.robots.robot_driver import TrackMemory
from llm_planner.robots.track import Track
from llm_planner.robots.world import World, WorldObject
from llm_planner.sim.physics.port import RobotPort, Telemetry

PortT_co = TypeVar("PortT_co", bound=RobotPort, covariant=True)
Course = Generator[float | None, None, Value | None]
"""Yields a time to wait for, or None to wait until the body has settled; returns the value of the call."""

LATE_S = 8.0  # a motion that takes this long has not arrived
ATTENTION_S = 0.1
LOST = "nothing is received from the robot's body; see that its world runs and is connected"


class PhysicsDriver(TrackMemory, ABC, Generic[PortT_co]):
    """Executes one call at a time (a ``RobotDriver``). Times are those of its present world, from 0.

    Args:
        model: Of the robot, with a body.
        port: To that body.
    """

    def __init__(self, model: RobotModel, port: PortT_co) -> None:
        self._model, self._port = model, port
        self._result = SkillResult(SkillStatus.SUCCEEDED)
        self._course: Course | None = None
        self._wait_s: float | None = None
        self._target: Pose | None = None
        self._limit_s = 0.0
        self._epoch_s = self._zero_s = self._read_at_s = 0.0
        self._world = World()
        self._track = Track(model.start)
        self._body = self._body_at(model.start, World())
        self._telemetry = Telemetry(time_s=0.0, pose=model.start, is_settled=True)
        self._touched: list[str] = []  # since the call began

    @property
    def model(self) -> RobotModel:
        """The robot's model."""
        return self._model

    @property
    def world(self) -> World:
        """What there is, as of the end of the last call: for the judge of it. The robot itself only ``senses``."""
        return self._world

    @property
    def state(self) -> BodyState:
        """By its own account, as of the last tick."""
        return self._body.state

    @property
    def target(self) -> Pose | None:
        """Where the present motion leads; None while it stands."""
        return self._target if self._result.status is SkillStatus.RUNNING else None

    def in_sight(self, now_s: float) -> tuple[WorldObject, ...]:
        """Returns what nothing hides from the robot."""
        self._read(now_s)
        return tuple(dated(thing, self._read_at_s) for thing in self._port.look())

    def noticed(self, _now_s: float) -> tuple[WorldObject, ...]:
        """Returns what it noticed at the last tick that moves.

        Dated by the caller's clock then: a world that was slow, or lost for a while, is behind it.
        """
        return tuple(dated(thing, self._read_at_s) for thing in self._telemetry.near)

    def enter(self, world: World, pose: Pose | None, epoch_s: float) -> None:
        """Takes another world; its time starts at 0 when the robot's clock shows ``epoch_s``.

        Raises:
            PlannerError: INVALID_POSE or INVALID_CONFIG for a world that cannot be.
        """
        start = pose or self._model.start
        self._zero_s = self._port.enter(tuple(world.objects.values()), start)
        self._epoch_s = epoch_s
        self._result, self._course = SkillResult(SkillStatus.SUCCEEDED), None
        self._body = self._body_at(start, World(answers=world.answers))
        self._world = World(world.objects.values(), world.answers)
        self._track = Track(start)
        self._read(0.0)
        self._survey()

    def start(self, call: SkillCall, now_s: float) -> None:
        """Begins a call. Raises RuntimeError if one is running: drivers are told one thing at a time."""
        if self._result.status is SkillStatus.RUNNING:
            raise RuntimeError(f"{call.name} started while another skill runs")
        self._result, self._target = SkillResult(SkillStatus.RUNNING), None
        self._read(now_s)
        self._touched.clear()
        try:
            self._course = self._begin(call)
            self._advance()
        except SkillFailedError as failure:
            if self._telemetry.is_lost:
                self._port.stop()  # it may receive this all the same
            self._fail(failure)

    def tick(self, now_s: float) -> SkillResult:
        """Goes on with the call and returns how it stands."""
        self._read(now_s)
        if self._result.status is SkillStatus.RUNNING:
            try:
                self._require_message()
                self._watch()
                if self._has_waited():
                    self._advance()
            except SkillFailedError as failure:
                self._port.stop()
                self._fail(failure)
        return self._result

    def halt(self, now_s: float) -> None:
        """Stops at once; the call counts as failed."""
        if self._result.status is SkillStatus.RUNNING:
            self._read(now_s)
            self._port.stop()
            self._fail(SkillFailedError("halted"))

    def attend(self, now_s: float) -> float:
        """Looks where the robot is; returns after how many seconds to call again."""
        self._read(now_s)
        return ATTENTION_S

    def _begin(self, call: SkillCall) -> Course:
        self._require_message()
        skill = self._model.skills.get(call.name)
        if skill is None:
            raise PermanentFailureError(f"there is no skill {call.name}")
        if problem := argument_problem(skill, call.arguments):
            raise SkillFailedError(problem)
        return self._course_of(Job(skill, call.arguments, self._now_s))

    @abstractmethod
    def _course_of(self, job: Job) -> Course:
        """Returns the course of a call: how this robot does it."""

    @abstractmethod
    def _body_at(self, pose: Pose, world: World) -> Body:
        """Returns what knows the meaning of skills."""

    @abstractmethod
    def _watch(self) -> None:
        """Raises SkillFailedError if something has happened that ends the call."""

    def _require_message(self) -> None:
        if self._telemetry.is_lost:
            raise SkillFailedError(LOST)

    def _advance(self) -> None:
        assert self._course is not None
        try:
            self._wait_s = next(self._course)
            self._limit_s = self._now_s + LATE_S
        except StopIteration as end:
            self._course = None
            self._result = SkillResult(SkillStatus.SUCCEEDED, end.value)
            self._survey()

    def _has_waited(self) -> bool:
        if self._wait_s is not None:
            return self._now_s >= self._wait_s
        if not self._telemetry.is_settled and self._now_s > self._limit_s:
            raise SkillFailedError("did not arrive; something is in the way")
        return self._telemetry.is_settled

    def _fail(self, failure: SkillFailedError) -> None:
        self._course = None
        self._result = failed(failure)
        self._survey()

    @property
    def _now_s(self) -> float:
        """Time of the last telemetry."""
        return self._telemetry.time_s - self._zero_s

    def _read(self, now_s: float) -> None:
        self._telemetry, self._read_at_s = self._port.read(self._zero_s + now_s), now_s
        self._touched += self._telemetry.collisions
        pose = self._telemetry.pose
        if pose != self._body.state.pose:
            self._body.state.pose = pose
            self._track.note(now_s, pose)

    def _survey(self) -> None:
        """Brings the world for judges up to date."""
        self._world.objects = {thing.name: dated(thing, self._now_s) for thing in self._port.survey()}

    def _look(self) -> None:
        """Fills the body's own world with what is in sight now."""
        self._body.world.objects = {thing.name: dated(thing, self._now_s) for thing in self._port.look()}


def dated(thing: WorldObject, now_s: float) -> WorldObject:
    """Returns an object that is somewhere now as one that was elsewhere at time 0."""
    x, y, z = (p - v * now_s for p, v in zip(thing.position_m, thing.velocity_m_per_s, strict=True))
    return replace(thing, position_m=(x, y, z))
