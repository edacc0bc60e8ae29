# SPDX-License-Identifier: Apache-2.0
"""What runs in the child process of a ``ChildServer``: a loop, and a thread that listens to the parent."""

import atexit
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest
from llm_planner.core.segment import SegmentReport
from llm_planner.serving.events import Event
from llm_planner.serving.goal import History
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.runner import LoopRunner
from llm_planner.serving.view import LoopStatus, LoopView

_log = logging.getLogger(__name__)
_GRACE_S = 5.0
"""How long a step may go on after the parent has died."""


@dataclass(frozen=True, slots=True)
class Submit:
    """Parent to child: plan for this goal."""

    request: PlanRequest
    history: History


@dataclass(frozen=True, slots=True)
class Cancel:
    """Parent to child: forget this goal."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Report:
    """Parent to child: what a robot reported, and when it was received."""

    report: SegmentReport
    received_at_s: float


@dataclass(frozen=True, slots=True)
class Look:
    """Parent to child: send a view. The parent sends no second one before it has the answer."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Parent to child: end."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Child to parent: the loop turns. The first one says that it is ready.

    The loop's thread sends it, between two turns. A thread of its own would say that the process lives, which the
    parent knows anyhow, and would go on while the loop hangs in a step, which the parent must notice.

    Attributes:
        status: How busy the loop is.
        longest_turn_s: Its longest command or step so far: as long as it may well say nothing.
    """

    status: LoopStatus
    longest_turn_s: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Child to parent: the answer to ``Look``; None if there is none, because something unexpected happened."""

    view: LoopView | None


@dataclass(frozen=True, slots=True)
class StartFailed:
    """Child to parent: the loop could not be built."""

    error: PlannerError


ParentMessage = Submit | Cancel | Report | Look | Stop
EngineMessage = Heartbeat | Snapshot | Event
FirstMessage = EngineMessage | StartFailed


def main() -> None:
    """Makes the call that the parent sends through the pipe whose descriptor is the argument, then ends the process.

    It ends without the clean-up of interpreter and libraries, for which the parent would have to wait.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides about Ctrl-C
    connection: Connection = Connection(int(sys.argv[1]))
    run, *arguments = connection.recv()
    run(connection, *arguments)
    atexit._run_exitfuncs()  # noqa: SLF001 -- an engine's own processes and files are freed there
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def run_child(connection: Connection, factory: Callable[[], PlannerLoop], beat_interval_s: float) -> None:
    """Builds a loop and runs it until the parent says stop or dies."""
    try:
        loop = factory()
    except PlannerError as error:
        connection.send(StartFailed(PlannerError(error.code, error.message)))
        return
    except Exception as error:  # noqa: BLE001 (whatever it is, the parent must learn of it)
        _log.exception("the engine did not start")
        connection.send(StartFailed(PlannerError(ErrorCode.ENGINE_FAILED, f"the engine did not start: {error!r}")))
        return
    gc.collect()
    gc.freeze()  # model, grammars and modules stay to the end: no collection looks at them again
    _Child(connection, loop, beat_interval_s).run()


class _Child:
    """A loop and its line to the parent; only the loop's thread sends."""

    def __init__(self, connection: Connection, loop: PlannerLoop, beat_interval_s: float) -> None:
        self._connection = connection
        self._loop = loop
        self._beat_interval_s = beat_interval_s
        self._clock = MonotonicClock()
        self._runner = LoopRunner(loop, clock=self._clock, on_turn=self._tell, max_sleep_s=beat_interval_s)
        self._last_beat_s = self._clock.now_s()

    def run(self) -> None:
        """Runs until told to stop."""
        threading.Thread(target=self._listen, name="planner-parent", daemon=True).start()
        try:
            self._beat()
            self._runner.run()
        except (BrokenPipeError, ConnectionResetError):
            return  # the parent is gone: no process receives it

    def _listen(self) -> None:
        """Turns the parent's messages into commands; when the parent dies, so does this process."""
        try:
            while not isinstance(message := self._connection.recv(), Stop):
                self._put(message)
        except (EOFError, OSError):
            threading.Timer(_GRACE_S, os._exit, (1,)).start()
        except Exception:  # noqa: BLE001 (a goal may be in it, which must not be lost: the next process is told again)
            _log.exception("a message of the parent cannot be read; ending")
        self._runner.stop()

    def _put(self, message: ParentMessage) -> None:
        match message:
            case Submit(request, history):
                self._runner.put(lambda loop: loop.submit(request, history.arrival_s, history), request.request_id)
            case Cancel(request_id):
                self._runner.put(lambda loop: loop.cancel(request_id), request_id)
            case Report(report, received_at_s):
                self._runner.put(lambda loop: loop.report(report, received_at_s), report.request_id)
            case Look():
                self._runner.put(self._look)
            case Stop():
                raise AssertionError("the listener ends before this")

    def _look(self, loop: PlannerLoop) -> list[Event]:
        view = None
        try:
            view = loop.look(self._clock.now_s())
        finally:  # the parent asks for no other before it has this
            self._connection.send(Snapshot(view))
        return []

    def _tell(self, events: list[Event]) -> None:
        for event in events:
            self._connection.send(event)
        now_s = self._clock.now_s()
        if now_s - self._last_beat_s >= self._beat_interval_s:
            self._last_beat_s = now_s
            self._beat()

    def _beat(self) -> None:
        self._connection.send(Heartbeat(self._loop.status, self._runner.longest_turn_s))
