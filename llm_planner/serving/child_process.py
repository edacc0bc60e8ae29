# SPDX-License-Identifier: Apache-2.0
"""What runs in the child process of a ``ChildServer``: a loop in real time, and its line to the parent."""

import atexit
import gc
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.segment import SegmentReport
from llm_planner.serving.events import Event
from llm_planner.serving.goal_record import GoalRecord
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.view import LoopStatus, LoopView

_log = logging.getLogger(__name__)
_GRACE_S = 5.0
"""How long a step may go on after the parent has died."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Parent to child: forget this goal."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Report:
    """Parent to child: what a robot reported, and when it was received."""

    report: SegmentReport
    received_at_s: float

    @property
    def request_id(self) -> str:
        """Which goal it is about."""
        return self.report.request_id


@dataclass(frozen=True, slots=True)
class Look:
    """Parent to child: send a view. The parent sends no second one before it has the answer."""


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
class Admitted:
    """Child to parent: it was decided to keep the time budget of this goal. It brings the goal no further."""

    request_id: str


@dataclass(frozen=True, slots=True)
class StartFailed:
    """Child to parent: the loop could not be built."""

    error: PlannerError


GoalMessage = GoalRecord | Cancel | Report
ParentMessage = GoalMessage | Look | None
"""Parent to child; a record: plan for this goal. None: end."""
LoopMessage = Heartbeat | Snapshot | Admitted | Event
ChildMessage = LoopMessage | StartFailed


def main() -> None:
    """Makes the call that the parent sends through the pipe whose descriptor is the argument, then ends the process.

    It ends without the clean-up of interpreter and libraries, for which the parent would have to wait.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides about Ctrl-C
    logging.basicConfig(format="%(message)s")
    logging.getLogger("llm_planner").setLevel(logging.INFO)
    connection: Connection = Connection(int(sys.argv[1]))
    run, *arguments = connection.recv()
    run(connection, *arguments)
    atexit._run_exitfuncs()  # noqa: SLF001 -- an engine's own processes and files are freed there
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def run_child(connection: Connection, factory: Callable[[], PlannerLoop], heartbeat_interval_s: float) -> None:
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
    LoopRunner(connection, loop, heartbeat_interval_s).run()


class LoopRunner:
    """Drives a loop: obeys messages, runs steps, and waits until there is something to do.

    A thread listens to the parent. Everything else happens on the thread that calls ``run``, which alone sends.

    Args:
        connection: To the parent.
        loop: The loop.
        heartbeat_interval_s: How often the parent gets a heartbeat, at least.
        clock: Tells the time.

    Attributes:
        longest_turn_s: Time that the longest message or step took so far, the loop's rehearsals included.
    """

    def __init__(
        self, connection: Connection, loop: PlannerLoop, heartbeat_interval_s: float, clock: Clock | None = None
    ) -> None:
        self._connection = connection
        self._loop = loop
        self._heartbeat_interval_s = heartbeat_interval_s
        self._clock = clock or MonotonicClock()
        self._inbox: queue.SimpleQueue[ParentMessage] = queue.SimpleQueue()
        self._last_beat_s = self._clock.now_s()
        self.longest_turn_s = loop.longest_rehearsal_s
        loop.tell_admissions(lambda request_id: connection.send(Admitted(request_id)))

    def run(self) -> None:
        """Runs until the parent says so, or is gone; closes the loop in any case."""
        threading.Thread(target=self._listen, name="planner-parent", daemon=True).start()
        try:
            self._beat()
            while self._turn():
                pass
        except (BrokenPipeError, ConnectionResetError):
            return  # the parent is gone: no process receives it
        finally:
            self._loop.close()

    def _listen(self) -> None:
        """Queues what the parent says; when the parent dies, so does this process."""
        try:
            for message in iter(self._connection.recv, None):
                self._inbox.put(message)
        except (EOFError, OSError):
            threading.Timer(_GRACE_S, os._exit, (1,)).start()
        except Exception:  # noqa: BLE001 (a goal may be in it, which must not be lost: the next process is told again)
            _log.exception("a message of the parent cannot be read; ending")
        self._inbox.put(None)

    def _turn(self) -> bool:
        """Obeys one message, or runs one step if there is none, and sends what came of it; returns False at the end."""
        now_s = self._clock.now_s()
        wakeup_s = self._loop.next_wakeup_s(now_s)
        sleep_s = self._heartbeat_interval_s
        if wakeup_s is not None:
            sleep_s = min(sleep_s, max(0.0, wakeup_s - now_s))
        try:
            message = self._inbox.get(timeout=sleep_s)
        except queue.Empty:
            began_s = self._clock.now_s()
            events = self._loop.step(began_s)
        else:
            if message is None:
                return False
            began_s = self._clock.now_s()
            events = self._show() if isinstance(message, Look) else self._obey(message)
        now_s = self._clock.now_s()
        self.longest_turn_s = max(self.longest_turn_s, now_s - began_s)
        for event in events:
            self._connection.send(event)
        if now_s - self._last_beat_s >= self._heartbeat_interval_s:
            self._last_beat_s = now_s
            self._beat()
        return True

    def _obey(self, message: GoalMessage) -> list[Event]:
        """Tells the loop; what it raises ends the goal of that message, no other, and not the process."""
        try:
            match message:
                case GoalRecord():
                    return self._loop.open(message, self._clock.now_s())
                case Cancel(request_id):
                    return self._loop.cancel(request_id)
                case Report(report, received_at_s):
                    return self._loop.report(report, received_at_s)
        except Exception as error:  # noqa: BLE001 (whatever it is, the other goals must go on)
            _log.exception("a message about goal %s failed", message.request_id)
            return self._loop.give_up(message.request_id, f"the planner failed: {error!r}")

    def _show(self) -> list[Event]:
        """Sends a view; an empty one if that fails, because the parent asks for no other before it has this."""
        view = None
        try:
            view = self._loop.look(self._clock.now_s())
        except Exception:  # noqa: BLE001 (whatever it is, the goals must go on)
            _log.exception("no view of the loop")
        self._connection.send(Snapshot(view))
        return []

    def _beat(self) -> None:
        self._connection.send(Heartbeat(self._loop.status, self.longest_turn_s))
