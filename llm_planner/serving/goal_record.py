# SPDX-License-Identifier: Apache-2.0
"""The one record of a goal: the node's book keeps it, its readers get it, and an engine process begins with it."""

from dataclasses import dataclass, replace

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import AtDeadline, OverrunStrategy, PlanMetrics, PlanRequest, PlanResult
from llm_planner.core.segment import ReportStatus, Segment, SegmentReport, marks_of
from llm_planner.scheduling.execution_tracker import breaks_off

RESERVE_S = 0.07
"""What is left of a time budget, at least, when a goal is refused that no engine has decided about: 50 ms for the
robot's reflex, and 20 ms for the way there."""
MOST_RESERVED = 0.7
"""Share of a budget, of those that are too short for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalRecord:
    """A goal from its admission until it is forgotten. Immutable: whatever happens makes another record.

    Attributes:
        request: What was asked; ``delivered`` and ``failures`` are what has come of it so far.
        arrival_s: When it arrived.
        delivered_at_s: Per delivered segment, when it was delivered.
        reports: The robot's reports that counted, in order, with the times when they were received.
        is_complete: Whether no segment will follow.
        is_partial: Whether that is so because the plan was closed to keep its time budget.
        verdict: Why the plan said that the task cannot be achieved; None if it did not.
        is_admitted: Whether the engine that has it decided to keep its time budget.
        is_capped: Whether the last one that did keeps it with a token cap.
        alive_at_s: When its client last showed life; None until its first heartbeat.
        result: How it ended; None while it is unfinished.
        ended_at_s: When it ended.
    """

    request: PlanRequest
    arrival_s: float
    delivered_at_s: tuple[float, ...] = ()
    reports: tuple[tuple[float, SegmentReport], ...] = ()
    is_complete: bool = False
    is_partial: bool = False
    verdict: PlannerError | None = None
    is_admitted: bool = False
    is_capped: bool = False
    alive_at_s: float | None = None
    result: PlanResult | None = None
    ended_at_s: float | None = None

    @property
    def request_id(self) -> str:
        """Which goal it is."""
        return self.request.request_id

    @property
    def segments(self) -> tuple[Segment, ...]:
        """What was delivered."""
        return self.request.delivered

    def with_segment(self, segment: Segment, now_s: float) -> "GoalRecord":
        """Returns the goal with its next segment; a complete plan that failed goes on with a replan."""
        return replace(
            self,
            request=replace(self.request, delivered=(*self.request.delivered, segment)),
            delivered_at_s=(*self.delivered_at_s, now_s),
            is_complete=False,
            verdict=None,
        )

    def with_report(self, report: SegmentReport, now_s: float) -> "GoalRecord":
        """Returns the goal with a report that ``counts``."""
        request = self.request
        if report.status is ReportStatus.FAILED:
            request = replace(request, failures=(*request.failures, report))
        return replace(self, request=request, reports=(*self.reports, (now_s, report)))

    def with_end(self, result: PlanResult, now_s: float) -> "GoalRecord":
        """Returns the goal with its result, to which it adds the segments and how they went."""
        marks = marks_of(self.segments, (report for _, report in self.reports))
        result = replace(result, segments=self.segments, marks=marks)
        return replace(self, is_complete=True, result=result, ended_at_s=now_s)

    def counts(self, report: SegmentReport) -> bool:
        """Returns whether a report changes anything: the rule of ``ExecutionTracker``, without its times.

        Reports that counted never go back in the plan, so the last one tells what can still count; only one that breaks
        off the wait for a replan may be of what is void.
        """
        first = 0
        if self.request.failures:  # what lies before a replan has ended, or is void
            first = next((s.index + 1 for s in reversed(self.segments) if s.is_replan), 0)
        last = self.reports[-1][1] if self.reports else None
        if breaks_off(report, last):
            return report.index < len(self.segments)
        if last is not None and last.index >= first:
            if last.status is ReportStatus.FAILED:
                return False
            is_told = last.status is not ReportStatus.STARTED or report.status is ReportStatus.STARTED
            first = last.index + is_told
        return first <= report.index < len(self.segments)

    @property
    def waits_for_robot(self) -> bool:
        """Whether no engine has anything to do for it before its robot says more."""
        num_replans = sum(segment.is_replan for segment in self.segments)
        return self.is_complete and len(self.request.failures) == num_replans

    @property
    def decide_by_s(self) -> float | None:
        """When it is refused unless an engine has decided about it; None if nothing has to be decided any more."""
        request = self.request
        end_s = request.budget_ends_at_s(self.arrival_s, len(self.segments), self.is_complete)
        is_settled = self.is_admitted or self.segments or request.overrun is OverrunStrategy.SKIP_NEXT
        if end_s is None or request.time_budget_s is None or is_settled:
            return None
        return end_s - min(RESERVE_S, MOST_RESERVED * request.time_budget_s)

    def overrun(self, now_s: float) -> AtDeadline | None:
        """Returns what happens because the time budget is over; None if it is not, or what it covers has come."""
        end_s = self.request.budget_ends_at_s(self.arrival_s, len(self.segments), self.is_complete)
        if end_s is None or now_s <= end_s:
            return None
        return self.request.at_deadline(len(self.segments), is_capped=self.is_capped)

    def result_of(self, code: ErrorCode, message: str) -> PlanResult:
        """Returns an end that the loop did not decide: an error, of no utility. It knows no counts of tokens."""
        metrics = PlanMetrics()
        if self.delivered_at_s:
            metrics = PlanMetrics(response_time_s=self.delivered_at_s[0] - self.arrival_s, time_utility=0.0)
        return PlanResult(request_id=self.request_id, error_code=code, error_msg=message, metrics=metrics)
