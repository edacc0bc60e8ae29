# SPDX-License-Identifier: Apache-2.0
"""A server whose loop is a thread of this process: simple, but a crash of the engine is a crash of the owner."""

import logging
import threading

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.request import PlanRequest
from llm_planner.core.segment import SegmentReport
from llm_planner.scheduling.execution_tracker import Reception
from llm_planner.serving.events import Event
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.runner import LoopRunner
from llm_planner.serving.server import ServerStatus
from llm_planner.serving.view import LoopView

_log = logging.getLogger(__name__)


class InProcessServer:
    """Implements ``PlanServer`` in this process.

    Args:
        loop: Ready to run; the server closes it.
        book: The goals; what happens to them is announced there.
        clock: Tells the time.
    """

    def __init__(self, loop: PlannerLoop, *, book: GoalBook, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._book = book
        self._runner = LoopRunner(loop, clock=clock, on_turn=self._tell)
        self._thread = threading.Thread(target=self._run, name="planner-loop", daemon=True)
        self._loop_status = loop.status
        self._view: LoopView | None = None
        self._error: PlannerError | None = None

    def start(self) -> None:
        """Starts the threads."""
        self._thread.start()

    def wait_ready(self, timeout_s: float) -> bool:  # noqa: ARG002
        """Returns True: the loop was ready when it came.

        Raises:
            PlannerError: If the engine has failed.
        """
        if self._error is not None:
            raise self._error
        return True

    def submit(self, request: PlanRequest) -> None:
        """Takes a request.

        Raises:
            PlannerError: If it is refused at admission, or the server takes none any more.
        """
        with self._book.lock:
            if self._error is not None:
                raise self._error
            now_s = self._clock.now_s()
            superseded = self._book.open(request, now_s)
            if superseded is not None:
                self._forget(superseded.request_id)
            self._runner.put(lambda loop: loop.submit(request, now_s), request.request_id)

    def cancel(self, request_id: str, code: ErrorCode = ErrorCode.CANCELLED, message: str = "cancelled") -> bool:
        """Ends a goal at once; returns False if it has ended already."""
        has_ended = self._book.end(request_id, code, message, self._clock.now_s()) is not None
        if has_ended:
            self._forget(request_id)
        return has_ended

    def report(self, report: SegmentReport) -> bool:
        """Takes a robot's word on a segment; returns False if the goal is unknown."""
        now_s, report = self._clock.now_s(), self._book.bounded(report)
        with self._book.lock:  # the loop takes them in the order in which the book did
            reception = self._book.report(report, now_s)
            if reception in (Reception.ACCEPTED, Reception.FAILED):
                self._runner.put(lambda loop: loop.report(report, now_s), report.request_id)
        return reception is not None

    def look(self) -> None:
        """Asks the loop for a view, which ``status.view`` holds soon."""
        self._runner.put(self._look)

    @property
    def status(self) -> ServerStatus:
        """How it is."""
        return ServerStatus(
            is_ready=self._error is None,
            num_restarts=0,
            request_ids=self._book.request_ids,
            loop=self._loop_status,
            view=self._view,
            error=self._error,
        )

    def close(self) -> None:
        """Ends all goals with SHUTTING_DOWN, waits for the step that runs, and frees everything."""
        self._stop(PlannerError(ErrorCode.SHUTTING_DOWN, "the planner is shutting down"))
        self._runner.stop()
        if self._thread.is_alive():
            self._thread.join()

    def _look(self, loop: PlannerLoop) -> list[Event]:
        self._view = loop.look(self._clock.now_s())
        return []

    def _forget(self, request_id: str) -> None:
        """Takes a goal that has ended away from the loop."""
        self._runner.put(lambda loop: loop.cancel(request_id), request_id)

    def _stop(self, error: PlannerError) -> None:
        """Takes no goals any more and ends those there are, once: later ones in the book are another server's."""
        with self._book.lock:
            if self._error is None:
                self._error = error
                self._book.end_all(error.code, error.message, self._clock.now_s())

    def _run(self) -> None:
        try:
            self._runner.run()
        except Exception as error:  # noqa: BLE001 (whatever it is, every goal must end)
            _log.exception("the planner loop failed")
            self._stop(PlannerError(ErrorCode.ENGINE_FAILED, f"the engine failed: {error}; restart the planner"))

    def _tell(self, events: list[Event]) -> None:
        self._loop_status = self._loop.status
        for event in events:
            self._book.accept(event, self._clock.now_s())
