# SPDX-License-Identifier: Apache-2.0
"""What a robot holds of its goal: segments as they come, reports, cancel, result."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from queue import SimpleQueue

from rclpy.serialization import serialize_message

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.core.segment import ReportStatus, Segment, SegmentReport, Situation
from llm_planner.core.skill import Value
from llm_planner.ros import conversions
from llm_planner.ros.segment_inbox import SegmentInbox

CARRIED_OUT = (ErrorCode.NONE, ErrorCode.PLAN_PARTIAL)
"""How a goal ends whose plan was carried out as far as it goes; a segment that comes with another end is not run."""


class PlanHandle:
    """One goal. Usable from any thread; what blocks says so.

    Either iterate over it (``for segment in handle``, blocking, not in a callback of the node), or give
    ``PlannerClient.plan`` an ``on_segment`` callback. Each segment comes exactly once and in order. None comes any more
    once the goal was cancelled, was replaced by an urgent one of the same robot, was ended by the planner with an
    error, or had a segment that was reported FAILED: only its result is still to come. If the robot waits for another
    way, what is void is left out, and the marker of the replan comes next. What came before the planner was lost
    (SERVER_UNREACHABLE) is still handed out: a robot carries out what it has. (A callback that has begun when another
    thread cancels goes on to its end.)

    Attributes:
        request: What was asked.
        future: Set to the ``PlanResult`` when the goal has ended, by whatever cause; never to an exception.
    """

    def __init__(
        self,
        request: PlanRequest,
        *,
        send_report: Callable[[SegmentReport], None],
        request_cancel: Callable[["PlanHandle"], None],
        on_segment: Callable[[Segment], None] | None = None,
    ) -> None:
        self.request = request
        self.future: Future[PlanResult] = Future()
        self._send_report = send_report
        self._request_cancel = request_cancel
        self._queue: SimpleQueue[Segment | None] = SimpleQueue()
        self._on_segment = on_segment or self._queue.put
        self._inbox = SegmentInbox()
        self._segments: list[Segment] = []
        self._failed_index: int | None = None  # reported last: what comes behind it is void, up to the next replan
        self._is_closed = False

    @property
    def goal_id(self) -> str:
        """The action goal's UUID, 32 hexadecimal digits."""
        return self.request.request_id

    @property
    def is_done(self) -> bool:
        """Whether the goal has ended."""
        return self.future.done()

    def __iter__(self) -> Iterator[Segment]:
        """Yields the segments; blocks until the next one is there, ends when none will come any more."""
        while (segment := self._queue.get()) is not None and not self._is_closed:
            if not self._is_void(segment):  # that may have been reported since it came
                yield segment
        self._queue.put(None)  # a second loop ends too

    def result(self, timeout_s: float | None = None) -> PlanResult:
        """Waits for the end of the goal and returns how it ended; never raises for a goal that failed.

        Raises:
            TimeoutError: If it has not ended after ``timeout_s``; None waits for ever.
        """
        return self.future.result(timeout_s)

    def report(  # noqa: PLR0913 -- all but two have defaults
        self,
        segment: Segment,
        status: ReportStatus,
        *,
        duration_s: float = 0.0,
        value: Value | None = None,
        said: Sequence[str] = (),
        reason: str = "",
        situation: Situation | None = None,
        is_permanent: bool = False,
        enters_block: bool = False,
    ) -> None:
        """Tells the planner how a segment stands; report STARTED, then SUCCEEDED or FAILED, or else SKIPPED.

        Args:
            segment: Which one.
            status: How it stands.
            duration_s: Measured execution time, with SUCCEEDED and FAILED.
            value: What its last call returned, if anything.
            said: What the robot said meanwhile; where its plan returned, the answer in words.
            reason: Why it failed.
            situation: With FAILED, where the robot stands and what it sees, if it waits for another way: the next
                segment is the marker of a replan then. Without, no segment comes any more.
            is_permanent: With FAILED, whether no other plan can help: no segment comes any more.
            enters_block: With SUCCEEDED of a segment that opens a block, whether its condition was true. Such segments
                come only if the request ``takes_open_blocks``.

        Raises:
            PlannerError: INVALID_ARGUMENT or INVALID_POSE for what no message can hold; then nothing has changed.
        """
        report = SegmentReport(
            request_id=self.goal_id,
            index=segment.index,
            status=status,
            duration_s=duration_s,
            value=value,
            said=tuple(said),
            reason=reason,
            situation=situation,
            is_permanent=is_permanent,
            enters_block=enters_block,
        )
        _require_sendable(report)
        if status is ReportStatus.FAILED:
            self._failed_index = segment.index
            if situation is None or is_permanent:
                self.close()
        self._send_report(report)

    def cancel(self) -> None:
        """Asks the planner to end the goal; the result follows with CANCELLED (or as it had ended before)."""
        self.close()
        self._request_cancel(self)

    # For the client

    def close(self) -> None:
        """Delivers no segment any more; usable from any thread."""
        self._is_closed = True
        self._queue.put(None)

    # For the client, in the executor's thread

    @property
    def next_index(self) -> int:
        """Index of the first segment that was not delivered yet."""
        return self._inbox.next_index

    @property
    def has_gap(self) -> bool:
        """Whether the planner has sent a segment that is to be delivered and is not here."""
        return self._inbox.has_gap and not self._is_closed

    def offer(self, segments: list[Segment], num_segments: int) -> None:
        """Delivers what may be executed now."""
        for segment in self._inbox.offer(segments, num_segments):
            if self._is_closed or self.is_done:
                return
            self._segments.append(segment)
            if not self._is_void(segment):
                self._deliver(segment)

    def _is_void(self, segment: Segment) -> bool:
        """Returns whether a segment lies behind one that has failed, and before a replan."""
        if self._failed_index is None or segment.index <= self._failed_index:
            return False
        return not any(later.is_replan for later in self._segments[self._failed_index + 1 : segment.index + 1])

    def _deliver(self, segment: Segment) -> None:
        try:
            self._on_segment(segment)
        except Exception:
            self.cancel()  # no segment may follow one that was not taken
            raise

    def finish(self, result: PlanResult) -> None:
        """Ends the goal as the planner says; delivers what only the result brought if the plan was carried out."""
        if self.is_done:
            return
        if result.error_code in CARRIED_OUT:
            self.offer(list(result.segments), len(result.segments))
        else:
            self.close()
        self._end(result)

    def fail(self, error: PlannerError) -> None:
        """Ends the goal with an error found on this side; what was delivered stays delivered. The first end wins."""
        if self.is_done:
            return
        self._end(
            PlanResult(
                request_id=self.goal_id,
                error_code=error.code,
                error_msg=error.message,
                segments=tuple(self._segments),
            )
        )

    def _end(self, result: PlanResult) -> None:
        self._queue.put(None)
        self.future.set_result(result)


def _require_sendable(report: SegmentReport) -> None:
    """Refuses a report that no message can hold, before anything depends on it."""
    try:
        serialize_message(conversions.from_report(report))
    except PlannerError:
        raise
    except Exception as error:  # rclpy's own depend on the field
        raise PlannerError(ErrorCode.INVALID_ARGUMENT, f"a field of the report has a wrong type: {error!r}") from error
