# SPDX-License-Identifier: Apache-2.0
"""Eq. (3) of A_min in front of a live engine: which request may start, and which one yields if one must."""

from collections.abc import Sequence

from llm_planner.scheduling.admission.memory import FutureMemory
from llm_planner.scheduling.generation import Generation, GenerationState
from llm_planner.scheduling.kv_ledger import KVLedger
from llm_planner.scheduling.places import Places
from llm_planner.scheduling.policies.memory_safe import MemorySafe


class MemoryGate:
    """Looks at the memory ahead; lives for one decision.

    Time counts in tokens of each running generation. M is what the ledger can share out: a pinned prefix is not in it,
    so it counts once however many share it. What a suspended generation holds is taken off. A cache fills blocks, so up
    to ``block_size - 1`` tokens more than it has count for each.

    Args:
        policy: Says what length is counted on.
        ledger: Of the KV blocks.
        places: Of the generations.
        can_offload: Whether the backend can move KV to host memory.
    """

    def __init__(self, policy: MemorySafe, ledger: KVLedger, places: Places, *, can_offload: bool) -> None:
        self._policy = policy
        self._ledger = ledger
        self._running = places.running
        self._memory = FutureMemory(0)
        self._booked: set[int] = set()  # in that memory: those that ran when it was last asked, by their order
        self._can_offload = can_offload
        suspended = (*places.suspended.values(), *places.ready.values())
        self._suspended_blocks = sum(ledger.claimed_blocks(g.request_id) for g in suspended)

    def admits(self, generation: Generation) -> bool:
        """Returns whether it and all that run fit until they end; one alone may always try."""
        if not self._running:
            return True
        own_blocks = 0
        if generation.state is GenerationState.SUSPENDED:
            own_blocks = self._ledger.claimed_blocks(generation.request_id)
        free_blocks = self._ledger.capacity_blocks - self._suspended_blocks + own_blocks
        self._memory.capacity_tokens = free_blocks * self._ledger.block_size
        self._book_running()
        return self._memory.fits(self._held_tokens(generation), 0, self._tokens_ahead(generation))

    def note_started(self, generation: Generation, claimed_before_blocks: int) -> None:
        """Notes that a generation runs now that had claimed ``claimed_before_blocks``."""
        if generation.state is GenerationState.RUNNING:
            self._suspended_blocks -= claimed_before_blocks

    def cheapest(self, candidates: Sequence[Generation]) -> Generation:
        """Returns the one that is preempted: the fewest tokens to bring back, of these the one that came last."""
        return min(candidates, key=lambda g: (g.kv_len - g.sequence.num_cached_tokens, -g.order))

    def _book_running(self) -> None:
        """Books those that run by now, and takes out those that do not any more."""
        running = {g.order: g for g in self._running.values()}
        for order in self._booked - running.keys():
            self._memory.remove(order)
        for order in running.keys() - self._booked:
            self._memory.add(order, self._held_tokens(running[order]), 0, self._tokens_ahead(running[order]))
        self._booked = set(running)

    def _held_tokens(self, generation: Generation) -> int:
        """Returns its own tokens in the cache once its next one is computed, less that one."""
        return generation.peak_kv_len - 1 - generation.sequence.num_cached_tokens + self._ledger.block_size - 1

    def _tokens_ahead(self, generation: Generation) -> int:
        counted = self._policy.counted_tokens(generation, can_offload=self._can_offload)
        return max(1, counted - generation.num_output_tokens)
