# SPDX-License-Identifier: Apache-2.0
"""One encounter in physics: drone, person, robot control, planner; what happened."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from llm_planner.core.clock import ManualClock
from llm_planner.core.errors import ErrorCode
from llm_planner.core.pose import Pose
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.segment import ZERO_DURATION, ReportStatus, Segment, SegmentReport
from llm_planner.robots.dodge import Mover
from llm_planner.robots.model import RobotModel
from llm_planner.robots.world import World
from llm_planner.serving.events import Finished, PlanComplete, SegmentReady
from llm_planner.sim.physics.connection import PhysicsConnection
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.port import LocalPort
from llm_planner.sim.physics.world import PhysicsWorld
from llm_planner_lab.bench.encounters.answering import Answering, Planner
from llm_planner_lab.bench.encounters.asking import alarm
from llm_planner_lab.bench.encounters.kinds import Asking
from llm_planner_lab.bench.encounters.outcome import Trial
from llm_planner_lab.bench.encounters.scenario import Encounter

TICK_S = 0.02
AFTER_S = 1.5  # watched behind the end
WIND_M_PER_S = 0.3


class ReflexEvent(Protocol):
    """What is used of ``ros.robot_control.ReflexEvent``."""

    @property
    def reason(self) -> str:
        """Why."""
        ...

    @property
    def action(self) -> str:
        """What it does."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether it is over."""
        ...


class Control(Protocol):
    """What is used of ``ros.robot_control.RobotControl``: executor, reflex and answer timeout of a robot node."""

    def begin(self, goal_id: str, *, is_chat: bool = False, answer_within_s: float | None = None) -> None:
        """Starts a new goal."""
        ...

    def add(self, goal_id: str, segment: Segment) -> None:
        """Takes a segment of a goal."""
        ...

    def complete(self, goal_id: str, num_segments: int, *, is_partial: bool = False) -> None:
        """Notes that nothing follows."""
        ...

    def refuse(self, goal_id: str, reason: str) -> None:
        """Acts by reflex."""
        ...

    def tick(self) -> float:
        """Goes on."""
        ...


def run_trial(
    encounter: Encounter,
    planner: Planner,
    answering: Answering,
    model: RobotModel,
    make_control: Callable[..., Control],
    asking: Asking = Asking.PASSES,
) -> Trial:
    """Returns what happens in an encounter; virtual time, so that the same arguments give the same.

    Args:
        encounter: Which.
        planner: In which condition.
        answering: The planner.
        model: Of the drone.
        make_control: ``RobotControl``, or something with its signature.
        asking: What the drone says when it asks.
    """
    return _Stage(encounter, planner, answering, model, make_control, asking).run()


class _Stage:
    def __init__(
        self,
        encounter: Encounter,
        planner: Planner,
        answering: Answering,
        model: RobotModel,
        make_control: Callable[..., Control],
        asking: Asking,
    ) -> None:
        self._encounter, self._planner, self._answering, self._model = encounter, planner, answering, model
        self._asking = asking
        body = replace(model, reflex=None) if planner in (Planner.ALONE, Planner.NEITHER) else model
        self._world = PhysicsWorld(wind_m_per_s=WIND_M_PER_S, seed=encounter.seed)
        self._world.add_robot("drone", model, Home())
        connection = PhysicsConnection(model, LocalPort(self._world, "drone", model), encounter.seed)
        self._clock = ManualClock()
        self._goal_id = ""
        self._begun_at: Pose | None = None
        self._num_segments: int | None = None  # of the answer
        self._carried_out, self._carried_out_s = 0, 0.0
        self._trial = Trial(
            seed=encounter.seed,
            begin=encounter.begin.value,
            planner=planner.value,
            asking=asking.value,
            errand=encounter.errand,
        )
        self._control = make_control(
            body,
            clock=self._clock,
            time_scale=1.0,
            connection=connection,
            report=self._on_report,
            on_reflex=self._on_reflex,
        )
        connection.enter(World([encounter.comer]), model.start, 0.0)
        self._driver = connection.driver

    def run(self) -> Trial:
        """Runs the encounter to its end."""
        self._answering.begin()
        self._control.begin("errand")
        self._control.add("errand", Segment(index=0, text=self._encounter.errand, calls=(), expected=ZERO_DURATION))
        self._control.complete("errand", 1)
        self._control.tick()
        while self._clock.now_s() < self._encounter.ends_s + AFTER_S:
            self._clock.advance(TICK_S)
            self._control.tick()
            if self._planner is not Planner.NEITHER:
                self._watch()
                self._receive()
            self._measure()
        self._trial.collided_with = tuple(
            c.other.rpartition(":")[2] for c in self._world.collisions if c.robot == "drone"
        )
        return self._trial

    def _watch(self) -> None:
        """Asks for help as soon as the robot notices that a mover would come too near."""
        if self._trial.alarm_s is not None:
            return
        now_s, encounter = self._clock.now_s(), self._encounter
        question = alarm(self._model, self._driver, now_s, encounter.kind, self._asking)
        if question is None:
            return
        self._trial.alarm_s, self._trial.budget_s = now_s, question.budget_s
        self._trial.instruction = question.instruction
        self._goal_id = f"help-{encounter.seed}-{self._planner.name}"
        latency_s = self._model.network.latency_s.value
        self._control.begin(self._goal_id, answer_within_s=question.budget_s + 2.0 * latency_s + TICK_S)
        request = PlanRequest(
            request_id=self._goal_id,
            robot_id="drone",
            robot_model=self._model.name,
            instruction=question.instruction,
            urgency=Urgency.URGENT,
            time_budget_s=question.budget_s,
            start_pose=self._driver.state.pose,
        )
        self._answering.ask(request, now_s, self._planner)

    def _receive(self) -> None:
        """Takes what the planner says."""
        now_s = self._clock.now_s()
        for event in self._answering.take(now_s):
            match event:
                case SegmentReady(segment=segment):
                    if self._trial.answered_s is None:
                        self._trial.answered_s = now_s
                    self._trial.plan += segment.text
                    self._control.add(self._goal_id, segment)
                    self._control.tick()
                case PlanComplete(num_segments=num_segments, is_partial=is_partial):
                    self._num_segments = num_segments
                    self._note_end()
                    self._control.complete(self._goal_id, num_segments, is_partial=is_partial)
                    self._control.tick()
                case Finished(result=result):
                    is_answered = self._trial.answered_s is not None
                    if not is_answered and result.error_code in _UNANSWERED and not self._trial.reflexes:
                        self._control.refuse(self._goal_id, f"the planner has no answer: {result.error_code.name}")

    def _on_report(self, report: SegmentReport) -> None:
        now_s = self._clock.now_s()
        if report.request_id != self._goal_id:
            return
        trial = self._trial
        match report.status:
            case ReportStatus.STARTED if trial.begun_s is None:
                trial.begun_s, self._begun_at = now_s, self._driver.state.pose
            case ReportStatus.SUCCEEDED:
                self._carried_out, self._carried_out_s = report.index + 1, now_s
                self._note_end()
            case ReportStatus.FAILED if trial.begun_s is not None and trial.broken_off_s is None:
                trial.broken_off_s = now_s
        self._answering.report(report, now_s)

    def _note_end(self) -> None:
        """Notes when the robot had carried the answer out; how long that was, the planner may say later."""
        if self._num_segments is not None and self._carried_out == self._num_segments:
            self._trial.ended_s = self._carried_out_s

    def _on_reflex(self, event: ReflexEvent) -> None:
        if not event.is_over:
            self._trial.reflexes.append((round(self._clock.now_s(), 3), event.reason, event.action))

    def _measure(self) -> None:
        """Takes the distance from where the two really are."""
        trial, drone, (thing,) = self._trial, self._world.drones["drone"], self._world.scene.things.values()
        assert thing.walk is not None
        x, y, z = (float(v) for v in thing.walk.at(self._world.time_s)[0])
        px, py, pz = (float(v) for v in drone.position)
        gap_m = Mover(thing.known.name, (x, y, z), thing.known.size_m, (0.0, 0.0, 0.0)).gap_m((px, py, pz), 0.0)
        if gap_m < trial.least_gap_m:
            trial.least_gap_m, trial.nearest_s = gap_m, self._clock.now_s()
        if self._begun_at is not None and trial.ended_s is None and trial.broken_off_s is None:
            trial.flown_m = _apart_m(self._begun_at, self._driver.state.pose)


_UNANSWERED = frozenset({ErrorCode.BUDGET_INFEASIBLE, ErrorCode.BUDGET_EXCEEDED, ErrorCode.OVERLOADED})


def _apart_m(one: Pose, two: Pose) -> float:
    return math.dist((one.x_m, one.y_m, one.z_m), (two.x_m, two.y_m, two.z_m))
