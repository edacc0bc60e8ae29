"""A server whose loop lives in a child process: no step, no crash and no hang of the engine reaches the owner."""

import logging
import multiprocessing
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.request import PlanRequest
from llm_planner.core.segment import SegmentReport
from llm_planner.serving.admission import Admission
from llm_planner.serving.child_process import (
    Beat,
    Cancel,
    ChildMessage,
    ParentMessage,
    Report,
    StartFailed,
    Stop,
    Submit,
    run_child,
)
from llm_planner.serving.dispatcher import Dispatcher
from llm_planner.serving.events import Event, Finished
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.loop import LoopStatus, PlannerLoop
from llm_planner.serving.server import ServerStatus

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long, and how often, a ``ChildServer`` bears with its child.

    Attributes:
        start_timeout_s: For loading the model.
        hang_timeout_s: Longest silence of a child that is ready: longer than any step.
        stop_timeout_s: For an orderly end.
        beat_interval_s: How often the child says that it lives.
        max_restarts: Restarts in a row without any event in between; then the server gives up.
        max_attempts: Children in a row that may be given the same goal without getting any further with it.
    """

    start_timeout_s: float = 600.0
    hang_timeout_s: float = 60.0
    stop_timeout_s: float = 2.0
    beat_interval_s: float = 0.5
    max_restarts: int = 5
    max_attempts: int = 3


class _Link:
    """One child, and a thread that writes to it: the pipe may be full, the owner must not wait for that."""

    def __init__(self, factory: Callable[[], PlannerLoop], beat_interval_s: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(
            target=run_child, args=(theirs, factory, beat_interval_s), name="planner-engine", daemon=True
        )
        self._outbox: queue.SimpleQueue[ParentMessage | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="planner-writer", daemon=True)
        self.process.start()
        theirs.close()  # or the end of the child would not show as the end of the pipe
        self._writer.start()

    def send(self, message: ParentMessage) -> None:
        """Queues a message; never blocks. What a dead child does not get, the next one is told anew."""
        self._outbox.put(message)

    def _write(self) -> None:
        try:
            while (message := self._outbox.get()) is not None:
                self.connection.send(message)
        except (OSError, ValueError):
            return

    def end(self, timeout_s: float) -> None:
        """Tells the child to end, kills it after ``timeout_s``, and frees everything."""
        self._outbox.put(Stop())
        self.process.join(timeout_s)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self._outbox.put(None)
        self._writer.join()
        self.connection.close()
        self.process.close()


@dataclass(slots=True)
class _Health:
    """What is known of the present child."""

    last_word_s: float
    is_ready: bool = False
    error: PlannerError | None = field(default=None)


class ChildServer:
    """Implements ``PlanServer`` with a child process that is watched and restarted.

    When the child dies or hangs, the next one goes on with every unfinished goal behind the segments that were
    delivered. No segment is delivered twice, and what the old child said too late is not heard.

    Args:
        factory: Builds the loop in the child; picklable, e.g. ``functools.partial(build_loop, config)``.
        admission: Checks requests at the door.
        on_event: Hears all events, on one thread of the server.
        clock: Tells the time; the same in all processes of a machine, as ``core.clock.MonotonicClock`` does.
        patience: Timeouts and limits.
    """

    def __init__(
        self,
        factory: Callable[[], PlannerLoop],
        *,
        admission: Admission,
        on_event: Callable[[Event], None],
        clock: Clock,
        patience: Patience | None = None,
    ) -> None:
        self._factory = factory
        self._clock = clock
        self._patience = patience or Patience()
        self._book = GoalBook(admission)
        self._dispatcher = Dispatcher(on_event)
        self._watcher = threading.Thread(target=self._watch, name="planner-watch", daemon=True)
        self._lock = threading.Lock()  # a goal is opened and sent, or a child replaced: one at a time
        self._link: _Link | None = None
        self._loop_status: LoopStatus | None = None
        self._error: PlannerError | None = None
        self._is_ready = threading.Event()
        self._is_closing = threading.Event()
        self._num_restarts = 0
        self._num_failures = 0  # children in a row that ended without a single event

    # --- What the owner calls

    def start(self) -> None:
        """Starts the threads and, in the background, the child."""
        self._dispatcher.start()
        self._watcher.start()

    def wait_ready(self, timeout_s: float) -> bool:
        """Returns whether the child is ready, after at most ``timeout_s``.

        Raises:
            PlannerError: If the server has given up, e.g. MODEL_NOT_FOUND.
        """
        self._is_ready.wait(timeout_s)
        if self._error is not None:
            raise self._error
        return self._is_ready.is_set()

    def submit(self, request: PlanRequest) -> None:
        """Takes a request; if the child is not ready yet, it waits.

        Raises:
            PlannerError: If it is refused at the door, or the server takes none any more.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            superseded = self._book.open(request, self._clock.now_s())
            if superseded is not None:
                self._announce_end(superseded)
            if self._link is not None:
                self._hand_over(request.request_id, self._link)

    def cancel(self, request_id: str, code: ErrorCode = ErrorCode.CANCELLED, message: str = "cancelled") -> bool:
        """Ends a goal at once, whatever the child does; returns False if it has ended already."""
        with self._lock:
            finished = self._book.end(request_id, code, message)
            if finished is not None:
                self._announce_end(finished)
            return finished is not None

    def report(self, report: SegmentReport) -> bool:
        """Takes a robot's word on a segment; returns False if the goal is unknown."""
        with self._lock:
            now_s = self._clock.now_s()
            is_known = self._book.report(report, now_s)
            if is_known and self._link is not None:
                self._link.send(Report(report, now_s))
        return is_known

    @property
    def status(self) -> ServerStatus:
        """How it is."""
        return ServerStatus(
            is_ready=self._is_ready.is_set() and self._error is None,
            num_restarts=self._num_restarts,
            request_ids=self._book.request_ids,
            loop=self._loop_status,
            error=self._error,
        )

    @property
    def child_pid(self) -> int | None:
        """Process id of the child, if there is one now."""
        link = self._link
        return None if link is None else link.process.pid

    def close(self) -> None:
        """Ends all goals with SHUTTING_DOWN, then the child; safe to call twice."""
        self._stop(PlannerError(ErrorCode.SHUTTING_DOWN, "the planner is shutting down"))
        self._is_closing.set()
        with self._lock:
            if self._link is not None:
                self._link.send(Stop())  # its end wakes the watcher
        if self._watcher.is_alive():
            self._watcher.join()
        self._dispatcher.close()

    def _announce_end(self, finished: Finished) -> None:
        self._dispatcher.put(finished)
        if self._link is not None:
            self._link.send(Cancel(finished.request_id))

    def _stop(self, error: PlannerError) -> None:
        """Takes no goals any more and ends those there are."""
        with self._lock:
            self._error = self._error or error
            for finished in self._book.end_all(error.code, error.message):
                self._dispatcher.put(finished)

    # --- The watcher's thread

    def _watch(self) -> None:
        """Runs one child after the other until the server closes or gives up."""
        try:
            while not self._is_closing.is_set():
                self._run_child()
        except PlannerError as error:
            self._stop(error)
        except Exception as error:  # noqa: BLE001 (whatever it is, every goal must end)
            _log.exception("the watcher of the engine process failed")
            self._stop(PlannerError(ErrorCode.ENGINE_FAILED, f"no engine process: {error!r}; restart the planner"))
        self._is_ready.set()  # wakes those who wait, to be told the error

    def _run_child(self) -> None:
        """Runs a child from its birth to its end, and waits a little if it died early.

        Raises:
            PlannerError: If another one would do no better.
        """
        link = _Link(self._factory, self._patience.beat_interval_s)
        try:
            self._adopt(link)
            health = self._listen(link)
        finally:
            self._is_ready.clear()
            with self._lock:
                self._link = None
            link.end(self._patience.stop_timeout_s if self._is_closing.is_set() else 0.0)
        if self._is_closing.is_set():
            return
        self._num_failures += 1
        if health.error is not None and self._num_restarts == 0:
            raise health.error
        if self._num_failures > self._patience.max_restarts:
            message = f"the engine failed {self._num_failures} times in a row; see its log, then restart the planner"
            raise health.error or PlannerError(ErrorCode.ENGINE_FAILED, message)
        self._num_restarts += 1
        _log.warning("the engine process ended or hung; restart %d", self._num_restarts)
        self._is_closing.wait(min(2.0, 0.05 * 2**self._num_failures))

    def _adopt(self, link: _Link) -> None:
        """Makes ``link`` the present one and tells it all unfinished goals."""
        with self._lock:
            self._link = link
            for request_id in self._book.request_ids:
                self._hand_over(request_id, link)

    def _hand_over(self, request_id: str, link: _Link) -> None:
        handed = self._book.hand_over(request_id, self._patience.max_attempts)
        if handed is not None:
            link.send(Submit(*handed))
            return
        message = f"the engine failed {self._patience.max_attempts} times while planning this"
        finished = self._book.end(request_id, ErrorCode.ENGINE_FAILED, message)
        if finished is not None:
            self._dispatcher.put(finished)

    def _listen(self, link: _Link) -> _Health:
        """Hears the child until it has ended, hangs, or the server closes and it is told to end."""
        health = _Health(last_word_s=self._clock.now_s())
        while not self._is_closing.is_set():
            timeout_s = self._patience.hang_timeout_s if health.is_ready else self._patience.start_timeout_s
            left_s = health.last_word_s + timeout_s - self._clock.now_s()
            if left_s <= 0:
                _log.error("the engine process said nothing for %g s: killing it", timeout_s)
                link.process.kill()
                self._drain(link.connection, health)
                return health
            ready = wait([link.connection, link.process.sentinel], min(left_s, self._patience.beat_interval_s))
            if ready and not self._drain(link.connection, health):
                return health
        return health

    def _drain(self, connection: Connection, health: _Health) -> bool:
        """Hears what has arrived; returns False at the end of the pipe."""
        try:
            while connection.poll():
                self._hear(connection.recv(), health)
        except (EOFError, OSError):
            return False
        return True

    def _hear(self, message: ChildMessage, health: _Health) -> None:
        now_s = self._clock.now_s()
        health.last_word_s = now_s
        if isinstance(message, StartFailed):
            health.error = message.error
        elif isinstance(message, Beat):
            health.is_ready = True
            self._loop_status = message.status
            self._is_ready.set()
        else:
            self._num_failures = 0
            accepted = self._book.accept(message, now_s)
            if accepted is not None:
                self._dispatcher.put(accepted)
