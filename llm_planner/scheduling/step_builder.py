# SPDX-License-Identifier: Apache-2.0
"""One step in the making: what fits into its tokens, its slots and the KV memory."""

from collections.abc import Iterable

from llm_planner.core.step import SchedulerOutput, Sequence
from llm_planner.scheduling.generation import Generation, GenerationState
from llm_planner.scheduling.kv_ledger import KVLedger


def missing_blocks(generation: Generation, ledger: KVLedger) -> int:
    """Returns how many blocks a generation needs beyond its own, and those of a shared prefix, before it can run."""
    if generation.state is GenerationState.WAITING:
        shared = generation.sequence.num_cached_tokens // ledger.block_size
        return ledger.blocks_for(generation.peak_kv_len) - shared
    return ledger.missing_blocks(generation.request_id, generation.peak_kv_len)


class StepBuilder:
    """Fills one ``SchedulerOutput`` and books its KV blocks; lives for one decision.

    Args:
        ledger: Of the KV blocks.
        max_num_batched_tokens: How many tokens fit.
        released: Requests whose KV goes with this step.
        host_room_blocks: How many more blocks can move to host memory. What this step brings back from there makes no
            room: it leaves after others have come.

    Attributes:
        budget_tokens: How many more tokens fit.
    """

    def __init__(
        self, ledger: KVLedger, max_num_batched_tokens: int, released: Iterable[str], host_room_blocks: int
    ) -> None:
        self._ledger = ledger
        self._max_num_batched_tokens = self.budget_tokens = max_num_batched_tokens
        self._release = list(released)
        self._host_room_blocks = host_room_blocks
        self._offload: list[str] = []
        self._evict: dict[str, int] = {}
        self._restore: list[str] = []
        self._new: list[Sequence] = []
        self._insert: dict[str, tuple[int, ...]] = {}
        self._num_scheduled_tokens: dict[str, int] = {}
        self._drafting: list[Generation] = []

    @property
    def has_budget(self) -> bool:
        """Whether another token fits."""
        return self.budget_tokens > 0

    def runs(self, generation: Generation) -> bool:
        """Returns whether it runs in this step."""
        return generation.request_id in self._num_scheduled_tokens

    @property
    def runs_nothing(self) -> bool:
        """Whether no generation runs in this step, so far."""
        return not self._num_scheduled_tokens

    def limit_tokens(self, num_tokens: int) -> None:
        """Lets at most ``num_tokens`` more in."""
        self.budget_tokens = min(self.budget_tokens, num_tokens)

    def fits(self, generation: Generation, headroom_blocks: int = 0) -> bool:
        """Returns whether its next tokens fit into the free blocks, with ``headroom_blocks`` to spare."""
        return self.missing_blocks(generation) + headroom_blocks <= self._ledger.available_blocks

    def missing_blocks(self, generation: Generation) -> int:
        """Returns how many blocks it needs beyond its own before it can run."""
        return missing_blocks(generation, self._ledger)

    def admit(self, generation: Generation) -> None:
        """Takes a waiting or suspended generation in; it fits."""
        request_id = generation.request_id
        if generation.state is GenerationState.WAITING:
            self._ledger.open(request_id, generation.peak_kv_len, generation.sequence.num_cached_tokens)
            self._new.append(generation.admit())
        else:
            if generation.is_offloaded:
                self._ledger.restore(request_id)
                self._restore.append(request_id)
                generation.is_offloaded = False
            generation.resume()
        self.run(generation)

    def run(self, generation: Generation) -> None:
        """Schedules as many of its uncomputed tokens as the budget allows; its blocks fit.

        An eviction that is due comes first; no chunk goes beyond one that is still ahead.
        """
        num_uncomputed, request_id = generation.num_uncomputed_tokens, generation.request_id
        num_tokens = min(num_uncomputed, self.budget_tokens)
        if num_tokens == 0:
            return
        to_eviction = generation.num_tokens_to_eviction
        if to_eviction == 0:
            self._evict[request_id] = generation.evict()
            self._ledger.evict(request_id, generation.kv_len, generation.peak_kv_len)
        elif to_eviction is not None:
            num_tokens = min(num_tokens, to_eviction)
        if inserted := generation.take_insertion():
            self._insert[request_id] = inserted
        self.budget_tokens -= num_tokens
        self._num_scheduled_tokens[request_id] = num_tokens
        self._ledger.grow(request_id, generation.kv_len + num_tokens)
        if generation.num_draft_tokens and num_tokens == num_uncomputed:
            self._drafting.append(generation)

    def _add_drafts(self) -> None:
        """Schedules drafts with the tokens and blocks that are left: no generation makes room for a guess."""
        budget_tokens = self._max_num_batched_tokens - sum(self._num_scheduled_tokens.values())
        for generation in self._drafting:
            request_id, num_tokens = generation.request_id, generation.num_uncomputed_tokens
            room_tokens = self._ledger.room_tokens(request_id, generation.kv_len + num_tokens)
            useful_tokens = generation.num_tokens_left - 1
            num_drafted = min(generation.num_draft_tokens, budget_tokens, room_tokens, useful_tokens)
            if num_drafted > 0 and not generation.num_tokens_to_eviction:
                budget_tokens -= num_drafted
                self._num_scheduled_tokens[request_id] += num_drafted
                self._ledger.grow(request_id, generation.kv_len + num_tokens + num_drafted)

    def take_memory(self, generation: Generation) -> None:
        """Moves the KV of a suspended generation to host memory; without room there, it is lost."""
        num_blocks = self._ledger.private_blocks(generation.request_id)
        if max(1, num_blocks) > self._host_room_blocks:
            self.preempt(generation)
            return
        self._host_room_blocks -= num_blocks
        self._ledger.offload(generation.request_id)
        generation.is_offloaded = True
        self._offload.append(generation.request_id)

    def preempt(self, generation: Generation) -> None:
        """Takes the KV away from a generation that is not scheduled in this step."""
        self._ledger.close(generation.request_id)
        generation.preempt()
        self._release.append(generation.request_id)

    def build(self) -> SchedulerOutput:
        """Returns the step."""
        self._add_drafts()
        return SchedulerOutput(
            release=tuple(self._release),
            offload=tuple(self._offload),
            evict=self._evict,
            restore=tuple(self._restore),
            new=tuple(self._new),
            insert=self._insert,
            num_scheduled_tokens=self._num_scheduled_tokens,
        )
