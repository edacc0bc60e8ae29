"""The server's own record of goals: survives the loop, ends every goal exactly once, hands nothing out twice."""

import threading
from dataclasses import dataclass, field, replace

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import OverrunStrategy, PlanMetrics, PlanRequest, PlanResult, Urgency
from llm_planner.core.segment import ReportStatus, Segment, SegmentReport
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
    reports: dict[tuple[int, ReportStatus], tuple[float, SegmentReport]] = field(default_factory=dict)
    is_plan_complete: bool = False
    num_attempts: int = 0

    @property
    def is_overrun(self) -> bool:
        """Whether the first segment came after the time budget, or never."""
        budget_s = self.request.time_budget_s
        is_late = not self.delivered_at_s or self.delivered_at_s[0] - self.arrival_s > (budget_s or 0.0)
        return budget_s is not None and is_late

    def result(self, code: ErrorCode, message: str) -> PlanResult:
        """Returns an end that the loop did not decide; it knows no counts of tokens."""
        metrics = PlanMetrics()
        if self.delivered_at_s:
            response_time_s = self.delivered_at_s[0] - self.arrival_s
            utility = self.request.time_utility(response_time_s)
            metrics = PlanMetrics(response_time_s=response_time_s, time_utility=utility)
        return PlanResult(
            request_id=self.request.request_id,
            error_code=code,
            error_msg=message,
            segments=tuple(self.segments),
            metrics=metrics,
        )


class GoalBook:
    """Unfinished goals with what was delivered and reported. Thread-safe; never blocks for long.

    Args:
        admission: Checks requests at the door.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._entries: dict[str, _Entry] = {}
        self._robots_to_skip: set[str] = set()
        self._lock = threading.Lock()

    def open(self, request: PlanRequest, now_s: float) -> Finished | None:
        """Enters a request; returns the end of the one that it supersedes, if any.

        Raises:
            PlannerError: If it is refused; then nothing has changed.
        """
        with self._lock:
            unfinished = {request_id: entry.request for request_id, entry in self._entries.items()}
            previous = self._admission.check(request, unfinished)
            self._skip_if_due(request)
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
            entry.num_attempts = 1
            if isinstance(event, SegmentReady):
                if event.segment.index != len(entry.segments):
                    return None
                entry.segments.append(event.segment)
                entry.delivered_at_s.append(now_s)
            elif isinstance(event, PlanComplete):
                if entry.is_plan_complete:
                    return None
                entry.is_plan_complete = True
            else:
                self._close(event.request_id)
                event = Finished(replace(event.result, segments=tuple(entry.segments)))
            return event

    def end(self, request_id: str, code: ErrorCode, message: str) -> Finished | None:
        """Ends a goal without waiting for the loop; None if it has ended already."""
        with self._lock:
            return self._end(request_id, code, message)

    def _end(self, request_id: str, code: ErrorCode, message: str) -> Finished | None:
        entry = self._close(request_id)
        return None if entry is None else Finished(entry.result(code, message))

    def _close(self, request_id: str) -> _Entry | None:
        entry = self._entries.pop(request_id, None)
        if entry is not None and entry.is_overrun and entry.request.overrun is OverrunStrategy.SKIP_NEXT:
            self._robots_to_skip.add(entry.request.robot_id)
        return entry

    def _skip_if_due(self, request: PlanRequest) -> None:
        """Skip-Next (TimeBill, section 6.1): the goal after one that overran is refused.

        Deviation: an urgent goal is never skipped; it is not the one that may pay for another's overrun.
        """
        if request.robot_id in self._robots_to_skip and request.urgency is not Urgency.URGENT:
            self._robots_to_skip.discard(request.robot_id)
            raise PlannerError(
                ErrorCode.BUDGET_EXCEEDED,
                "skipped, because this robot's last goal exceeded its time budget (SKIP_NEXT); send it again",
            )

    def report(self, report: SegmentReport, now_s: float) -> bool:
        """Enters a robot's report; returns whether its goal is known."""
        with self._lock:
            entry = self._entries.get(report.request_id)
            if entry is not None and 0 <= report.index < len(entry.segments):
                entry.reports.setdefault((report.index, report.status), (now_s, report))
                entry.num_attempts = 1
            return entry is not None

    def hand_over(self, request_id: str, max_attempts: int) -> tuple[PlanRequest, History] | None:
        """Returns what a loop needs to begin, or go on, with a goal.

        None if it has ended, or if ``max_attempts`` loops in a row were given it and none got any further.
        """
        with self._lock:
            entry = self._entries.get(request_id)
            if entry is None or entry.num_attempts >= max_attempts:
                return None
            entry.num_attempts += 1
            history = History(
                arrival_s=entry.arrival_s,
                delivered_at_s=tuple(entry.delivered_at_s),
                reports=tuple(entry.reports.values()),
                is_plan_complete=entry.is_plan_complete,
            )
            return replace(entry.request, delivered=tuple(entry.segments)), history

    def end_all(self, code: ErrorCode, message: str) -> list[Finished]:
        """Ends every goal."""
        return [f for request_id in self.request_ids if (f := self.end(request_id, code, message)) is not None]

    @property
    def request_ids(self) -> tuple[str, ...]:
        """Unfinished goals, in the order of their arrival."""
        with self._lock:
            return tuple(self._entries)
