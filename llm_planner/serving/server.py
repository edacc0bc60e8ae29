"""What an owner (a ROS node, the command line) sees of the planner, and the server that runs in its own process."""

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.request import PlanRequest
from llm_planner.core.segment import SegmentReport
from llm_planner.serving.admission import Admission
from llm_planner.serving.dispatcher import Dispatcher
from llm_planner.serving.events import Event
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.loop import LoopStatus, PlannerLoop

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """How a server is.

    Attributes:
        is_ready: Whether it plans now. While it starts or restarts it takes goals, which wait.
        num_restarts: How often the engine was restarted.
        request_ids: Unfinished goals.
        loop: The last word of the loop; None before the first.
        error: Why it takes no goals any more; None while it does.
    """

    is_ready: bool
    num_restarts: int
    request_ids: tuple[str, ...]
    loop: LoopStatus | None
    error: PlannerError | None = None


class PlanServer(Protocol):
    """Plans for goals. No method blocks for long; all may be called from any thread.

    Events come one after the other on one thread of the server. Every request that ``submit`` takes ends with exactly
    one ``Finished``.
    """

    def start(self) -> None:
        """Begins to serve."""
        ...

    def submit(self, request: PlanRequest) -> None:
        """Takes a request, or raises PlannerError if it is refused at the door; then no event follows."""
        ...

    def cancel(self, request_id: str, code: ErrorCode = ErrorCode.CANCELLED, message: str = "cancelled") -> bool:
        """Ends a goal at once, whatever the engine does; returns False if it has ended already."""
        ...

    def report(self, report: SegmentReport) -> bool:
        """Takes a robot's word on a segment; returns False if the goal is unknown."""
        ...

    @property
    def status(self) -> ServerStatus:
        """How it is."""
        ...

    def close(self) -> None:
        """Ends all goals with SHUTTING_DOWN and frees everything; safe to call twice."""
        ...


class InProcessServer:
    """Runs the loop in a thread of this process: simple, but a crash of the engine is a crash of the owner.

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
        self._book = GoalBook(admission)
        self._dispatcher = Dispatcher(on_event)
        self._commands: queue.SimpleQueue[Callable[[], list[Event]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="planner-loop", daemon=True)
        self._status = loop.status
        self._error: PlannerError | None = None

    def start(self) -> None:
        """Starts the threads."""
        self._dispatcher.start()
        self._thread.start()

    def submit(self, request: PlanRequest) -> None:
        """Takes a request.

        Raises:
            PlannerError: If it is refused at the door, or the server takes none any more.
        """
        now_s = self._clock.now_s()
        superseded = self._book.open(request, now_s)
        if self._error is not None:  # asked after opening: a stop that comes later ends the goal
            self._book.end(request.request_id, self._error.code, self._error.message)
            raise self._error
        if superseded is not None:
            self._dispatcher.put(superseded)
            self._commands.put(lambda: self._loop.cancel(superseded.request_id))
        self._commands.put(lambda: self._loop.submit(request, now_s))

    def cancel(self, request_id: str, code: ErrorCode = ErrorCode.CANCELLED, message: str = "cancelled") -> bool:
        """Ends a goal at once; returns False if it has ended already."""
        finished = self._book.end(request_id, code, message)
        if finished is None:
            return False
        self._dispatcher.put(finished)
        self._commands.put(lambda: self._loop.cancel(request_id))
        return True

    def report(self, report: SegmentReport) -> bool:
        """Takes a robot's word on a segment; returns False if the goal is unknown."""
        now_s = self._clock.now_s()
        is_known = self._book.report(report, now_s)
        if is_known:
            self._commands.put(lambda: self._loop.report(report, now_s))
        return is_known

    @property
    def status(self) -> ServerStatus:
        """How it is."""
        return ServerStatus(
            is_ready=self._error is None,
            num_restarts=0,
            request_ids=self._book.request_ids,
            loop=self._status,
            error=self._error,
        )

    def close(self) -> None:
        """Ends all goals with SHUTTING_DOWN, waits for the step that runs, and frees everything."""
        self._stop(PlannerError(ErrorCode.SHUTTING_DOWN, "the planner is shutting down"))
        self._commands.put(None)
        if self._thread.is_alive():
            self._thread.join()
        self._dispatcher.close()

    def _stop(self, error: PlannerError) -> None:
        """Takes no goals any more and ends those there are."""
        self._error = self._error or error
        for request_id in self._book.request_ids:
            finished = self._book.end(request_id, error.code, error.message)
            if finished is not None:
                self._dispatcher.put(finished)

    def _run(self) -> None:
        try:
            while self._turn():
                self._status = self._loop.status
        except Exception as error:  # noqa: BLE001 (whatever it is, every goal must end)
            _log.exception("the planner loop failed")
            self._stop(PlannerError(ErrorCode.ENGINE_FAILED, f"the engine failed: {error}; restart the planner"))
        finally:
            self._loop.close()

    def _turn(self) -> bool:
        """Obeys one command, or runs one step when there is none; sleeps when there is neither. False: the end."""
        now_s = self._clock.now_s()
        wakeup_s = self._loop.next_wakeup_s(now_s)
        try:
            command = self._commands.get(timeout=None if wakeup_s is None else max(0.0, wakeup_s - now_s))
        except queue.Empty:
            self._tell(self._loop.step(self._clock.now_s()))
            return True
        if command is None:
            return False
        self._tell(command())
        return True

    def _tell(self, events: list[Event]) -> None:
        for event in events:
            accepted = self._book.accept(event, self._clock.now_s())
            if accepted is not None:
                self._dispatcher.put(accepted)
