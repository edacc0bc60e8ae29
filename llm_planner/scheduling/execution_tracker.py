# SPDX-License-Identifier: Apache-2.0
"""When will the robot be idle: delivered segments, their expected durations, and what the robot says of them."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from llm_planner.core.segment import ZERO_DURATION, BlockEdge, ExpectedDuration, ReportStatus, Segment, SegmentReport

UNCERTAIN_SPREAD = 0.25
"""A segment whose (p90 - min) exceeds this share of its p50 counts as uncertain."""


def cautious_duration_s(expected: ExpectedDuration) -> float:
    """Returns for how long the robot will certainly be busy, in seconds.

    TimelyLLM, section 4.3: the minimum where the length is uncertain, so that the next segment is generated in time
    even in the worst case; else the median.
    """
    return expected.min_s if is_uncertain(expected) else expected.p50_s


def is_uncertain(expected: ExpectedDuration) -> bool:
    """Returns whether a duration could be far from its median."""
    return expected.p90_s - expected.min_s > UNCERTAIN_SPREAD * expected.p50_s


def gives_up(report: SegmentReport) -> bool:
    """Returns whether a report says that its robot carries out nothing more of the goal, another plan neither."""
    return report.status is ReportStatus.FAILED and (report.situation is None or report.is_permanent)


def breaks_off(report: SegmentReport, last: SegmentReport | None) -> bool:
    """Returns whether a report takes back that the robot waits for a replan, which the ``last`` one said."""
    if last is None or last.status is not ReportStatus.FAILED or gives_up(last):
        return False
    return gives_up(report) and report.index >= last.index


class Reception(Enum):
    """What a report changed."""

    ACCEPTED = "accepted"
    IGNORED = "ignored"  # duplicate, outdated, behind a failure, or about a segment that was never delivered
    FAILED = "failed"  # the first report of this segment's end, and it says that a skill failed; or the robot gave up


@dataclass(slots=True)
class _Execution:
    """One delivered segment; times are of the planner's clock, network delay already taken off.

    Attributes:
        blocks: Indices of the segments that opened the blocks in which it lies, the outermost first.
    """

    segment: Segment
    delivered_at_s: float
    blocks: tuple[int, ...] = ()
    started_at_s: float | None = None
    ended_at_s: float | None = None
    reported_duration_s: float | None = None


class ExecutionTracker:
    """The planner's picture of one robot that carries out one plan.

    A report travels ``network_latency_s`` as a segment does; both ways are accounted for. Reports may come twice, out
    of order or never: the end of segment k implies the end of all before it, the first word on an end counts, and what
    was never reported is estimated.

    After a failure, reports are ignored until the replan is delivered: the robot waits, and what else it was sent is
    void. So a plan has at most one failure that is not answered yet, and failure number n belongs to replan number n.
    One report counts nevertheless, up to the first word on the replan: that the robot has given up (a reflex acted),
    said of the segment that failed or of one behind it. The parent's book and the engine's goal both apply this rule
    (``serving.goal_book``, ``serving.goal``).

    What lies in the block of a condition takes no time if the condition was false. As long as that is not known, the
    worst case of both counts: for when the robot will be idle, that it skips the block, for when it must have reported,
    that it does not.

    Args:
        arrival_s: When the request arrived.
        network_latency_s: One-way delay between planner and robot.
        expects_reports: Whether the robot reports its segments: only then does silence mean that it is still at work.
    """

    def __init__(self, arrival_s: float, network_latency_s: float, *, expects_reports: bool = True) -> None:
        self.arrival_s = arrival_s
        self.network_latency_s = network_latency_s
        self._expects_reports = expects_reports
        self._executions: list[_Execution] = []
        self._num_ended = 0  # executions[:num_ended] have ended, as reported or implied
        self._last_word_s = arrival_s
        self._has_failed = False
        self._last: SegmentReport | None = None  # that was not ignored
        self._open_blocks: tuple[int, ...] = ()  # behind what was delivered
        self._is_entered: dict[int, bool] = {}  # by index of the segment that opened a block; none while unknown
        self._ends_s: list[float] = []  # of executions[num_ended:], as ``idle_at_s`` last saw them on time

    @property
    def segments(self) -> tuple[Segment, ...]:
        """What was sent to the robot, before a restart of the engine too."""
        return tuple(execution.segment for execution in self._executions)

    @property
    def delivery_s(self) -> tuple[float, float] | None:
        """When the first and the latest of them were sent; None if none was."""
        return (self._executions[0].delivered_at_s, self._executions[-1].delivered_at_s) if self._executions else None

    @property
    def num_delivered(self) -> int:
        """Segments that were sent to the robot."""
        return len(self._executions)

    @property
    def num_ended(self) -> int:
        """Of these, how many the robot has ended, as reported or implied."""
        return self._num_ended

    @property
    def is_all_reported(self) -> bool:
        """True if the robot has ended everything that it was sent."""
        return self._num_ended == len(self._executions)

    @property
    def has_failed(self) -> bool:
        """Whether a segment has failed and no replan was delivered since."""
        return self._has_failed

    def deliver(self, segment: Segment, now_s: float) -> None:
        """Notes that the planner sent ``segment``, the next one in order; a replan voids what has not ended."""
        if segment.index != len(self._executions):
            raise ValueError(f"segment {segment.index} delivered after {len(self._executions)} segments")
        self._executions.append(_Execution(segment, now_s, self._open_blocks))
        if segment.block_edge is BlockEdge.OPENS:
            self._open_blocks += (segment.index,)
        elif segment.block_edge is BlockEdge.CLOSES:
            self._open_blocks = self._open_blocks[:-1]
        if segment.is_replan:
            self._open_blocks = ()
            self._has_failed = False
            self._discard()

    def report(self, report: SegmentReport, now_s: float) -> Reception:
        """Sharpens the picture by the robot's report, received at ``now_s``; one that is ignored changes nothing."""
        if self._has_failed or not self._num_ended <= report.index < len(self._executions):
            if report.index >= len(self._executions) or not breaks_off(report, self._last):
                return Reception.IGNORED
            self._last, self._has_failed = report, True
            return Reception.FAILED
        execution = self._executions[report.index]
        happened_s = now_s - self.network_latency_s
        if report.status is ReportStatus.STARTED and execution.started_at_s is not None:
            return Reception.IGNORED
        self._last, self._last_word_s = report, now_s
        if report.status is ReportStatus.STARTED:
            self._start(report.index, execution, happened_s)
            return Reception.ACCEPTED
        self._learn(report, execution)
        execution.reported_duration_s = self._measured_s(report, execution, happened_s)
        self._end_until(report.index, happened_s - self._duration_s(execution))
        self._set_end(execution, happened_s)
        self._has_failed = report.status is ReportStatus.FAILED
        return Reception.FAILED if self._has_failed else Reception.ACCEPTED

    def _measured_s(self, report: SegmentReport, execution: _Execution, happened_s: float) -> float | None:
        """Returns how long a segment took that ended at ``happened_s``, by its reports; None if they do not tell."""
        if report.status is ReportStatus.SKIPPED:
            return report.measured_s or 0.0
        if report.measured_s is None and execution.started_at_s is not None:
            return max(0.0, happened_s - execution.started_at_s)
        return report.measured_s

    def _duration_s(self, execution: _Execution) -> float:
        """Returns how long a segment took, by its reports; the expected median where they do not tell."""
        reported_s = execution.reported_duration_s
        return self._expected(execution).p50_s if reported_s is None else reported_s

    def _learn(self, report: SegmentReport, execution: _Execution) -> None:
        """Notes what an end says of conditions: its own, and those of the blocks in which it lies."""
        if report.status is ReportStatus.SKIPPED:
            for block in execution.blocks[-1:]:  # at least not the innermost, unless the plan returned within it
                self._is_entered.setdefault(block, False)
        else:
            self._is_entered |= dict.fromkeys(execution.blocks, True)
        if execution.segment.block_edge is BlockEdge.OPENS:
            self._is_entered[report.index] = report.enters_block

    def _discard(self) -> None:
        """Ends all that was delivered and has not ended, as if it had taken no time: it will not be carried out."""
        self._ends_s.clear()
        for execution in self._executions[self._num_ended :]:
            execution.reported_duration_s = 0.0
            execution.started_at_s = execution.ended_at_s = self._idle_since_s(self._num_ended)
            self._num_ended += 1

    def _start(self, index: int, execution: _Execution, happened_s: float) -> None:
        self._is_entered |= dict.fromkeys(execution.blocks, True)
        self._end_until(index, happened_s)
        self._ends_s.clear()
        execution.started_at_s = max(happened_s, self._idle_since_s(index))

    def _end_until(self, index: int, latest_s: float) -> None:
        """Ends the segments before ``index``, whose reports were lost or are late, by ``latest_s`` at the latest."""
        for execution in self._executions[self._num_ended : index]:
            execution.started_at_s = self._start_s(self._num_ended)
            self._set_end(execution, min(execution.started_at_s + self._expected(execution).p50_s, latest_s))

    def _set_end(self, execution: _Execution, ended_at_s: float) -> None:
        index = self._num_ended
        self._ends_s.clear()
        start_s = execution.started_at_s
        if start_s is None:
            start_s = max(self._earliest_start_s(index), ended_at_s - self._duration_s(execution))
        execution.started_at_s = start_s
        execution.ended_at_s = max(start_s, ended_at_s)
        self._num_ended += 1

    def _idle_since_s(self, index: int) -> float:
        """Returns when everything before ``index`` ended, as far as known."""
        ended_at_s = self._executions[index - 1].ended_at_s if index else None
        return self.arrival_s if ended_at_s is None else ended_at_s

    def _earliest_start_s(self, index: int) -> float:
        received_s = self._executions[index].delivered_at_s + self.network_latency_s
        return max(received_s, self._idle_since_s(index))

    def _start_s(self, index: int) -> float:
        started_at_s = self._executions[index].started_at_s
        return self._earliest_start_s(index) if started_at_s is None else started_at_s

    def idle_at_s(self, now_s: float) -> float:
        """Returns when the robot will have carried out all that it was sent; in the past if it waits already.

        A segment that should have ended, but whose end was not reported, ends now at the earliest, so what follows
        it is later.
        """
        first, ends_s = self._num_ended, self._ends_s
        while first + len(ends_s) < len(self._executions):
            before_s = ends_s[-1] if ends_s else self._idle_since_s(first)
            ends_s.append(self._cautious_end_s(first + len(ends_s), before_s))
        if not ends_s:
            return self._idle_since_s(first)
        received_s = now_s - self.network_latency_s
        if self._expects_reports and len(ends_s) > 1 and ends_s[0] < received_s:
            idle_s = received_s
            for index in range(first + 1, len(self._executions)):
                idle_s = self._cautious_end_s(index, idle_s)
            return idle_s
        return ends_s[-1]

    def earliest_idle_at_s(self, now_s: float) -> float:
        """Returns when the robot may have carried out all that it was sent if each segment takes its minimum.

        At most ``idle_at_s``: that is when its next segment is due, this is when it may be wanted.
        """
        first, idle_s = self._num_ended, self._idle_since_s(self._num_ended)
        for index in range(first, len(self._executions)):
            if index > first and self._expects_reports:
                idle_s = max(idle_s, now_s - self.network_latency_s)  # the one before has not ended yet
            idle_s = self._end_s(index, idle_s, lambda expected: expected.min_s)
        return idle_s

    def _cautious_end_s(self, index: int, idle_s: float) -> float:
        return self._end_s(index, idle_s, cautious_duration_s)

    def _end_s(self, index: int, idle_s: float, duration_s: Callable[[ExpectedDuration], float]) -> float:
        """Returns until when a segment keeps the robot busy that was idle at ``idle_s``."""
        execution = self._executions[index]
        started_s = execution.started_at_s
        if started_s is None:
            started_s = max(execution.delivered_at_s + self.network_latency_s, idle_s)
        if not all(block in self._is_entered for block in execution.blocks):
            return started_s
        return started_s + duration_s(self._expected(execution))

    def _expected(self, execution: _Execution) -> ExpectedDuration:
        """Returns how long a segment takes: no time in the block of a condition that was false."""
        is_skipped = any(self._is_entered.get(block) is False for block in execution.blocks)
        return ZERO_DURATION if is_skipped else execution.segment.expected

    def silent_at_s(self, silence_timeout_s: float) -> float | None:
        """Returns when the robot counts as silent if nothing is received until then; None if nothing is expected of it.

        The segment at work may take its p90 from its start, or from the last word, and the report its way back.
        """
        if self.is_all_reported or self._has_failed:
            return None
        index = self._num_ended
        since_s = max(self._start_s(index), self._last_word_s)
        expected_s = self._expected(self._executions[index]).p90_s
        return since_s + expected_s + 2 * self.network_latency_s + silence_timeout_s

    @property
    def first_action_s(self) -> float | None:
        """When the robot began its first segment, by its reports; estimated without one; None if none was sent."""
        return self._start_s(0) if self._executions else None

    def waiting_time_s(self) -> float:
        """Returns for how long the robot stood still waiting for the planner: the sum of W(s_k), TimelyLLM Fig. 3."""
        waiting_s, idle_s = 0.0, self.arrival_s
        for start_s, end_s in self._spans():
            waiting_s += max(0.0, start_s - idle_s)
            idle_s = end_s
        return waiting_s

    def execution_time_s(self) -> float:
        """Returns for how long the robot executed: reported durations, the expected median where there is none."""
        return sum(map(self._duration_s, self._carried_out))

    @property
    def _carried_out(self) -> list[_Execution]:
        """What the robot carries out of what it was sent: nothing behind a segment that failed."""
        return self._executions[: self._num_ended] if self._has_failed else self._executions

    def _spans(self) -> list[tuple[float, float]]:
        """Returns start and end of every segment, estimated where not reported."""
        spans: list[tuple[float, float]] = []
        idle_s = self.arrival_s
        for execution in self._carried_out:
            start_s = execution.started_at_s
            if start_s is None:
                start_s = max(execution.delivered_at_s + self.network_latency_s, idle_s)
            end_s = execution.ended_at_s
            idle_s = start_s + self._expected(execution).p50_s if end_s is None else end_s
            spans.append((start_s, idle_s))
        return spans
