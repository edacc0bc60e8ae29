# SPDX-License-Identifier: Apache-2.0
"""Drives a loop in real time on one thread: obeys commands, runs steps, and waits until there is something to do."""

import logging
import queue
from collections.abc import Callable

from llm_planner.core.interfaces import Clock
from llm_planner.serving.events import Event
from llm_planner.serving.loop import PlannerLoop

_log = logging.getLogger(__name__)
Command = Callable[[PlannerLoop], list[Event]]


class LoopRunner:
    """Commands come in from any thread; everything else happens on the thread that calls ``run``.

    Args:
        loop: The loop.
        clock: Tells the time.
        on_turn: Called after every turn with the events that it caused, often none.
        max_sleep_s: Longest time between two turns, in seconds; None for no limit.

    Attributes:
        longest_turn_s: Time that the longest command or step took so far, the loop's rehearsals included.
    """

    def __init__(
        self,
        loop: PlannerLoop,
        *,
        clock: Clock,
        on_turn: Callable[[list[Event]], None],
        max_sleep_s: float | None = None,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._on_turn = on_turn
        self._max_sleep_s = max_sleep_s
        self._commands: queue.SimpleQueue[tuple[Command, str | None] | None] = queue.SimpleQueue()
        self.longest_turn_s = loop.longest_rehearsal_s

    def put(self, command: Command, request_id: str | None = None) -> None:
        """Queues a command; it is obeyed before the next step.

        Args:
            command: What it raises is logged; it ends no other goal than its own, and not the loop.
            request_id: The goal that it is about, which ends with ENGINE_FAILED if the command raises.
        """
        self._commands.put((command, request_id))

    def stop(self) -> None:
        """Makes ``run`` return after the present turn and the commands before this one."""
        self._commands.put(None)

    def run(self) -> None:
        """Runs until stopped; closes the loop in any case."""
        try:
            while (events := self._turn()) is not None:
                self._on_turn(events)
        finally:
            self._loop.close()

    def _turn(self) -> list[Event] | None:
        """Obeys one command, or runs one step if there is none; returns the events, None at the end."""
        try:
            entry = self._commands.get(timeout=self._sleep_s())
        except queue.Empty:
            return self._timed(lambda: self._loop.step(self._clock.now_s()))
        return None if entry is None else self._timed(lambda: self._obey(*entry))

    def _timed(self, turn: Callable[[], list[Event]]) -> list[Event]:
        began_s = self._clock.now_s()
        try:
            return turn()
        finally:
            self.longest_turn_s = max(self.longest_turn_s, self._clock.now_s() - began_s)

    def _obey(self, command: Command, request_id: str | None) -> list[Event]:
        try:
            return command(self._loop)
        except Exception as error:  # noqa: BLE001 (whatever it is, the other goals must go on)
            _log.exception("a command about goal %s failed", request_id)
            return [] if request_id is None else self._loop.give_up(request_id, f"the planner failed: {error!r}")

    def _sleep_s(self) -> float | None:
        now_s = self._clock.now_s()
        wakeup_s = self._loop.next_wakeup_s(now_s)
        limits_s = [self._max_sleep_s, None if wakeup_s is None else max(0.0, wakeup_s - now_s)]
        return min((s for s in limits_s if s is not None), default=None)
