"""A server whose loop is a thread of this process: simple, but a crash of the engine is a crash of the owner."""

import logging
import threading
from collections.abc import Callable

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.request import PlanRequest
from llm_planner.core.segment import SegmentReport
from llm_planner.scheduling.execution_tracker import Reception
from llm_planner.serving.admission import Admission
from llm_planner.serving.dispatcher import Dispatcher
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
        admission: Checks requests at the door.
        on_event: Hears all events, on one thread of the server.
        clock: Tells the time.
    """

    def __init__(
        self, loop: PlannerLoop, *, admission: Admission, on_event: Callable[[Event], None], clock: Clock
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._admission = admission
        self._book = GoalBook(admission)
        self._report_lock = threading.Lock()
        self._dispatcher = Dispatcher(on_event)
        self._runner = LoopRunner(loop, clock=clock, on_turn=self._tell)
        self._thread = threading.Thread(target=self._run, name="planner-loop", daemon=True)
        self._loop_status = loop.status
        self._view: LoopView | None = None
        self._error: PlannerError | None = None

    def start(self) -> None:
        """Starts the threads."""
        self._dispatcher.start()
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
            PlannerError: If it is refused at the door, or the server takes none any more.
        """
        now_s = self._clock.now_s()
        superseded = self._book.open(request, now_s)
        if superseded is not None:
            self._announce_end(superseded)
        if self._error is not None:  # asked after opening: a stop that comes later ends the goal
            self._book.end(request.request_id, self._error.code, self._error.message)
            raise self._error
        self._runner.put(lambda loop: loop.submit(request, now_s), request.request_id)

    def cancel(self, request_id: str, code: ErrorCode = ErrorCode.CANCELLED, message: str = "cancelled") -> bool:
        """Ends a goal at once; returns False if it has ended already."""
        finished = self._book.end(request_id, code, message)
        if finished is not None:
            self._announce_end(finished)
        return finished is not None

    def report(self, report: SegmentReport) -> bool:
        """Takes a robot's word on a segment; returns False if the goal is unknown."""
        now_s, report = self._clock.now_s(), self._admission.bounded(report)
        with self._report_lock:  # the loop takes them in the order in which the book did
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
        self._dispatcher.close()

    def _look(self, loop: PlannerLoop) -> list[Event]:
        self._view = loop.look(self._clock.now_s())
        return []

    def _announce_end(self, finished: Event) -> None:
        self._dispatcher.put(finished)
        self._runner.put(lambda loop: loop.cancel(finished.request_id), finished.request_id)

    def _stop(self, error: PlannerError) -> None:
        """Takes no goals any more and ends those there are."""
        self._error = self._error or error
        for finished in self._book.end_all(error.code, error.message):
            self._dispatcher.put(finished)

    def _run(self) -> None:
        try:
            self._runner.run()
        except Exception as error:  # noqa: BLE001 (whatever it is, every goal must end)
            _log.exception("the planner loop failed")
            self._stop(PlannerError(ErrorCode.ENGINE_FAILED, f"the engine failed: {error}; restart the planner"))

    def _tell(self, events: list[Event]) -> None:
        self._loop_status = self._loop.status
        for event in events:
            accepted = self._book.accept(event, self._clock.now_s())
            if accepted is not None:
                self._dispatcher.put(accepted)
