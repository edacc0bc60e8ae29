"""One child process as its parent holds it: the pipe, a thread that writes to it, and what the child last said."""

import logging
import multiprocessing
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess

from llm_planner.core.errors import PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.serving.child_process import (
    Beat,
    ChildMessage,
    ChildWord,
    ParentMessage,
    StartFailed,
    Stop,
    run_child,
)
from llm_planner.serving.loop import PlannerLoop

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long, and how often, a parent bears with its child.

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


class ChildLink:
    """One child from its birth to its end. The pipe may be full, so a thread writes to it and the owner never waits.

    Args:
        factory: Builds the loop in the child; picklable.
        clock: Tells the time.
        patience: Timeouts.

    Attributes:
        is_ready: Whether the child has said that its loop turns.
        error: Why the child did not start, if it said so.
    """

    def __init__(self, factory: Callable[[], PlannerLoop], clock: Clock, patience: Patience) -> None:
        self._clock = clock
        self._patience = patience
        self._last_word_s = clock.now_s()
        self.is_ready = False
        self.error: PlannerError | None = None
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(
            target=run_child, args=(theirs, factory, patience.beat_interval_s), name="planner-engine", daemon=True
        )
        self._outbox: queue.SimpleQueue[ParentMessage | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="planner-writer", daemon=True)
        self._process.start()
        theirs.close()  # or the end of the child would not show as the end of the pipe
        self._writer.start()

    @property
    def pid(self) -> int | None:
        """Process id of the child."""
        return self._process.pid

    def send(self, message: ParentMessage) -> None:
        """Queues a message; never blocks. What a dead child does not get, the next one is told anew."""
        self._outbox.put(message)

    def listen(self, on_message: Callable[[ChildWord], None], is_closing: threading.Event) -> None:
        """Hears the child until it has ended, hangs and is killed, or ``is_closing`` is set."""
        while not is_closing.is_set():
            timeout_s = self._patience.hang_timeout_s if self.is_ready else self._patience.start_timeout_s
            left_s = self._last_word_s + timeout_s - self._clock.now_s()
            if left_s <= 0:
                _log.error("the engine process said nothing for %g s: killing it", timeout_s)
                self._process.kill()
                self._drain(on_message)
                return
            ready = wait([self._connection, self._process.sentinel], min(left_s, self._patience.beat_interval_s))
            if ready and not self._drain(on_message):
                return

    def end(self, timeout_s: float) -> None:
        """Tells the child to end, kills it after ``timeout_s``, and frees everything."""
        self._outbox.put(Stop())
        self._process.join(timeout_s)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._outbox.put(None)
        self._writer.join()
        self._connection.close()
        self._process.close()

    def _write(self) -> None:
        try:
            while (message := self._outbox.get()) is not None:
                self._connection.send(message)
        except (OSError, ValueError):
            return

    def _drain(self, on_message: Callable[[ChildWord], None]) -> bool:
        """Hears what has arrived; returns False at the end of the pipe."""
        try:
            while self._connection.poll():
                message: ChildMessage = self._connection.recv()
                self._last_word_s = self._clock.now_s()
                self.is_ready |= isinstance(message, Beat)
                if isinstance(message, StartFailed):
                    self.error = message.error
                else:
                    on_message(message)
        except (EOFError, OSError):
            return False
        return True
