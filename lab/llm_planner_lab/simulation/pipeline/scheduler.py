# SPDX-License-Identifier: Apache-2.0
"""The scheduler of a simulated pipeline: running and waiting sequences, as vLLM keeps them, and a pacer's shares."""

from collections import deque
from enum import Enum

from llm_planner.scheduling.pipeline.pacer import Pacer, PipelineLoad
from llm_planner.scheduling.pipeline.urgency import urgent
from llm_planner_lab.simulation.pipeline.kv_peak import peak_kv_tokens
from llm_planner_lab.simulation.pipeline.kv_pool import KVPool
from llm_planner_lab.simulation.pipeline.micro_batch import MicroBatch, MicroBatchBuilder
from llm_planner_lab.simulation.pipeline.request import PipelineRequest, Sequence


class Admission(Enum):
    """What must fit into memory before a waiting request begins."""

    FIRST_CHUNK = "first_chunk"  # what its first micro-batch computes: vLLM 0.9
    WHOLE_PROMPT = "whole_prompt"  # vLLM 0.32 (`scheduler_reserve_full_isl`)
    LOOKAHEAD = "lookahead"  # it and the growth of all running ones within the next tokens (`kv_peak.py`)


class PipelineScheduler:
    """Builds one micro-batch after the other.

    Running sequences come first, in the order in which they began, then waiting ones. If a block is missing, the
    sequence that began last loses its KV and waits again, at the head of the queue, to be recomputed. Its tokens in
    flight are lost with it.

    Args:
        pacer: Says what the next micro-batch may hold.
        num_blocks: KV blocks of every stage.
        block_size: Tokens of a block.
        admission: What must fit before a request begins.
        hold_back_s: For how long a sequence is held back if it misses a micro-batch; None if urgency does not count.
    """

    def __init__(
        self,
        pacer: Pacer,
        num_blocks: int,
        block_size: int,
        admission: Admission,
        hold_back_s: float | None = None,
    ) -> None:
        self._pacer = pacer
        self._pool = KVPool(num_blocks)
        self._block_size = block_size
        self._admission = admission
        self._hold_back_s = hold_back_s
        self._urgent_ones: frozenset[int] = frozenset()
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self.num_preemptions = 0
        self.num_recomputed_tokens = 0

    @property
    def has_work(self) -> bool:
        """Whether any sequence runs or waits."""
        return bool(self._running or self._waiting)

    @property
    def num_free_blocks(self) -> int:
        """KV blocks that no sequence holds."""
        return self._pool.num_free

    def num_left(self, sequence: Sequence) -> int:
        """Returns how many tokens a sequence still brings, as far as is known: all that its request allows."""
        return sequence.most_tokens - sequence.num_tokens

    def add(self, request: PipelineRequest) -> Sequence:
        """Lets a request wait; returns what it will become."""
        sequence = Sequence(request)
        self._waiting.append(sequence)
        return sequence

    def schedule(self, now_s: float, num_in_flight: int) -> MicroBatch | None:
        """Returns the next micro-batch; None if there is nothing for one, or enough are in flight."""
        self._urgent_ones = self._find_urgent(now_s)
        share = self._pacer.next(self._load(), num_in_flight)
        if num_in_flight >= share.num_in_flight or share.token_budget <= 0:
            return None
        batch = MicroBatchBuilder(share)
        if self._add_running(batch):
            self._add_waiting(batch)
        if not batch.parts:
            return None
        self._pacer.scheduled(batch.num_prefill_tokens)
        return batch.build()

    def complete(self, batch: MicroBatch, now_s: float) -> None:
        """Books the tokens that a micro-batch brought."""
        for sequence, num_preemptions, brings_token in batch.members:
            if not brings_token or sequence.num_preemptions != num_preemptions:
                continue  # it was not the end of its prompt, or it lost its KV meanwhile
            sequence.num_tokens += 1
            sequence.token_times_s.append(now_s)
            if sequence.num_output_tokens >= sequence.request.num_output_tokens:
                self._running.remove(sequence)
                self._pool.free(sequence, is_preempted=False)

    def _add_running(self, batch: MicroBatchBuilder) -> bool:
        """Adds the running sequences, decodes before prompts; returns whether none had to lose its KV for it."""
        began_with = self.num_preemptions
        prompts: list[Sequence] = []
        for sequence in self._by_urgency(self._running):
            num_tokens = sequence.num_tokens - sequence.num_scheduled
            if num_tokens == 0:
                continue
            if num_tokens > 1:
                prompts.append(sequence)
            elif batch.has_room_for_decode and not self._add_one(batch, sequence, 1):
                return False
            if batch.budget <= 0:
                break
        for sequence in prompts:
            num_tokens = min(sequence.num_unscheduled, batch.budget)
            if num_tokens > 0 and not self._add_one(batch, sequence, num_tokens):
                return False
        return self.num_preemptions == began_with

    def _add_one(self, batch: MicroBatchBuilder, sequence: Sequence, num_tokens: int) -> bool:
        """Adds a running sequence, at the cost of those that began last; returns whether it could stay itself."""
        if sequence not in self._running:
            return True  # a sequence before it took its KV
        num_blocks = self._blocks(sequence.num_scheduled + num_tokens) - sequence.num_blocks
        while num_blocks > self._pool.num_free:
            victim = next((s for s in reversed(self._running) if not (batch.holds(s) or self._is_urgent(s))), sequence)
            self._preempt(victim)
            if victim is sequence:
                return False
        if num_blocks > 0:
            self._pool.take(sequence, num_blocks)
        batch.add(sequence, num_tokens)
        return True

    def _add_waiting(self, batch: MicroBatchBuilder) -> None:
        while self._waiting and batch.has_room_for_prompt:
            sequence = self._next_waiting()
            cached_blocks = min(sequence.num_cached_blocks, (sequence.num_tokens - 1) // self._block_size)
            num_cached = cached_blocks * self._block_size
            num_tokens = min(sequence.num_tokens - num_cached, batch.budget)
            if not self._fits(sequence, num_cached + num_tokens):
                return
            self._waiting.remove(sequence)
            self._running.append(sequence)
            self._pool.find_again(sequence)
            missing = self._blocks(num_cached + num_tokens) - sequence.num_blocks
            if missing > 0:
                self._pool.take(sequence, missing)
            if sequence.num_preemptions:
                self.num_recomputed_tokens += sequence.num_tokens - num_cached
            sequence.num_scheduled = num_cached
            batch.add(sequence, num_tokens, is_new=True)

    def _fits(self, sequence: Sequence, num_first_tokens: int) -> bool:
        if self._admission is Admission.FIRST_CHUNK:
            return self._blocks(num_first_tokens) <= self._pool.num_free
        if self._blocks(sequence.num_tokens) > self._pool.num_free:
            return False
        if self._admission is Admission.WHOLE_PROMPT or not self._running:
            return True
        residents = [(self.num_left(s), s.num_tokens) for s in (*self._running, sequence)]
        # A sequence leaves half of its last block empty on the mean.
        slack = len(residents) * self._block_size // 2
        return peak_kv_tokens(residents) + slack <= self._pool.num_blocks * self._block_size

    def _preempt(self, sequence: Sequence) -> None:
        self._running.remove(sequence)
        self._waiting.appendleft(sequence)
        self._pool.free(sequence, is_preempted=True)
        sequence.num_scheduled = 0
        sequence.num_preemptions += 1
        self.num_preemptions += 1

    def _load(self) -> PipelineLoad:
        num_decodes = num_ready = kv_tokens = num_prefill = num_urgent = 0
        for sequence in self._running:
            num_tokens = sequence.num_tokens - sequence.num_scheduled  # no property: this is the hottest loop
            if num_tokens > 1:
                num_prefill += num_tokens
                continue
            num_decodes += 1
            kv_tokens += sequence.num_tokens
            if num_tokens == 1:
                num_ready += 1
                num_urgent += self._is_urgent(sequence)
        first = waiting = 0
        if self._waiting and self._fits(self._next_waiting(), self._next_waiting().num_tokens):
            first = self._next_waiting().num_tokens
            waiting = self._admissible_tokens()
        return PipelineLoad(
            num_decodes=num_decodes,
            num_ready=num_ready,
            kv_tokens=kv_tokens,
            num_prefill_tokens=num_prefill,
            next_prompt_tokens=first,
            waiting_tokens=waiting,
            num_urgent_ready=num_urgent,
        )

    def _admissible_tokens(self) -> int:
        """Returns the tokens of waiting requests, from the first on, that the free blocks have room for."""
        free = self._pool.num_free * self._block_size
        total = 0
        for sequence in self._waiting:
            if total + sequence.num_tokens > free:
                break
            total += sequence.num_tokens
        return total

    def _find_urgent(self, now_s: float) -> frozenset[int]:
        if self._hold_back_s is None or not self.has_work:
            return frozenset()
        everybody = [*self._running, *self._waiting]
        waits = [(s.request.time_utility, now_s - s.waits_since_s) for s in everybody]
        flags = urgent(waits, self._hold_back_s)
        return frozenset(s.request.request_id for s, flag in zip(everybody, flags, strict=True) if flag)

    def _is_urgent(self, sequence: Sequence) -> bool:
        return bool(self._urgent_ones) and sequence.request.request_id in self._urgent_ones

    def _next_waiting(self) -> Sequence:
        return next(filter(self._is_urgent, self._waiting), self._waiting[0])

    def _by_urgency(self, sequences: list[Sequence]) -> list[Sequence]:
        if not self._urgent_ones:
            return list(sequences)
        return sorted(sequences, key=lambda s: not self._is_urgent(s))

    def _blocks(self, num_tokens: int) -> int:
        return -(-num_tokens // self._block_size)
