# SPDX-License-Identifier: Apache-2.0
"""Suspended generations whose robot is busy, by the time at which they must run again."""

import heapq
from collections.abc import Iterator, ValuesView

from llm_planner.scheduling.generation import Generation


class SuspendedGenerations:
    """A set of generations by id that gives out those whose ``resume_at_s`` has come."""

    def __init__(self) -> None:
        self._members: dict[str, Generation] = {}
        self._wakeups: list[tuple[float, int, str]] = []  # heap; stale once the generation's resume_at_s has changed

    def __len__(self) -> int:
        return len(self._members)

    def add(self, generation: Generation) -> None:
        """Puts a generation in, or updates when it must resume."""
        self._members[generation.request_id] = generation
        heapq.heappush(self._wakeups, (generation.resume_at_s, generation.order, generation.request_id))

    def get(self, request_id: str) -> Generation | None:
        """Returns a generation by its id."""
        return self._members.get(request_id)

    def pop(self, request_id: str) -> Generation | None:
        """Takes a generation out, if it is in."""
        return self._members.pop(request_id, None)

    def values(self) -> ValuesView[Generation]:
        """Returns all generations."""
        return self._members.values()

    @property
    def next_s(self) -> float | None:
        """When the first one must resume; None if no generation is suspended."""
        while self._wakeups:
            resume_at_s, _, request_id = self._wakeups[0]
            suspended = self._members.get(request_id)
            if suspended is not None and suspended.resume_at_s == resume_at_s:
                return resume_at_s
            heapq.heappop(self._wakeups)
        return None

    def take_due(self, now_s: float) -> Iterator[Generation]:
        """Yields, and takes out, those that must resume by ``now_s``, the earliest first."""
        while (next_s := self.next_s) is not None and next_s <= now_s:
            yield self._members.pop(heapq.heappop(self._wakeups)[2])
