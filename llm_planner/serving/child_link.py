# SPDX-License-Identifier: Apache-2.0
"""One child process as its parent holds it: the pipe, a thread for each direction, and how long it has been silent."""

import atexit
import contextlib
import logging
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.serving.child_process import run_child
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.messages import ChildMessage, Heartbeat, LoopMessage, ParentMessage, StartFailed
from llm_planner.serving.parent_death import ends_with_parent

_log = logging.getLogger(__name__)
_KILL_TIMEOUT_S = 5.0
"""How long a killed process may take to end; one that a device driver holds may never do."""
_DRAIN_TIMEOUT_S = 1.0
"""How long what a dead child has sent may take to be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long, and how often, a parent bears with its child.

    Attributes:
        start_timeout_s: For loading the model.
        warn_timeout_s: Silence of a child that is ready, from which on the status says so.
        least_hang_timeout_s: Silence for which a child that is ready is never replaced.
        hang_timeout_s: Longest silence of a child that is ready.
        hang_turns: In between, a child is replaced after this many times its longest command or step so far.
        stop_timeout_s: For an orderly end.
        heartbeat_interval_s: How often the child says that it lives.
        max_restarts: Restarts in a row without any event in between; then the server gives up.
        max_attempts: Children in a row that may end with the same goal and without getting any further with it.
    """

    start_timeout_s: float = 600.0
    warn_timeout_s: float = 2.0
    least_hang_timeout_s: float = 5.0
    hang_timeout_s: float = 60.0
    hang_turns: float = 10.0
    stop_timeout_s: float = 2.0
    heartbeat_interval_s: float = 0.5
    max_restarts: int = 5
    max_attempts: int = 3

    def silence_limit_s(self, longest_turn_s: float, num_hangs: int) -> float:
        """Returns after which silence a child that is ready is replaced.

        Args:
            longest_turn_s: Its longest command or step so far.
            num_hangs: Children before it that were replaced for their silence, without any event since. Each doubles
                the limit: the step that took too long may only be longer than any before it.
        """
        known_s = max(self.least_hang_timeout_s, self.hang_turns * longest_turn_s)
        return min(self.hang_timeout_s, known_s * 2.0 ** min(num_hangs, 30))


class ChildLink:
    """One child from its birth to its end. No call waits for the child, except ``watch`` and ``end``.

    Create it, and call ``watch`` and ``end``, on one thread that lives until the child has ended: the child dies with
    the thread that created it (``parent_death``).

    Args:
        factory: Builds the loop in the child; picklable.
        clock: Tells the time.
        timeouts: Timeouts.
        on_message: Called with what the child says, on a thread of the link. If it raises, the child is given up.
        num_hangs: As ``Timeouts.silence_limit_s`` has it.

    Attributes:
        num_hangs: The same; the owner sets it to 0 when there is an event.
        is_ready: Whether the child has said that its loop turns.
        has_hung: Whether it was killed because it said nothing.
        error: Why the child did not start, if it said so.
    """

    def __init__(
        self,
        factory: Callable[[], PlannerLoop],
        clock: Clock,
        timeouts: Timeouts,
        on_message: Callable[[LoopMessage], None],
        num_hangs: int = 0,
    ) -> None:
        self._clock = clock
        self._timeouts = timeouts
        self._on_message = on_message
        self.num_hangs = num_hangs
        self._longest_turn_s = 0.0
        self._awake_s = 0.0  # time in which ``watch`` ran; only that thread writes it
        self._received_at_s = 0.0  # the same when the child said something; only the reader writes it
        self.is_ready = False
        self.has_hung = False
        self.error: PlannerError | None = None
        call = pickle.dumps((run_child, factory, timeouts.heartbeat_interval_s))
        self._connection, theirs = Pipe()
        with contextlib.closing(theirs):  # or the end of the child would not show as the end of the pipe
            self._process = _start(theirs)
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._has_ended = threading.Event()
        self._writer = threading.Thread(target=self._write, name="planner-writer", daemon=True)
        self._reader = threading.Thread(target=self._read, name="planner-reader", daemon=True)
        atexit.register(self._process.kill)
        self._outbox.put(call)
        self._writer.start()
        self._reader.start()

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    @property
    def silent_s(self) -> float | None:
        """For how long a child that is ready has said nothing; None if that is nothing to speak of."""
        silent_s = self._all_silent_s
        return silent_s if self.is_ready and silent_s >= self._timeouts.warn_timeout_s else None

    @property
    def _all_silent_s(self) -> float:
        """For how long the child has said nothing; up to one heartbeat more, as ``_awake_s`` goes on in heartbeats."""
        return max(0.0, self._awake_s - self._received_at_s - self._timeouts.heartbeat_interval_s)

    def send(self, message: ParentMessage) -> None:
        """Queues a message; never blocks. What a dead child does not get, the next one is told again.

        Raises:
            PlannerError: ENGINE_FAILED if the message cannot be pickled; then nothing is sent.
        """
        try:
            data = pickle.dumps(message)
        except Exception as error:  # whatever the types in it raise
            what = type(message).__name__
            raise PlannerError(
                ErrorCode.ENGINE_FAILED, f"{what} cannot be sent to the engine process: {error!r}"
            ) from error
        self._outbox.put(data)

    def watch(self, is_closing: threading.Event) -> None:
        """Returns when the child has ended, has hung and was killed, or ``is_closing`` is set.

        Only time in which this thread ran counts as silence of the child: if the machine stood still, or both
        processes were stopped, it is not to blame.
        """
        pause_s = self._timeouts.heartbeat_interval_s
        was_silent_s = None
        while not is_closing.is_set() and self._process.poll() is None:
            began_s = self._clock.now_s()
            if self._has_ended.wait(pause_s):
                return
            self._awake_s += min(self._clock.now_s() - began_s, 2 * pause_s)
            if self._all_silent_s >= self._limit_s:
                _log.error("the engine process said nothing for %.1f s: killing it", self._all_silent_s)
                self.has_hung = self.is_ready
                self._process.kill()
                return
            silent_s = self.silent_s
            if silent_s is not None and was_silent_s is None:
                what = "the engine process has not answered for %.1f s; it is replaced after %.1f s"
                _log.warning(what, silent_s, self._limit_s)
            elif silent_s is None and was_silent_s is not None:
                _log.warning("the engine process answers again, after %.1f s", was_silent_s)
            was_silent_s = silent_s

    def end(self, timeout_s: float) -> None:
        """Tells the child to end, kills it after ``timeout_s``, receives what it has sent, and frees everything."""
        self.send(None)
        if not self._has_ended_within(timeout_s):
            self._process.kill()
            if not self._has_ended_within(_KILL_TIMEOUT_S):
                _log.error("the engine process %s was killed and does not end; it is left behind", self._process.pid)
        self._reader.join(_DRAIN_TIMEOUT_S)
        _shut_down(self._connection)
        self._outbox.put(None)
        self._writer.join()
        self._reader.join()
        self._connection.close()
        atexit.unregister(self._process.kill)

    def _has_ended_within(self, timeout_s: float) -> bool:
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def _limit_s(self) -> float:
        if not self.is_ready:
            return self._timeouts.start_timeout_s
        return self._timeouts.silence_limit_s(self._longest_turn_s, self.num_hangs)

    def _write(self) -> None:
        try:
            while (data := self._outbox.get()) is not None:
                self._connection.send_bytes(data)
        except (OSError, ValueError):
            return

    def _read(self) -> None:
        """Receives what the child sends, to the end of the pipe."""
        try:
            while True:
                message: ChildMessage = self._connection.recv()
                self._received_at_s = self._awake_s
                if isinstance(message, StartFailed):
                    self.error = message.error
                    continue
                if isinstance(message, Heartbeat):
                    self._longest_turn_s = max(self._longest_turn_s, message.longest_turn_s)
                    self.is_ready = True
                self._on_message(message)
        except (EOFError, OSError):
            return
        except Exception:  # noqa: BLE001 (whatever it is, the parent must go on)
            _log.exception("a message of the engine process cannot be read; giving it up")
        finally:
            self._has_ended.set()


def _start(connection: Connection) -> "subprocess.Popen[bytes]":
    """Returns a new child that reads what it is to do from a connection.

    It is no process of ``multiprocessing``, whose children import the parent's main module before they run any code of
    ours, and would outlive a parent that dies meanwhile.
    """
    descriptor = connection.fileno()
    code = f"import sys; sys.path[:] = {sys.path}; from llm_planner.serving.child_process import main; main()"
    command = ends_with_parent([sys.executable, "-c", code, str(descriptor)], signal.SIGKILL)
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[descriptor])


def _shut_down(connection: Connection) -> None:
    """Ends every read and write on a pipe, even if a process that its other end was handed on to still lives."""
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other end is closed
            return
