"""One encounter in physics: drone, person, robot control, planner; what happened."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from llm_planner.bench.encounters.answering import Answering, Planner
from llm_planner.bench.encounters.scenario import Encounter
from llm_planner.core.clock import ManualClock
from llm_planner.core.errors import ErrorCode
from llm_planner.core.pose import Pose
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.segment import ZERO_DURATION, ReportStatus, Segment, SegmentReport
from llm_planner.physics.connection import PhysicsConnection
from llm_planner.physics.frame import Home
from llm_planner.physics.port import LocalPort
from llm_planner.physics.world import PhysicsWorld
from llm_planner.robots.dodge import SAMPLE_S, Mover, movers
from llm_planner.robots.model import RobotModel
from llm_planner.robots.motion import wrapped_deg
from llm_planner.robots.shape import Point
from llm_planner.robots.world import World
from llm_planner.serving.events import Finished, PlanComplete, SegmentReady

TICK_S = 0.02
ALARM_AHEAD_S = 4.0  # the robot asks for help if somebody would come too near within so long
SPARE_S = 0.1  # the answer shall be there so long before the reflex would act
LEAST_BUDGET_S = 0.1
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
    """What is used of ``ros.robot_control.RobotControl``: executor, reflex and patience of a robot node."""

    def begin(self, goal_id: str, *, is_chat: bool = False, answer_within_s: float | None = None) -> None:
        """Starts a new goal."""
        ...

    def add(self, segment: Segment) -> None:
        """Takes a segment."""
        ...

    def complete(self, num_segments: int, *, is_partial: bool = False) -> None:
        """Notes that nothing follows."""
        ...

    def refuse(self, reason: str) -> None:
        """Acts by reflex."""
        ...

    def tick(self) -> float:
        """Goes on."""
        ...


@dataclass(slots=True, kw_only=True)
class Trial:
    """What happened in one encounter. Times in seconds from its start; None for never.

    Attributes:
        least_gap_m: From the person's surface to the middle of the drone.
        budget_s: Until the planner's answer had to be there.
        answered_s: When its first segment reached the robot.
        used_s: When the robot had carried that segment out.
        flown_m: How far it flew from there until that, or until a reflex.
        plan: What it answered.
        end: How the planner ended the goal, if it did.
        reflexes: When each began, and why.
    """

    seed: int
    planner: str
    speed_m_per_s: float
    bearing_deg: float
    errand: str
    collided_with: tuple[str, ...] = ()
    least_gap_m: float = math.inf
    alarm_s: float | None = None
    budget_s: float | None = None
    answered_s: float | None = None
    used_s: float | None = None
    flown_m: float = 0.0
    plan: str = ""
    end: str = ""
    reflexes: list[tuple[float, str, str]] = field(default_factory=list)

    @property
    def is_in_time(self) -> bool:
        """Whether the planner's answer came within the budget."""
        return self.alarm_s is not None and self.answered_s is not None and self.within_s <= (self.budget_s or 0.0)

    @property
    def within_s(self) -> float:
        """From the alarm to the answer."""
        return math.inf if self.answered_s is None or self.alarm_s is None else self.answered_s - self.alarm_s


def run_trial(
    encounter: Encounter,
    planner: Planner,
    answering: Answering,
    model: RobotModel,
    make_control: Callable[..., Control],
) -> Trial:
    """Returns what happens in an encounter; virtual time, so that the same arguments give the same.

    Args:
        encounter: Which.
        planner: In which condition.
        answering: The planner.
        model: Of the drone.
        make_control: ``RobotControl``, or something with its signature.
    """
    return _Stage(encounter, planner, answering, model, make_control).run()


class _Stage:
    def __init__(
        self,
        encounter: Encounter,
        planner: Planner,
        answering: Answering,
        model: RobotModel,
        make_control: Callable[..., Control],
    ) -> None:
        if planner is Planner.NOBODY:
            model = replace(model, reflex=None)
        self._encounter, self._planner, self._answering, self._model = encounter, planner, answering, model
        self._world = PhysicsWorld(wind_m_per_s=WIND_M_PER_S, seed=encounter.seed)
        self._world.add_robot("drone", model, Home())
        connection = PhysicsConnection(model, LocalPort(self._world, "drone", model), encounter.seed)
        self._clock = ManualClock()
        self._goal_id = ""
        self._answered_at: Pose | None = None
        self._trial = Trial(
            seed=encounter.seed,
            planner=planner.value,
            speed_m_per_s=encounter.speed_m_per_s,
            bearing_deg=encounter.bearing_deg,
            errand=encounter.errand,
        )
        self._control = make_control(
            model,
            clock=self._clock,
            time_scale=1.0,
            connection=connection,
            report=self._on_report,
            on_reflex=self._on_reflex,
        )
        connection.enter(World([encounter.person]), model.start, 0.0)
        self._driver = connection.driver

    def run(self) -> Trial:
        """Runs the encounter to its end."""
        self._answering.begin()
        self._control.begin("errand")
        self._control.add(Segment(index=0, text=self._encounter.errand, calls=(), expected=ZERO_DURATION))
        self._control.complete(1)
        while self._clock.now_s() < self._encounter.ends_s + AFTER_S:
            self._clock.advance(TICK_S)
            self._control.tick()
            if self._planner is not Planner.NOBODY:
                self._watch()
                self._hear()
            self._measure()
        self._trial.collided_with = tuple(
            c.other.rpartition(":")[2] for c in self._world.collisions if c.robot == "drone"
        )
        return self._trial

    def _watch(self) -> None:
        """Asks for help as soon as the robot notices that somebody would come too near."""
        now_s, rule = self._clock.now_s(), self._model.reflex
        if self._trial.alarm_s is not None or rule is None:
            return
        coming = movers(self._driver.noticed(now_s), now_s)
        times = [
            (_meets_s(mover, self._driver.state.pose, self._velocity(), rule.distance_m), mover) for mover in coming
        ]
        soon = [(time_s, mover) for time_s, mover in times if time_s is not None]
        if not soon:
            return
        time_s, mover = min(soon, key=lambda pair: pair[0])
        budget_s = max(LEAST_BUDGET_S, time_s - rule.ahead_s - SPARE_S)
        self._trial.alarm_s, self._trial.budget_s, self._goal_id = now_s, budget_s, f"help-{self._encounter.seed}"
        self._goal_id += f"-{self._planner.name}"
        latency_s = self._model.network.latency_s.value
        self._control.begin(self._goal_id, answer_within_s=budget_s + 2.0 * latency_s + TICK_S)
        request = PlanRequest(
            request_id=self._goal_id,
            robot_id="drone",
            robot_model=self._model.name,
            instruction=f"a person is walking toward you from {_side(mover, self._driver.state.pose)}",
            urgency=Urgency.URGENT,
            time_utility=Urgency.URGENT.time_utility,
            time_budget_s=budget_s,
            start_pose=self._driver.state.pose,
        )
        self._answering.ask(request, now_s, self._planner)

    def _hear(self) -> None:
        """Takes what the planner says."""
        now_s = self._clock.now_s()
        for event in self._answering.take(now_s):
            match event:
                case SegmentReady(segment=segment):
                    if self._trial.answered_s is None:
                        self._trial.answered_s, self._answered_at = now_s, self._driver.state.pose
                    self._trial.plan += segment.text
                    self._control.add(segment)
                case PlanComplete(num_segments=num_segments, is_partial=is_partial):
                    self._control.complete(num_segments, is_partial=is_partial)
                case Finished(result=result):
                    self._trial.end = result.error_code.name
                    is_answered = self._trial.answered_s is not None
                    if not is_answered and result.error_code in _UNANSWERED and not self._trial.reflexes:
                        self._control.refuse(f"the planner has no answer: {result.error_code.name}")

    def _on_report(self, report: SegmentReport) -> None:
        now_s = self._clock.now_s()
        if report.request_id != self._goal_id:
            return
        if report.status is ReportStatus.SUCCEEDED and self._trial.used_s is None:
            self._trial.used_s = now_s
        self._answering.report(report, now_s)

    def _on_reflex(self, event: ReflexEvent) -> None:
        if not event.is_over:
            self._trial.reflexes.append((round(self._clock.now_s(), 3), event.reason, event.action))

    def _velocity(self) -> Point:
        """Returns how fast the drone believes to fly."""
        now_s = self._clock.now_s()
        here, before = self._driver.pose_at(now_s), self._driver.pose_at(now_s - SAMPLE_S)
        return ((here.x_m - before.x_m) / SAMPLE_S, (here.y_m - before.y_m) / SAMPLE_S, 0.0)

    def _measure(self) -> None:
        """Takes the distance from where drone and person really are."""
        drone, (person,) = self._world.drones["drone"], self._world.scene.things.values()
        assert person.walk is not None
        x, y, z = person.walk.at(self._world.time_s)[0]
        px, py, pz = (float(v) for v in drone.position)
        gap_m = Mover("person", (float(x), float(y), float(z)), person.known.size_m, (0.0, 0.0, 0.0)).gap_m(
            (px, py, pz), 0.0
        )
        is_answer_flown = self._answered_at is not None and not self._trial.reflexes and self._trial.used_s is None
        if is_answer_flown and self._answered_at is not None:
            self._trial.flown_m = _apart_m(self._answered_at, self._driver.state.pose)
        self._trial.least_gap_m = min(self._trial.least_gap_m, gap_m)


_UNANSWERED = frozenset({ErrorCode.BUDGET_INFEASIBLE, ErrorCode.BUDGET_EXCEEDED, ErrorCode.OVERLOADED})


def _meets_s(mover: Mover, pose: Pose, velocity: Point, near_m: float) -> float | None:
    """Returns when something comes near if both go on as they do; None if it does not, or not soon."""
    for number in range(int(ALARM_AHEAD_S / SAMPLE_S) + 1):
        time_s = number * SAMPLE_S
        point = (pose.x_m + velocity[0] * time_s, pose.y_m + velocity[1] * time_s, pose.z_m)
        if mover.gap_m(point, time_s) < 0.5 * near_m:
            return time_s
    return None


def _apart_m(one: Pose, two: Pose) -> float:
    return math.dist((one.x_m, one.y_m, one.z_m), (two.x_m, two.y_m, two.z_m))


def _side(mover: Mover, pose: Pose) -> str:
    """Returns where something is, in words, from where the drone looks."""
    bearing = math.degrees(math.atan2(mover.position_m[1] - pose.y_m, mover.position_m[0] - pose.x_m)) - pose.yaw_deg
    sides = ("the front", "the left", "behind", "the right")
    return sides[round(wrapped_deg(bearing) / 90.0) % 4]
