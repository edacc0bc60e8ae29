# SPDX-License-Identifier: Apache-2.0
"""A robot in real time, or faster: driver, executor, reflex and clock in one hand."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.pose import Pose
from llm_planner.core.segment import Segment, SegmentReport, Situation
from llm_planner.core.skill import SkillCall
from llm_planner.monitoring.robot_view import Thing
from llm_planner.robot_connection import RobotConnection
from llm_planner.robots.dodge import SAMPLE_S, speed_to
from llm_planner.robots.executor import ExecutorState, SegmentExecutor
from llm_planner.robots.model import RobotModel
from llm_planner.robots.perception import visible
from llm_planner.robots.reflex import Reaction, Reflex
from llm_planner.robots.robot_driver import BatteryDriver, RobotDriver
from llm_planner.ros.snapshot import Log, Snapshot

REMEMBERED_S = 1.0  # where the robot was, of its own time: for its speed, and for the ends of its calls
BUSY_PERIOD_S, SHORTEST_PERIOD_S, IDLE_PERIOD_S = 0.02, 0.005, 0.25


class ReflexCause(Enum):
    """Why a robot acted without asking."""

    OBSTACLE = 1
    REFUSED = 2
    TOO_LATE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflexEvent:
    """A reflex has begun, or is over.

    Attributes:
        goal_id: Of the goal that it ended; empty if there was none.
        last_goal_id: Of the goal that had begun last when the reflex began, ended or not; empty before the first.
        action: What it does, in MiniSpec.
    """

    goal_id: str
    last_goal_id: str
    cause: ReflexCause
    reason: str
    action: str
    is_over: bool = False


class RobotControl:
    """Carries out the segments of one goal at a time. Safe to use from any thread; nothing blocks.

    What comes of a goal names it, and is dropped unless that goal is the current one: a message that was on its way
    while another goal took the place changes nothing. ``ros.control_loop`` ticks it from a thread of its own, so that
    neither a slow callback nor the network delays a reflex; what comes in between waits for the next tick: wake the
    loop. Its own clock starts at 0 with each world and runs ``time_scale`` times as fast as the given one. Durations in
    reports are in the time of the given clock, because that is what the planner waits for.

    Args:
        model: Of the robot.
        clock: Source of monotonic time.
        time_scale: How much faster than that the robot runs, > 0.
        connection: To its body; closed if it cannot begin with it.
        report: Gets every report at once, on whichever thread; must not block.
        on_reflex: Receives every reflex, likewise.
        on_stop: Receives why an order to stop failed, or an empty text if it was carried out or something else took
            over; and why a stop or a silence step failed that it called for itself, or repeats.

    Attributes:
        num_faults: How many unexpected errors have halted the robot, and how many stops and silence steps have failed.
        last_fault: What the last one was; empty without any.
    """

    def __init__(
        self,
        model: RobotModel,
        *,
        clock: Clock,
        time_scale: float,
        connection: RobotConnection,
        report: Callable[[SegmentReport], None],
        on_reflex: Callable[[ReflexEvent], None],
        on_stop: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._model = model
        self._clock = clock
        self._time_scale = time_scale
        self._connection = connection
        self._report_to = report
        self._on_reflex = on_reflex
        self._on_stop = on_stop
        self._lock = threading.RLock()
        self.num_faults, self.last_fault = 0, ""
        self._interrupted = ""  # id of the last goal that a reflex ended
        try:
            self._begin_in(*self._body_in(Snapshot(objects=())))
        except BaseException:
            connection.close()  # whoever made it does not get it back
            raise

    @property
    def is_active(self) -> bool:
        """Whether there is a goal to carry out."""
        return self._executor.state is ExecutorState.ACTIVE

    @property
    def unsupported_skills(self) -> frozenset[str]:
        """Skills of its model that its body cannot carry out."""
        return self._connection.unsupported_skills

    @property
    def has_battery(self) -> bool:
        """Whether its driver can say how full its battery is."""
        return isinstance(self._driver, BatteryDriver)

    @property
    def battery_share(self) -> float | None:
        """What is left in its battery, 0 to 1; None if that is not known."""
        with self._lock:
            return self._driver.battery_share if isinstance(self._driver, BatteryDriver) else None

    @property
    def is_in_reflex(self) -> bool:
        """Whether a reflex has begun that is not over."""
        return self._reflex_event is not None

    @property
    def is_stopping(self) -> bool:
        """Whether an order to stop has begun that has neither been carried out nor failed."""
        return self._is_stopping

    @property
    def is_unconfirmed(self) -> bool:
        """Whether a stop or a silence step failed, and is to be repeated."""
        return self._executor.is_unconfirmed

    @property
    def own_failure(self) -> str:
        """Why what it did last on its own account, or because of an order to stop, failed; empty if it did not."""
        return self._fault_of_stop or self._executor.own_failure

    @property
    def goal_id(self) -> str:
        """The current goal, or the last one; empty in a world in which none has begun."""
        return self._executor.request_id

    def wants_replan(self, goal_id: str) -> bool:
        """Whether the plan of a goal ended by asking for a new one; False if another goal has begun."""
        with self._lock:
            return goal_id == self.goal_id and self._executor.wants_replan

    @property
    def view(self) -> str:
        """Names of what the robot sees, the nearest first; of one that does not know where it is, nothing."""
        with self._lock:
            now_s, pose = self._now_s(), self._driver.state.pose
            if not pose.is_finite:
                return ""
            views = visible(self._model.camera, pose, self._driver.in_sight(now_s), now_s)
            return ", ".join(view.object.name for view in views)

    def _look_around(self) -> Situation:
        pose = self._driver.state.pose
        return Situation(scene=self.view, pose=pose if pose.is_finite else None)

    def enter(self, snapshot: Snapshot) -> None:
        """Puts the robot into a world; what it does ends. A stop that is not confirmed is called for again there.

        Raises:
            PlannerError: INVALID_WORLD for a real robot whose parameters do not allow it: where it is and what there
                is must not be set by every client that reaches its service. Nothing has changed then.
        """
        if not self._connection.takes_worlds:
            raise PlannerError(
                ErrorCode.INVALID_WORLD,
                "a real robot takes no world and no pose from an instruction; start its node with allow_world:=true if "
                "those who instruct it know where it is",
            )
        with self._lock:
            body, is_unconfirmed = self._body_in(snapshot), self.is_unconfirmed
            self._end_reflex()
            self._end_stop()
            self._executor.begin("", self._now_s())  # ends the segment at work, if there is one, and says so
            self._begin_in(*body)
            if is_unconfirmed:  # what may move does so in the next world too
                self._executor.stop(self._now_s(), "stopped")

    def _body_in(self, snapshot: Snapshot) -> tuple[RobotDriver, float]:
        """Returns the driver for a world, and when that world began, on the given clock."""
        born_at_s = self._clock.now_s()
        return self._connection.enter(snapshot.world, snapshot.pose, born_at_s * self._time_scale), born_at_s

    def _begin_in(self, driver: RobotDriver, born_at_s: float) -> None:
        self._driver, self._born_at_s = driver, born_at_s
        self._executor = SegmentExecutor(self._model, driver, self._report, self._look_around, self._note_unconfirmed)
        self._reflex = Reflex(self._model, unsupported=self.unsupported_skills)
        self._reflex_event: ReflexEvent | None = None
        self._is_stopping, self._fault_of_stop = False, ""  # why the driver broke down meanwhile
        self._must_halt_because = ""  # why, where an attempt has failed
        self._answer_by_s: float | None = None  # on the given clock; None if nothing is awaited
        self._log = Log(driver, 0.0)

    def begin(self, goal_id: str, *, is_chat: bool = False, answer_within_s: float | None = None) -> None:
        """Starts a new goal; what is left of the one before is halted.

        Args:
            goal_id: Of the goal.
            is_chat: Whether its segments are words to be read.
            answer_within_s: If no segment comes within this many seconds of the given clock, the reflex acts.

        Raises:
            Exception: Whatever the driver raises if it still cannot halt; then nothing has begun.
        """
        with self._lock:
            if self._must_halt_because:
                self._driver.halt(self._now_s())  # before that has worked, nothing begins
                self._must_halt_because = ""
            self._end_stop()
            self._fault_of_stop = ""
            self._executor.begin(goal_id, self._now_s(), is_chat=is_chat)
            self._answer_by_s = None if answer_within_s is None else self._clock.now_s() + answer_within_s
            self._log = Log(self._driver, self._now_s())

    def add(self, goal_id: str, segment: Segment) -> None:
        """Takes a segment of a goal; the next tick begins it if the robot is free."""
        with self._lock:
            if self._executor.add(goal_id, segment, self._now_s()):
                self._answer_by_s = None

    def complete(self, goal_id: str, num_segments: int, *, is_partial: bool = False) -> None:
        """Notes that nothing follows the first ``num_segments``; where a partial plan ends, the robot holds."""
        with self._lock:
            self._executor.expect(goal_id, num_segments, self._now_s(), is_partial=is_partial)

    def receive(self, at_s: float) -> None:
        """Notes when the planner last showed life, in the time of the given clock."""
        with self._lock:
            self._executor.receive((at_s - self._born_at_s) * self._time_scale)

    def cancel(self, goal_id: str, reason: str) -> None:
        """Halts at once and gives a goal up."""
        with self._lock:
            if goal_id == self.goal_id:
                self._answer_by_s = None
                self._executor.cancel(self._now_s(), reason)

    def stop(self, reason: str, calls: Sequence[SkillCall] = ()) -> bool:
        """Halts at once whatever it does, a reflex too, and gives the current goal up; returns whether it did anything.

        A stop before it that was not confirmed counts: the robot may still move.

        Args:
            reason: Why.
            calls: What it does then; the model's stop skill if empty.

        Raises:
            Exception: Whatever the driver raises; the goal has ended nevertheless, and the next tick halts again.
        """
        with self._lock:
            was_busy = self.is_active or self._executor.is_acting or self._executor.is_unconfirmed
            self._answer_by_s = None
            self._must_halt_because = reason  # until that has worked once
            self._end_stop()  # the one before
            self._fault_of_stop = ""
            self._executor.stop(self._now_s(), reason, calls)
            self._must_halt_because, self._is_stopping = "", True
            return was_busy

    def fail(self, reason: str) -> None:
        """Halts at once after an unexpected error; the current goal, if it is active, has failed.

        Raises:
            Exception: Whatever the driver raises; the goal has ended nevertheless.
        """
        with self._lock:
            now_s = self._now_s()
            self._answer_by_s = None
            self.num_faults, self.last_fault = self.num_faults + 1, reason
            self._must_halt_because = reason  # until that has worked once
            if self._is_stopping:
                self._is_stopping, self._fault_of_stop = False, reason
                self._on_stop(reason)
            try:
                self._executor.reflex(now_s, (), reason)
            except Exception:
                self._driver.halt(now_s)
                raise
            self._must_halt_because = ""

    def refuse(self, goal_id: str, reason: str) -> None:
        """Acts by reflex, because the planner has no answer to the emergency, unless one has ended the goal already."""
        with self._lock:
            if goal_id != self.goal_id or goal_id == self._interrupted:
                return
            now_s = self._now_s()
            things = self._driver.noticed(now_s)
            self._react(ReflexCause.REFUSED, self._reflex.answer_missing(self.pose, things, now_s, reason), now_s)

    def tick(self) -> float:
        """Goes on with whatever is to be done now; returns after how many seconds to tick again."""
        with self._lock:
            now_s = self._now_s()
            if reason := self._must_halt_because:
                self._driver.halt(now_s)
                self._must_halt_because = ""
                self._executor.reflex(now_s, (), reason)
            self._executor.tick(now_s)
            self._look(now_s)
            self._log.note(self._executor.calls)
            self._driver.forget(now_s - REMEMBERED_S)
            if not self._executor.is_acting:
                self._end_reflex()
                self._end_stop()
            return min(self._period_s(), max(SHORTEST_PERIOD_S, self._driver.attend(now_s) / self._time_scale))

    def close(self) -> None:
        """Makes the robot safe and lets it go; nothing may be called afterwards."""
        with self._lock:
            self._connection.close()

    def _look(self, now_s: float) -> None:
        """Lets the reflex see: where the robot is after this tick's motion, and what is there."""
        things, target = self._driver.noticed(now_s), self._driver.target
        pose = self._driver.state.pose
        reaction = self._reflex.look(
            pose,
            things,
            now_s,
            is_at_work=self.is_active,
            is_acting=self.is_in_reflex,
            target=target,
            speed_m_per_s=0.0 if target is None else speed_to(target, pose, self._driver.pose_at(now_s - SAMPLE_S)),
        )
        if reaction is not None:
            self._react(ReflexCause.OBSTACLE, reaction, now_s)
        elif self._answer_by_s is not None and self._clock.now_s() > self._answer_by_s and self.is_active:
            reason = "the time budget is over and no segment has come"
            self._react(ReflexCause.TOO_LATE, self._reflex.answer_missing(pose, things, now_s, reason), now_s)

    def _react(self, cause: ReflexCause, reaction: Reaction, now_s: float) -> None:
        """Interrupts the segment at work, which is reported as failed, and acts."""
        self._end_reflex()
        self._answer_by_s = None
        goal_id = self._executor.request_id if self.is_active or cause is ReflexCause.REFUSED else ""
        self._interrupted = goal_id or self._interrupted
        self._reflex_event = ReflexEvent(
            goal_id=goal_id,
            last_goal_id=self.goal_id,
            cause=cause,
            reason=reaction.reason,
            action=reaction.text,
        )
        self._executor.reflex(now_s, reaction.calls, f"reflex: {reaction.reason}")
        self._on_reflex(self._reflex_event)

    def _end_reflex(self) -> None:
        if self._reflex_event is not None:
            failure = f"; {self.own_failure}" if self.own_failure else ""
            reason = f"{self._reflex_event.reason}{failure}"
            self._on_reflex(replace(self._reflex_event, is_over=True, reason=reason))
            self._reflex_event = None

    def _end_stop(self) -> None:
        if self._is_stopping:
            self._is_stopping = False
            self._on_stop(self.own_failure)

    def _note_unconfirmed(self, reason: str) -> None:
        self.num_faults, self.last_fault = self.num_faults + 1, reason
        if not self._is_stopping:
            self._on_stop(reason)

    def _period_s(self) -> float:
        """Returns how long nothing can happen: at work, or where something moves, hardly any time."""
        moves = any(any(thing.velocity_m_per_s) for thing in self._driver.noticed(self._now_s()))
        if self.is_active or self._executor.is_acting or moves:
            return max(SHORTEST_PERIOD_S, BUSY_PERIOD_S / max(1.0, self._time_scale))
        return IDLE_PERIOD_S

    @property
    def pose(self) -> Pose:
        """Where it is now."""
        with self._lock:
            return self._driver.pose_at(self._now_s())

    def surroundings(self) -> tuple[Pose, str, tuple[Thing, ...]]:
        """Returns where it is now, what it holds (empty for nothing), and what it knows of, where that is now."""
        with self._lock:
            now_s = self._now_s()
            things = tuple(Thing.of(thing, now_s) for thing in self._driver.world.objects.values())
            return self._driver.pose_at(now_s), self._driver.state.held or "", things

    def snapshot(self) -> Snapshot:
        """Returns the robot and its world as they are, and what it did for the present goal."""
        with self._lock:
            return self._log.snapshot(self._executor.calls)

    def _now_s(self) -> float:
        return (self._clock.now_s() - self._born_at_s) * self._time_scale

    def _report(self, report: SegmentReport) -> None:
        self._report_to(replace(report, duration_s=report.duration_s / self._time_scale))
