# SPDX-License-Identifier: Apache-2.0
"""Which goals an engine process is given: one goal that ends the process again and again takes no other with it."""

from collections.abc import Iterator
from dataclasses import dataclass

TRIAL_S = 5.0
"""How long a suspect is alone in a process, at most: nothing came of it, but the process lives."""


@dataclass(slots=True)
class _Goal:
    """An unfinished goal.

    Attributes:
        num_attempts: Processes in a row that ended while they had it and had brought it no further.
        given_at_s: When the present process was given it; None if it has not been.
        has_progressed: Whether the present process has brought it further.
    """

    is_urgent: bool
    num_attempts: int = 0
    given_at_s: float | None = None
    has_progressed: bool = False


class Quarantine:
    """Unfinished goals, and what engine processes made of them. Not thread-safe.

    When a process ends, any goal may be the reason that it had been given and that it had not brought any further. One
    that was there ``max_attempts - 1`` times is a suspect. As long as there is one, a process has one suspect at a time
    and no other goal, until there is progress or ``TRIAL_S`` have passed; urgent goals wait only if they are suspects.
    If the process ends although the suspect was alone, it is the reason, and ends. So an innocent goal is delayed, and
    goes on.

    A goal also ends after ``2 * max_attempts``, alone or not: a process may end later than a trial lasts.

    Args:
        max_attempts: Processes in a row that may end with a goal.

    Attributes:
        waiting: The goals that the present process has not been given.
    """

    def __init__(self, max_attempts: int) -> None:
        self._max_attempts = max_attempts
        self._goals: dict[str, _Goal] = {}
        self.waiting: dict[str, _Goal] = {}

    def add(self, request_id: str, *, is_urgent: bool) -> None:
        """Enters a new goal."""
        self._goals[request_id] = self.waiting[request_id] = _Goal(is_urgent)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._goals

    def __iter__(self) -> Iterator[str]:
        return iter(self._goals)

    def adopt(self, request_id: str, other: "Quarantine") -> None:
        """Takes over a goal of another quarantine, with what is known against it; it has been given to nobody here."""
        goal = other._goals.pop(request_id)  # noqa: SLF001 -- of the same class
        other.waiting.pop(request_id, None)
        goal.given_at_s, goal.has_progressed = None, False
        self._goals[request_id] = self.waiting[request_id] = goal

    def movable(self, *, with_suspects: bool) -> list[str]:
        """Returns the goals that may go on in other processes; suspects are better tried alone."""
        return [name for name, goal in self._goals.items() if with_suspects or not self._is_suspect(goal)]

    def _is_suspect(self, goal: _Goal) -> bool:
        return goal.num_attempts >= max(1, self._max_attempts - 1)

    def remove(self, request_id: str) -> None:
        """Forgets a goal that has ended."""
        self._goals.pop(request_id, None)
        self.waiting.pop(request_id, None)

    def progress(self, request_id: str) -> None:
        """Notes that the present process has brought a goal further."""
        goal = self._goals.get(request_id)
        if goal is not None:
            goal.has_progressed, goal.num_attempts = True, 0

    def take(self, now_s: float) -> list[str]:
        """Returns the goals that the present process is to be given now; they count as given."""
        if not self.waiting:
            return []
        suspects = {n: g for n, g in self._goals.items() if self._is_suspect(g)}
        is_trial = any(
            goal.given_at_s is not None and now_s < goal.given_at_s + TRIAL_S and not goal.has_progressed
            for goal in suspects.values()
        )
        untried = [name for name in self.waiting if name in suspects]
        if not (untried or is_trial):
            chosen = list(self.waiting)
        else:
            chosen = [name for name, goal in self.waiting.items() if goal.is_urgent and name not in suspects]
            chosen += [] if is_trial else untried[:1]
        for name in chosen:
            self.waiting.pop(name).given_at_s = now_s
        return chosen

    def begin_process(self) -> None:
        """Notes that another process begins, which has been given nothing."""
        for goal in self._goals.values():
            goal.given_at_s, goal.has_progressed = None, False
        self.waiting = dict(self._goals)

    def end_process(self) -> list[str]:
        """Notes that a process has ended by itself; returns the goals that end for that."""
        blamed = {n: g for n, g in self._goals.items() if g.given_at_s is not None and not g.has_progressed}
        for goal in blamed.values():
            goal.num_attempts += 1
        enough = self._max_attempts * (1 if len(blamed) == 1 else 2)
        return [name for name, goal in blamed.items() if goal.num_attempts >= enough]
