"""What a robot holds of its goal: segments as they come, reports, cancel, result."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue

from llm_planner.core.errors import PlannerError
from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.core.segment import ReportStatus, Segment, SegmentReport, Situation
from llm_planner.core.skill import Value
from llm_planner.ros.segment_inbox import SegmentInbox


class PlanHandle:
    """One goal. Usable from any thread; what blocks says so.

    Either iterate over it (``for segment in handle``, blocking, not in a callback of the node), or give
    ``PlannerClient.plan`` an ``on_segment`` callback. Each segment comes exactly once and in order.

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

    @property
    def goal_id(self) -> str:
        """The action goal's UUID, 32 hexadecimal digits."""
        return self.request.request_id

    @property
    def is_done(self) -> bool:
        """Whether the goal has ended."""
        return self.future.done()

    def __iter__(self) -> Iterator[Segment]:
        """Yields the segments; blocks until the next one is there, ends when the goal has ended."""
        while (segment := self._queue.get()) is not None:
            yield segment
        self._queue.put(None)  # a second loop ends too

    def result(self, timeout_s: float | None = None) -> PlanResult:
        """Waits for the end of the goal and returns how it ended; never raises for a goal that failed.

        Raises:
            TimeoutError: If it has not ended after ``timeout_s``; None waits for ever.
        """
        return self.future.result(timeout_s)

    def report(
        self,
        segment: Segment,
        status: ReportStatus,
        *,
        duration_s: float = 0.0,
        value: Value | None = None,
        reason: str = "",
        situation: Situation | None = None,
    ) -> None:
        """Tells the planner how a segment stands; report STARTED, then SUCCEEDED or FAILED.

        Args:
            segment: Which one.
            status: How it stands.
            duration_s: Measured execution time, with SUCCEEDED and FAILED.
            value: What its last call returned, if anything.
            reason: Why it failed.
            situation: With FAILED, where the robot stands and what it sees, if it waits for another way: what comes
                before the next segment without text is void then.
        """
        self._send_report(
            SegmentReport(
                request_id=self.goal_id,
                index=segment.index,
                status=status,
                duration_s=duration_s,
                value=value,
                reason=reason,
                situation=situation,
            )
        )

    def cancel(self) -> None:
        """Asks the planner to end the goal; the result follows with CANCELLED (or as it had ended before)."""
        self._request_cancel(self)

    # For the client, in the executor's thread

    @property
    def inbox(self) -> SegmentInbox:
        """Where segments come in."""
        return self._inbox

    def offer(self, segments: list[Segment], num_segments: int) -> None:
        """Delivers what may be executed now."""
        if self.is_done:
            return
        for segment in self._inbox.offer(segments, num_segments):
            self._segments.append(segment)
            self._on_segment(segment)

    def finish(self, result: PlanResult) -> None:
        """Delivers what only the result brought, and ends the goal; the first call wins."""
        if self.is_done:
            return
        self.offer(list(result.segments), len(result.segments))
        self._queue.put(None)
        self.future.set_result(result)

    def fail(self, error: PlannerError) -> None:
        """Ends the goal with an error found on this side; keeps what was delivered."""
        self.finish(
            PlanResult(
                request_id=self.goal_id,
                error_code=error.code,
                error_msg=error.message,
                segments=tuple(self._segments),
            )
        )
