"""The server's own record of goals: survives the loop, ends every goal exactly once, hands nothing out twice."""

import threading
from dataclasses import dataclass, field, replace

from llm_planner.core.errors import ACHIEVED, ErrorCode, PlannerError
from llm_planner.core.request import OverrunStrategy, PlanMetrics, PlanRequest, PlanResult, Urgency
from llm_planner.core.segment import ReportStatus, Segment, SegmentMark, SegmentReport, marks_of
from llm_planner.scheduling.execution_tracker import ExecutionTracker, Reception
from llm_planner.serving.admission import Admission
from llm_planner.serving.events import Event, Finished, PlanComplete, SegmentReady
from llm_planner.serving.goal import History


@dataclass(slots=True)
class _Entry:
    """One unfinished goal."""

    request: PlanRequest
    arrival_s: float
    segments: list[Segment] = field(default_factory=list)
    delivered_at_s: list[float] = field(default_factory=list)
    reports: list[tuple[float, SegmentReport]] = field(default_factory=list)
    is_plan_complete: bool = False
    is_partial: bool = False
    verdict: PlannerError | None = None
    execution: ExecutionTracker = field(init=False)

    def __post_init__(self) -> None:
        self.execution = ExecutionTracker(self.arrival_s, network_latency_s=0.0)

    def is_overrun(self, now_s: float) -> bool:
        """Whether the time budget is over and what it covers has not come."""
        end_s = self.request.budget_ends_at_s(self.arrival_s, len(self.segments), self.is_plan_complete)
        return end_s is not None and now_s > end_s

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
    """Unfinished goals with what was delivered and reported. Thread-safe; never blocks for long.

    Args:
        admission: Checks requests at the door.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()

    def open(self, request: PlanRequest, now_s: float) -> Finished | None:
        """Enters a request; returns the end of the one that it supersedes, if any.

        Raises:
            PlannerError: If it is refused; then nothing has changed.
        """
        with self._lock:
            unfinished = {request_id: entry.request for request_id, entry in self._entries.items()}
            self._skip_while_overrun(request, now_s)
            previous = self._admission.check(request, unfinished)
            ended = None
            if previous is not None:
                message = f"superseded by the urgent goal {request.request_id}"
                ended = self._end(previous.request_id, ErrorCode.SUPERSEDED, message)
            self._entries[request.request_id] = _Entry(request, now_s)
            return ended

    def accept(self, event: Event, now_s: float) -> Event | None:
        """Enters what the loop says; returns the event if its owner shall hear it, None if it is outdated."""
        with self._lock:
            entry = self._entries.get(event.request_id)
            if entry is None:
                return None
            if isinstance(event, SegmentReady):
                is_reopened = event.segment.is_replan  # a complete plan that failed goes on another way
                if event.segment.index != len(entry.segments) or (entry.is_plan_complete and not is_reopened):
                    return None
                entry.is_plan_complete, entry.verdict = False, None
                entry.execution.deliver(event.segment, now_s)
                entry.segments.append(event.segment)
                entry.delivered_at_s.append(now_s)
            elif isinstance(event, PlanComplete):
                if entry.is_plan_complete:
                    return None
                entry.is_plan_complete, entry.is_partial, entry.verdict = True, event.is_partial, event.verdict
            else:
                del self._entries[event.request_id]
                event = Finished(replace(event.result, segments=tuple(entry.segments), marks=entry.marks))
            return event

    def end(self, request_id: str, code: ErrorCode, message: str) -> Finished | None:
        """Ends a goal without waiting for the loop; None if it has ended already."""
        with self._lock:
            return self._end(request_id, code, message)

    def _end(self, request_id: str, code: ErrorCode, message: str) -> Finished | None:
        entry = self._entries.pop(request_id, None)
        return None if entry is None else Finished(entry.result(code, message))

    def _skip_while_overrun(self, request: PlanRequest, now_s: float) -> None:
        """Skip-Next (TimeBill, section 6.1): what a robot asks while its overrun goal is not complete is skipped.

        Deviation: an urgent goal is not the one that pays for another's overrun; it may take that one's place.
        """
        for entry in self._entries.values():
            is_skipping = entry.request.overrun is OverrunStrategy.SKIP_NEXT and entry.is_overrun(now_s)
            if entry.request.robot_id != request.robot_id or not is_skipping:
                continue
            if request.urgency is not Urgency.URGENT or entry.request.urgency is Urgency.URGENT:
                raise PlannerError(
                    ErrorCode.BUDGET_EXCEEDED,
                    f"skipped: the robot's goal {entry.request.request_id} has exceeded its time budget and goes on "
                    "(SKIP_NEXT); ask again when it has ended",
                )

    def take_overdue(self, now_s: float, *, is_engine_ready: bool) -> list[Event]:
        """Keeps the time budgets that the engine does not keep, because it is dead, starting, or in a long step.

        Returns what the owners shall hear: a goal of which nothing came has ended, a plan of strategy PARTIAL is
        closed. An engine that lives closes its plans itself: it knows what is on its way.
        """
        events: list[Event] = []
        with self._lock:
            for entry in [e for e in self._entries.values() if e.is_overrun(now_s)]:
                request = entry.request
                if request.overrun is OverrunStrategy.SKIP_NEXT:
                    continue
                if request.overrun is OverrunStrategy.PARTIAL and entry.segments:
                    if not is_engine_ready:
                        entry.is_plan_complete = entry.is_partial = True
                        events.append(PlanComplete(request.request_id, len(entry.segments), is_partial=True))
                    continue
                message = f"nothing came from the engine within the time budget of {request.time_budget_s} s"
                events.append(Finished(entry.result(ErrorCode.BUDGET_EXCEEDED, message)))
                del self._entries[request.request_id]
        return events

    def report(self, report: SegmentReport, now_s: float) -> Reception | None:
        """Enters a robot's report; returns what it changed, None if the goal is unknown.

        A loop must be told of the reports that are not ignored, and of no other. Its segments are never fewer than
        those here, so it takes them as this book does.
        """
        with self._lock:
            entry = self._entries.get(report.request_id)
            if entry is None:
                return None
            reception = entry.execution.report(report, now_s)
            if reception is not Reception.IGNORED:
                entry.reports.append((now_s, report))
            return reception

    def hand_over(self, request_id: str) -> tuple[PlanRequest, History] | None:
        """Returns what a loop needs to begin, or go on, with a goal; None if it has ended."""
        with self._lock:
            entry = self._entries.get(request_id)
            if entry is None:
                return None
            history = History(
                arrival_s=entry.arrival_s,
                delivered_at_s=tuple(entry.delivered_at_s),
                reports=tuple(entry.reports),
                is_plan_complete=entry.is_plan_complete,
                is_partial=entry.is_partial,
                verdict=entry.verdict,
            )
            failures = tuple(report for _, report in entry.reports if report.status is ReportStatus.FAILED)
            return replace(entry.request, delivered=tuple(entry.segments), failures=failures), history

    def end_all(self, code: ErrorCode, message: str) -> list[Finished]:
        """Ends every goal."""
        return [f for request_id in self.request_ids if (f := self.end(request_id, code, message)) is not None]

    @property
    def request_ids(self) -> tuple[str, ...]:
        """Unfinished goals, in the order of their arrival."""
        with self._lock:
            return tuple(self._entries)
