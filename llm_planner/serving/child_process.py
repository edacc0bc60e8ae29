# SPDX-License-Identifier: Apache-2.0
"""What runs in the child process of a ``ChildServer``: a loop in real time, and its line to the parent."""

import atexit
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.serving.events import Event
from llm_planner.serving.goal_record import GoalRecord
from llm_planner.serving.inbox import DeferredTime, Inbox, ParentGoneError
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.messages import (
    Admitted,
    Cancel,
    GoalMessage,
    Heartbeat,
    Look,
    LoopMessage,
    Report,
    Snapshot,
    StartFailed,
)

_log = logging.getLogger(__name__)
_DECISION_S = 0.01
"""From the end of a step until the parent knows what was decided about a time budget."""
_SHORT_BUDGET_S = 1.0
"""Time budgets, or what is left of them, for which deferrable messages wait."""
_LONGEST_WAIT_S = 1.0
"""How long they wait for such budgets, which may follow each other without end."""
_PERIOD_S = 0.002
"""How often, at most, a running step is interrupted to look for such a goal."""


def main() -> None:
    """Makes the call that the parent sends through the pipe whose descriptor is the argument, then ends the process.

    It ends without the clean-up of interpreter and libraries, for which the parent would have to wait.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides about Ctrl-C
    logging.basicConfig(format="%(message)s")
    logging.getLogger("llm_planner").setLevel(logging.INFO)
    connection: Connection = Connection(os.dup(int(sys.argv[1])))  # a low number, as ``select`` wants it
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

    Everything happens on the thread that calls ``run``.

    Deferrable messages (``Inbox``) wait for all others, and share the time with steps (``DeferredTime``). They also
    wait, for a second at most, while a short time budget is being kept, whose worst case does not count on them. Those
    with a time budget of their own wait only while the plan of an emergency is being written, or such a short budget is
    kept, and then take no longer than the steps.

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
        self._inbox = Inbox(connection)
        self._deferred_time = DeferredTime()
        self._last_beat_s = self._clock.now_s()
        self.longest_turn_s = loop.longest_rehearsal_s
        self._step_began_s = self._asked_s = self._waits_since_s = self._last_beat_s
        loop.tell_admissions(lambda goal: self._send(Admitted(goal.request.request_id, goal.is_capped)))
        loop.let_interrupt(self._is_pressing)

    def run(self) -> None:
        """Runs until the parent says so, or is gone; closes the loop in any case."""
        try:
            self._beat()
            while self._turn():
                pass
        except ParentGoneError:
            return  # no process receives it
        finally:
            self._loop.close()

    def _turn(self) -> bool:
        """Obeys one message, or runs one step if there is none, and sends what came of it; returns False at the end."""
        now_s = self._clock.now_s()
        wakeup_s = self._loop.next_wakeup_s(now_s)
        sleep_s = self._heartbeat_interval_s
        if wakeup_s is not None:
            sleep_s = min(sleep_s, max(0.0, wakeup_s - now_s))
        has_message = self._inbox.has_message(sleep_s)
        began_s = self._clock.now_s()
        if not has_message:
            events = self._defer_or_step(began_s, is_due=wakeup_s is not None and wakeup_s <= began_s)
        elif (message := self._inbox.take()) is None:
            return False
        else:
            events = self._obey(message)
        now_s = self._clock.now_s()
        self.longest_turn_s = max(self.longest_turn_s, now_s - began_s)
        for event in events:
            self._send(event)
        if now_s - self._last_beat_s >= self._heartbeat_interval_s:
            self._last_beat_s = now_s
            self._beat()
        return True

    def _defer_or_step(self, now_s: float, *, is_due: bool) -> list[Event]:
        """Obeys a deferrable message, or runs a step."""
        is_deferred = self._defers(now_s, is_due=is_due)
        events = self._loop.step(now_s, self._clock) if is_deferred else self._obey(self._inbox.take_deferrable())
        took_s = self._clock.now_s() - now_s
        if is_deferred:
            self._deferred_time.stepped(took_s)
        else:
            self._deferred_time.used(took_s)
        return events

    def _defers(self, now_s: float, *, is_due: bool) -> bool:
        """Returns whether a deferrable message has to wait, or there is none."""
        if not self._inbox.has_deferrable:
            self._waits_since_s = now_s
            return True
        if not is_due:
            return False
        has_had_its_time = self._deferred_time.is_up
        is_budget_short = self._loop.least_budget_s(now_s) < _SHORT_BUDGET_S
        if self._inbox.is_hurried:  # there is an end to its time: only an emergency, or a shorter one, may use it up
            return has_had_its_time and (is_budget_short or self._loop.has_emergency)
        has_waited = now_s - self._waits_since_s > _LONGEST_WAIT_S
        return (is_budget_short and not has_waited) or has_had_its_time

    def _is_pressing(self, share: float) -> bool:
        """Returns whether a time budget would be refused if the running step, a share of which is done, went on."""
        now_s = self._clock.now_s()
        if share == 0.0:
            self._step_began_s = self._asked_s = now_s
        if now_s - self._asked_s < _PERIOD_S:
            return False
        self._asked_s = now_s
        ends_s = self._step_began_s + (now_s - self._step_began_s) / share
        return self._inbox.has_decision_due(now_s, ends_s + _DECISION_S)

    def _obey(self, message: GoalMessage | Look) -> list[Event]:
        """Tells the loop; what it raises ends the goal of that message, no other, and not the process."""
        if isinstance(message, Look):
            return self._show()
        try:
            match message:
                case GoalRecord():
                    return self._loop.open(message, self._clock.now_s())
                case Cancel(request_id):
                    self._loop.cancel(request_id)
                    return []  # it has ended with the parent, where its id may stand for another goal by now
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
        self._send(Snapshot(view))
        return []

    def _send(self, message: LoopMessage) -> None:
        try:
            self._connection.send(message)
        except OSError as error:
            raise ParentGoneError from error

    def _beat(self) -> None:
        self._send(Heartbeat(self._loop.status, self.longest_turn_s))
