# SPDX-License-Identifier: Apache-2.0
"""Generations that are ready to run, in the policy's order, without ranking all of them at every decision."""

import heapq
from collections.abc import Generator, Hashable, ValuesView

from llm_planner.scheduling.generation import Generation
from llm_planner.scheduling.policies.interface import Policy, Rank

_Entry = tuple[Rank, int, Generation]


class ReadyQueue:
    """A set of generations by id that can be walked in the order of a policy.

    Ranks change with time, but within one sub-queue of the policy no request overtakes another. Each sub-queue is a
    heap, and only the first of each is ranked: a decision costs O(sub-queues + k log n) for the first k of n.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._members: dict[str, Generation] = {}
        self._entries: dict[str, _Entry] = {}
        self._sub_queues: dict[Hashable, list[_Entry]] = {}

    def __len__(self) -> int:
        return len(self._members)

    def add(self, generation: Generation) -> None:
        """Puts a generation in; its request is not in yet."""
        sub_queue, place = self._policy.sub_queue(generation)
        entry = (place, generation.order, generation)
        self._members[generation.request_id] = generation
        self._entries[generation.request_id] = entry
        heapq.heappush(self._sub_queues.setdefault(sub_queue, []), entry)

    def place_again(self, generation: Generation) -> None:
        """Gives a generation, if it is in, the place that is now its own; not one that has ended and left its id."""
        if self._members.get(generation.request_id) is generation:
            self.pop(generation.request_id)
            self.add(generation)

    def get(self, request_id: str) -> Generation | None:
        """Returns a generation by its id."""
        return self._members.get(request_id)

    def pop(self, request_id: str) -> Generation | None:
        """Takes a generation out, if it is in; its entry in the sub-queue goes when it comes up."""
        self._entries.pop(request_id, None)
        return self._members.pop(request_id, None)

    def values(self) -> ValuesView[Generation]:
        """Returns all generations, in no particular order."""
        return self._members.values()

    def ranked(self, now_s: float) -> Generator[Generation, None, None]:
        """Yields generations from the most pressing one on; each may be popped while it is looked at.

        It must be closed if it is left early.
        """
        heads = [head for sub_queue in list(self._sub_queues) if (head := self._head(sub_queue, now_s)) is not None]
        heapq.heapify(heads)
        looked_at: list[tuple[Hashable, _Entry]] = []
        try:
            while heads:
                _, _, sub_queue = heapq.heappop(heads)
                entry = heapq.heappop(self._sub_queues[sub_queue])
                looked_at.append((sub_queue, entry))
                yield entry[2]
                head = self._head(sub_queue, now_s)
                if head is not None:
                    heapq.heappush(heads, head)
        finally:
            for sub_queue, entry in looked_at:
                if self._is_live(entry):
                    heapq.heappush(self._sub_queues.setdefault(sub_queue, []), entry)

    def _head(self, sub_queue: Hashable, now_s: float) -> tuple[Rank, int, Hashable] | None:
        """Ranks the first live entry of a sub-queue; an empty sub-queue goes."""
        entries = self._sub_queues[sub_queue]
        while entries and not self._is_live(entries[0]):
            heapq.heappop(entries)
        if not entries:
            del self._sub_queues[sub_queue]
            return None
        generation = entries[0][2]
        return (self._policy.rank(generation, now_s), generation.order, sub_queue)

    def _is_live(self, entry: _Entry) -> bool:
        return self._entries.get(entry[2].request_id) is entry
