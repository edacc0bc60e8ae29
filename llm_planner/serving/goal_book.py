# SPDX-License-Identifier: Apache-2.0
"""The one store of goals: survives the loop, ends every goal exactly once, hands nothing out twice."""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from llm_planner.core.errors import ACHIEVED, ErrorCode, PlannerError
from llm_planner.core.request import AtDeadline, PlanMetrics, PlanRequest, PlanResult, Urgency
from llm_planner.core.segment import ReportStatus, Segment, SegmentMark, SegmentReport, marks_of
from llm_planner.scheduling.execution_tracker import ExecutionTracker, Reception
from llm_planner.serving.admission import Admission
from llm_planner.serving.events import Event, Finished, PlanComplete, SegmentReady
from llm_planner.serving.goal import History


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalState:
    """A goal at one moment, for readers only.

    Attributes:
        is_complete: Whether no segment will follow.
        is_partial: Whether that is so because the plan was closed to keep its time budget.
        result: How it ended; None while it is unfinished.
        finished_at_s: When it ended.
    """

    request: PlanRequest
    segments: tuple[Segment, ...]
    is_complete: bool
    is_partial: bool
    result: PlanResult | None
    finished_at_s: float | None


@dataclass(slots=True)
class GoalRecord:
    """One goal from its admission until it is forgotten.

    Attributes:
        delivered_at_s: Per segment, when it was delivered.
        reports: The robot's reports that counted, with the times when they were received.
        is_plan_complete: Whether no segment will follow.
        is_partial: Whether that is so because the plan was closed to keep its time budget.
        verdict: Why the plan said that the task cannot be achieved; None if it did not.
        alive_at_s: When its client last showed life; None until its first heartbeat.
        execution: Where its robot is.
    """

    request: PlanRequest
    arrival_s: float
    segments: list[Segment] = field(default_factory=list)
    delivered_at_s: list[float] = field(default_factory=list)
    reports: list[tuple[float, SegmentReport]] = field(default_factory=list)
    is_plan_complete: bool = False
    is_partial: bool = False
    verdict: PlannerError | None = None
    alive_at_s: float | None = None
    execution: ExecutionTracker = field(init=False)

    def __post_init__(self) -> None:
        self.execution = ExecutionTracker(self.arrival_s, network_latency_s=0.0)

    def overrun(self, now_s: float) -> AtDeadline | None:
        """Returns what happens because the time budget is over; None if it is not, or what it covers has come."""
        end_s = self.request.budget_ends_at_s(self.arrival_s, len(self.segments), self.is_plan_complete)
        return None if end_s is None or now_s <= end_s else self.request.at_deadline(len(self.segments))

    @property
    def state(self) -> GoalState:
        """The goal as it is, unfinished."""
        return GoalState(
            request=self.request,
            segments=tuple(self.segments),
            is_complete=self.is_plan_complete,
            is_partial=self.is_partial,
            result=None,
            finished_at_s=None,
        )

    def result(self, code: ErrorCode, message: str) -> PlanResult:
        """Returns an end that the loop did not decide; it knows no counts of tokens."""
        metrics = PlanMetrics()
        if self.delivered_at_s:
            response_time_s = self.delivered_at_s[0] - self.arrival_s
            utility = self.request.time_utility(response_time_s) if code in ACHIEVED else 0.0
            metrics = PlanMetrics(response_time_s=response_time_s, time_utility=utility)
        return PlanResult(
            request_id=self.request.request_id,
            error_code=code,
            error_msg=message,
            segments=tuple(self.segments),
            metrics=metrics,
            marks=self.marks,
        )

    @property
    def marks(self) -> tuple[SegmentMark, ...]:
        """How its segments went, by the robot's reports."""
        return marks_of(self.segments, (report for _, report in self.reports))


class GoalBook:
    """All goals that are unfinished, or finished not long ago: one record each, one lock. Never blocks for long.

    Action, re-sync, status, the budgets' alarm and the hand-over to another engine process read the same records.
    Whatever changes a goal announces it under the lock, so events leave in the order of the changes.

    Args:
        admission: Checks requests; ``admission`` may be replaced when the planner is configured again.
        post: Queues an event for the owner of the goals; called under the lock, so it neither blocks nor raises.
        client_timeout_s: A client whose heartbeats stop for this long is gone, > 0.
        memory_s: How long a finished goal is remembered, >= 0.

    Attributes:
        lock: Held where a goal must change, and an engine be told of it, in one step; re-entrant.
    """

    def __init__(
        self,
        admission: Admission | None = None,
        post: Callable[[Event], None] = lambda _: None,
        *,
        client_timeout_s: float = math.inf,
        memory_s: float = 0.0,
    ) -> None:
        self.admission = admission
        self.lock = threading.RLock()
        self._post = post
        self._client_timeout_s = client_timeout_s
        self._memory_s = memory_s
        self._records: dict[str, GoalRecord] = {}
        self._finished: dict[str, GoalState] = {}

    # --- What changes a goal

    def open(self, request: PlanRequest, now_s: float) -> Finished | None:
        """Enters a request; returns the end of the one that it supersedes, if any.

        Raises:
            PlannerError: If it is refused; then nothing has changed.
        """
        with self.lock:
            unfinished = {request_id: record.request for request_id, record in self._records.items()}
            self._skip_while_overrun(request, now_s)
            previous = None if self.admission is None else self.admission.check(request, unfinished)
            ended = None
            if previous is not None:
                message = f"superseded by the urgent goal {request.request_id}"
                ended = self.end(previous.request_id, ErrorCode.SUPERSEDED, message, now_s)
            self._records[request.request_id] = GoalRecord(request, now_s)
            return ended

    def accept(self, event: Event, now_s: float) -> Event | None:
        """Enters what the loop says; returns the event that was announced, None if it is outdated."""
        with self.lock:
            record = self._records.get(event.request_id)
            if record is None:
                return None
            if isinstance(event, SegmentReady):
                is_reopened = event.segment.is_replan  # a complete plan that failed goes on another way
                if event.segment.index != len(record.segments) or (record.is_plan_complete and not is_reopened):
                    return None
                record.is_plan_complete, record.verdict = False, None
                record.execution.deliver(event.segment, now_s)
                record.segments.append(event.segment)
                record.delivered_at_s.append(now_s)
            elif isinstance(event, PlanComplete):
                if record.is_plan_complete:
                    return None
                record.is_plan_complete, record.is_partial, record.verdict = True, event.is_partial, event.verdict
            else:
                result = replace(event.result, segments=tuple(record.segments), marks=record.marks)
                return self._finish(record, result, now_s)
            self._post(event)
            return event

    def end(self, request_id: str, code: ErrorCode, message: str, now_s: float) -> Finished | None:
        """Ends a goal without waiting for the loop; None if it has ended already."""
        with self.lock:
            record = self._records.get(request_id)
            return None if record is None else self._finish(record, record.result(code, message), now_s)

    def _finish(self, record: GoalRecord, result: PlanResult, now_s: float) -> Finished:
        del self._records[record.request.request_id]
        self._finished.pop(record.request.request_id, None)
        if self._memory_s:
            ended = replace(record.state, is_complete=True, result=result, finished_at_s=now_s)
            self._finished[record.request.request_id] = ended
        event = Finished(result)
        self._post(event)
        return event

    def _skip_while_overrun(self, request: PlanRequest, now_s: float) -> None:
        """Skip-Next (TimeBill, section 6.1): what a robot asks while its overrun goal is not complete is skipped.

        Deviation: an urgent goal is not the one that pays for another's overrun; it may take that one's place.
        """
        for record in self._records.values():
            is_skipping = record.overrun(now_s) is AtDeadline.GOES_ON
            if record.request.robot_id != request.robot_id or not is_skipping:
                continue
            if request.urgency is not Urgency.URGENT or record.request.urgency is Urgency.URGENT:
                raise PlannerError(
                    ErrorCode.BUDGET_EXCEEDED,
                    f"skipped: the robot's goal {record.request.request_id} has exceeded its time budget and goes on "
                    "(SKIP_NEXT); ask again when it has ended",
                )

    def take_overdue(self, now_s: float, *, is_engine_ready: bool) -> list[Event]:
        """Keeps the time budgets that the engine does not keep, because it is dead, starting, or in a long step.

        Returns what was announced: a goal of which nothing came has ended, a plan of strategy PARTIAL is closed. An
        engine that lives closes its plans itself: it knows what is on its way.
        """
        events: list[Event] = []
        with self.lock:
            for record in list(self._records.values()):
                request, overrun = record.request, record.overrun(now_s)
                if overrun is AtDeadline.IS_CLOSED and not is_engine_ready:
                    closed = PlanComplete(request.request_id, len(record.segments), is_partial=True)
                    events += filter(None, [self.accept(closed, now_s)])
                elif overrun is AtDeadline.ENDS:
                    message = f"nothing came from the engine within the time budget of {request.time_budget_s} s"
                    events.append(self._finish(record, record.result(ErrorCode.BUDGET_EXCEEDED, message), now_s))
        return events

    def report(self, report: SegmentReport, now_s: float) -> Reception | None:
        """Enters a robot's report; returns what it changed, None if the goal is unknown.

        A loop must be told of the reports that are not ignored, and of no other. Its segments are never fewer than
        those here, so it takes them as this book does.
        """
        with self.lock:
            record = self._records.get(report.request_id)
            if record is None:
                return None
            reception = record.execution.report(report, now_s)
            if reception is not Reception.IGNORED:
                record.reports.append((now_s, report))
            return reception

    def bounded(self, report: SegmentReport) -> SegmentReport:
        """Returns what is read of a report (``Admission.bounded``)."""
        return report if self.admission is None else self.admission.bounded(report)

    def end_all(self, code: ErrorCode, message: str, now_s: float) -> None:
        """Ends every goal."""
        for request_id in self.request_ids:
            self.end(request_id, code, message, now_s)

    # --- The client's life

    def note_life(self, goal_id: str, now_s: float, *, heartbeat: bool) -> None:
        """Notes a sign of life of a client; only a heartbeat makes the book expect further ones."""
        with self.lock:
            record = self._records.get(goal_id)
            if record is not None and (heartbeat or record.alive_at_s is not None):
                record.alive_at_s = now_s

    def abandoned(self, now_s: float) -> list[GoalState]:
        """Returns unfinished goals whose client has fallen silent."""
        with self.lock:
            return [
                record.state
                for record in self._records.values()
                if record.alive_at_s is not None and now_s - record.alive_at_s > self._client_timeout_s
            ]

    def forget(self, now_s: float) -> None:
        """Drops the goals that finished longer ago than the memory reaches."""
        with self.lock:
            self._finished = {
                goal_id: goal
                for goal_id, goal in self._finished.items()
                if goal.finished_at_s is None or now_s - goal.finished_at_s <= self._memory_s
            }

    # --- What others read

    def hand_over(self, request_id: str) -> tuple[PlanRequest, History] | None:
        """Returns what a loop needs to begin, or go on, with a goal; None if it has ended."""
        with self.lock:
            record = self._records.get(request_id)
            if record is None:
                return None
            history = History(
                arrival_s=record.arrival_s,
                delivered_at_s=tuple(record.delivered_at_s),
                reports=tuple(record.reports),
                is_plan_complete=record.is_plan_complete,
                is_partial=record.is_partial,
                verdict=record.verdict,
            )
            failures = tuple(report for _, report in record.reports if report.status is ReportStatus.FAILED)
            return replace(record.request, delivered=tuple(record.segments), failures=failures), history

    def get(self, goal_id: str) -> GoalState | None:
        """Returns a goal, or None if it is unknown or forgotten."""
        with self.lock:
            record = self._records.get(goal_id)
            return self._finished.get(goal_id) if record is None else record.state

    def find(self, goal_id: str) -> GoalState:
        """Returns a goal.

        Raises:
            PlannerError: UNKNOWN_GOAL if it is unknown or forgotten.
        """
        if (goal := self.get(goal_id)) is None:
            raise PlannerError(ErrorCode.UNKNOWN_GOAL, f"this planner knows no goal {goal_id}; ask for a new plan")
        return goal

    def unfinished(self) -> list[GoalState]:
        """Returns the goals that have no result yet, in the order of their arrival."""
        with self.lock:
            return [record.state for record in self._records.values()]

    def robots(self) -> dict[str, str]:
        """Returns the robot model of every robot that has a goal, or had one that is remembered."""
        with self.lock:
            requests = [
                *(goal.request for goal in self._finished.values()),
                *(r.request for r in self._records.values()),
            ]
        return {request.robot_id: request.robot_model for request in requests}

    def last_of_idle_robots(self) -> list[GoalState]:
        """Returns, of every robot that has no unfinished goal, the one that ended last, as far as remembered."""
        with self.lock:
            last = {goal.request.robot_id: goal for goal in self._finished.values()}
            busy = {record.request.robot_id for record in self._records.values()}
        return [goal for robot_id, goal in last.items() if robot_id not in busy]

    @property
    def request_ids(self) -> tuple[str, ...]:
        """Unfinished goals, in the order of their arrival."""
        with self.lock:
            return tuple(self._records)
