"""Drives a loop in real time on one thread: obeys commands, runs steps, and sleeps until there is something to do."""

import queue
from collections.abc import Callable

from llm_planner.core.interfaces import Clock
from llm_planner.serving.events import Event
from llm_planner.serving.loop import PlannerLoop

Command = Callable[[PlannerLoop], list[Event]]


class LoopRunner:
    """Commands come in from any thread; everything else happens on the thread that calls ``run``.

    Args:
        loop: The loop.
        clock: Tells the time.
        on_turn: Called after every turn with the events that it caused, often none.
        max_sleep_s: Longest time between two turns, in seconds; None for no limit.
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
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()

    def put(self, command: Command) -> None:
        """Queues a command; it is obeyed before the next step."""
        self._commands.put(command)

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
            command = self._commands.get(timeout=self._sleep_s())
        except queue.Empty:
            return self._loop.step(self._clock.now_s())
        return None if command is None else command(self._loop)

    def _sleep_s(self) -> float | None:
        now_s = self._clock.now_s()
        wakeup_s = self._loop.next_wakeup_s(now_s)
        limits_s = [self._max_sleep_s, None if wakeup_s is None else max(0.0, wakeup_s - now_s)]
        return min((s for s in limits_s if s is not None), default=None)
