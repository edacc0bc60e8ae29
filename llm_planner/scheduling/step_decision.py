# SPDX-License-Identifier: Apache-2.0
"""One decision: which generations run in the next step, and how many tokens of each."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.step import SchedulerOutput
from llm_planner.scheduling.batch_limit import NUM_PRICED, LatencyGuidedLimit, SlotExchange
from llm_planner.scheduling.generation import Generation, GenerationState
from llm_planner.scheduling.kv_ledger import KVLedger
from llm_planner.scheduling.memory_gate import MemoryGate
from llm_planner.scheduling.places import Places
from llm_planner.scheduling.policies.interface import Rank
from llm_planner.scheduling.policies.memory_safe import MemorySafe
from llm_planner.scheduling.policies.pricing import PricedPolicy
from llm_planner.scheduling.reservation import Reservations, ReservedFirst
from llm_planner.scheduling.step_builder import StepBuilder
from llm_planner.scheduling.step_times import StepTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRules:
    """What every decision of a scheduler keeps to.

    Attributes:
        config: Limits.
        order: Of service, reservations first.
        reservations: The generations with a reserved slot.
        ledger: Of the KV blocks.
        host_room_blocks: How many more blocks the backend can move to host memory.
        times: Of the engine.
        pricing: Of a batch with a latency-guided limit; None for one without.
        safety: The policy, if it looks ahead in memory.
        price_per_s: What a lost second of the engine costs those that are not there yet.
    """

    config: SchedulerConfig
    order: ReservedFirst
    reservations: Reservations
    ledger: KVLedger
    host_room_blocks: int
    times: StepTimes
    pricing: PricedPolicy | None = None
    safety: MemorySafe | None = None
    price_per_s: float = 0.0

    @property
    def num_slots(self) -> int:
        """Slots that the reservations leave, which may cap the batch."""
        return self.reservations.num_slots(self.config.max_num_seqs)

    def has_reserved_slot(self, generation: Generation) -> bool:
        """Returns whether it has a reserved slot."""
        return generation.request_id in self.reservations


class StepDecision:
    """Fills one step from the places of a scheduler; lives for one decision.

    Args:
        rules: Of the scheduler.
        places: Of its generations; they move.
        now_s: The time of the decision.

    Attributes:
        unschedulable: Unschedulable generations, found to need more than the whole KV cache.
    """

    def __init__(self, rules: StepRules, places: Places, now_s: float) -> None:
        self._rules = rules
        self._places = places
        self._limit: LatencyGuidedLimit | None = None  # of the batch, once it is known what waits for it
        self._newcomers: list[Generation] = []  # that the limit is asked about
        self._now_s = now_s
        self._step = StepBuilder(
            rules.ledger, rules.config.max_num_batched_tokens, places.released, rules.host_room_blocks
        )
        self._gate: MemoryGate | None = None  # of a policy that looks ahead in memory, once it is known what pauses
        self.unschedulable: list[str] = []

    def make(self) -> SchedulerOutput:
        """Returns the step; empty if no generation can run."""
        self._pause_held_back()
        ranks = {g: self._rank(g) for g in self._places.running.values()}
        moved: list[Generation] = []
        if self._rules.pricing is not None or self._rules.reservations:
            best = self._best_ready()
            if self._give_way(ranks, best):
                best = self._best_ready()
            moved = self._give_memory(ranks, best)
            if self._rules.pricing is not None:
                self._limit = self._make_limit(self._rules.pricing, best)
        if self._rules.safety is not None:
            can_offload = self._rules.host_room_blocks > 0
            self._gate = MemoryGate(self._rules.safety, self._rules.ledger, self._places, can_offload=can_offload)
        preempted = self._schedule_running(ranks)
        if self._limit is None:
            self._schedule_ready()
        else:
            self._schedule_limited(self._limit)
        for generation in (*preempted, *moved):
            self._places.ready.add(generation)
        return self._step.build()

    def _pause_held_back(self) -> None:
        """Takes the slots of prompts that wait for a reservation; their memory, too, is there for those who need it."""
        for generation in [g for g in self._places.running.values() if self._rules.reservations.holds_back(g)]:
            self._places.pause(generation)

    def _make_limit(self, pricing: PricedPolicy, best: Sequence[Generation]) -> LatencyGuidedLimit:
        """Returns the limit of this step's batch, and notes which ready generations find a slot."""
        num_free = max(0, self._rules.num_slots - len(self._places.running))
        self._newcomers, behind = list(best[:num_free]), best[num_free : num_free + NUM_PRICED]
        num_behind = len(self._places.ready) - len(self._newcomers)
        price_per_s = self._rules.price_per_s
        return LatencyGuidedLimit(pricing, self._rules.times, self._now_s, behind, num_behind, price_per_s)

    def _best_ready(self) -> list[Generation]:
        """Returns the first in line of the ready generations, without prompts that wait for a reservation.

        As many as can find a slot, and those behind them that are priced. To rank them is half of a decision.
        """
        most = self._rules.config.max_num_seqs + NUM_PRICED
        with closing(self._places.ready.ranked(self._now_s)) as ranked:
            return list(islice((g for g in ranked if not self._rules.reservations.holds_back(g)), most))

    def _give_way(self, ranks: dict[Generation, Rank], best: Sequence[Generation]) -> bool:
        """Pauses running generations for better ranked ready ones where no slot is free: the way in for the urgent.

        Without a limit, only for those with a reserved slot. A reservation that caps the batch leaves fewer slots.
        Returns whether any was paused: it is ready now.
        """
        places = self._places
        num_too_many = max(0, len(places.running) - self._rules.num_slots)
        if not num_too_many and (not places.ready or self._has_slot):
            return False
        worst = sorted(ranks, key=lambda g: ranks[g], reverse=True)
        paused = worst[:num_too_many]
        best = best[: max(NUM_PRICED, len(worst) - num_too_many)]
        pricing = self._rules.pricing
        exchange = None if pricing is None else SlotExchange(pricing, self._rules.times, self._now_s, worst, best)
        resting_blocks = places.retained_blocks(self._rules.ledger)
        for incumbent, newcomer in zip(worst[num_too_many:], best, strict=False):
            may_push = self._rules.has_reserved_slot(newcomer)
            if exchange is not None and not may_push:
                others_blocks = (len(places.ready) - 1) * self._step.missing_blocks(newcomer)  # if all are like it
                has_room = self._step.fits(newcomer, others_blocks - resting_blocks)
                may_push = has_room or exchange.pays(incumbent, newcomer, len(places.ready))
            if self._rank(newcomer) >= ranks[incumbent] or not may_push:
                break
            paused.append(incumbent)
        for incumbent in paused:
            del ranks[incumbent]
            places.pause(incumbent)
        return bool(paused)

    def _give_memory(self, ranks: dict[Generation, Rank], best: Sequence[Generation]) -> list[Generation]:
        """Takes slots and memory of running generations for the first ready one, if it cannot run without.

        As in ``_give_way``, and for the same: one with a reserved slot, or one that is in time only so. Returns those
        that gave theirs; they are in no place until the step is decided.
        """
        givers = self._givers(best[0], ranks) if best and ranks else []
        for generation in givers:
            del ranks[generation]
            self._move_running(generation)
        return givers

    def _givers(self, newcomer: Generation, ranks: dict[Generation, Rank]) -> list[Generation]:
        """Returns the worst ranked running generations without whose memory a better ranked one cannot run.

        None if it can, or if those that may give have too little. Where memory is looked ahead in, only a reservation
        takes it from what was let in.
        """
        ledger, is_reserved = self._rules.ledger, self._rules.has_reserved_slot(newcomer)
        missing = self._step.missing_blocks(newcomer)
        needed = missing + len(ranks)  # each running one may take one more block
        is_too_large = missing + ledger.claimed_blocks(newcomer.request_id) > ledger.capacity_blocks
        if needed <= ledger.available_blocks or is_too_large or not (is_reserved or self._rules.safety is None):
            return []
        free = ledger.available_blocks + sum(ledger.claimed_blocks(g.request_id) for g in self._holders(newcomer))
        if needed <= free:
            return []
        worst = sorted(ranks, key=lambda g: ranks[g], reverse=True)
        pricing, rank = self._rules.pricing, self._rank(newcomer)
        exchange = None if pricing is None else SlotExchange(pricing, self._rules.times, self._now_s, worst, [newcomer])
        givers: list[Generation] = []
        for incumbent in worst:
            pays = is_reserved or (exchange is not None and exchange.pays(incumbent, newcomer, len(self._places.ready)))
            if rank >= ranks[incumbent] or self._rules.has_reserved_slot(incumbent) or not pays:
                return []
            givers.append(incumbent)
            free += ledger.claimed_blocks(incumbent.request_id) + 1
            if needed <= free:
                return givers
        return []

    def _schedule_running(self, ranks: dict[Generation, Rank]) -> list[Generation]:
        """Schedules running generations, decodes before prompts; returns those that lost their KV.

        With a limit, prompts are left for ``_schedule_limited``, where they compete with those of newcomers.
        """
        if self._limit is None:
            ranked = sorted(ranks, key=lambda g: (not g.is_decoding, ranks[g]))
        else:
            ranked = []
            for generation in sorted((g for g in ranks if g.is_decoding), key=ranks.__getitem__):
                if self._is_let_in(generation):
                    self._count(generation)
                    ranked.append(generation)
        preempted: list[Generation] = []
        while ranked and self._step.has_budget:
            generation = ranked[0]
            if not self._fits(generation):
                victim = self._victim(ranks)
                del ranks[victim]
                if victim in ranked:
                    ranked.remove(victim)
                self._take_memory(victim)
                preempted.append(victim)
                continue
            self._step.run(generation)
            del ranked[0]
        return preempted

    def _victim(self, ranks: dict[Generation, Rank]) -> Generation:
        """Returns the next to preempt: the worst ranked, or of a policy whose rank does not count that the cheapest.

        Of all that hold a slot and do not run in this step yet, prompts and those that pause for it among them.
        """
        idle = [g for g in ranks if not self._step.runs(g)]
        if self._gate is None or (self._rules.safety is not None and self._rules.safety.yields_worst):
            return max(idle, key=lambda g: ranks[g])
        return self._gate.cheapest([g for g in idle if not self._rules.has_reserved_slot(g)] or idle)

    def _take_memory(self, generation: Generation) -> None:
        """Takes the slot and the memory of a running generation.

        Its KV is lost, or, where memory is looked ahead in, moved to host memory while there is room.
        """
        if self._gate is None:
            self._preempt(generation)
        else:
            self._move_running(generation)

    def _move_running(self, generation: Generation) -> None:
        del self._places.running[generation.request_id]
        generation.pause()
        self._step.take_memory(generation)

    def _schedule_ready(self) -> None:
        """Admits ready generations in the policy's order while slots, tokens and memory last."""
        with closing(self._places.ready.ranked(self._now_s)) as ranked:
            for generation in ranked:
                if self._rules.reservations.holds_back(generation):
                    continue
                if not (self._has_slot and self._step.has_budget and self._admit(generation)):
                    return  # without memory, none overtakes the first in line: it would starve

    def _schedule_limited(self, limit: LatencyGuidedLimit) -> None:
        """Admits what the limit allows: first what only decodes, then prompts, running and new ones in one order."""
        newcomers = self._newcomers
        for generation in (g for g in self._newcomers if g.is_decoding):
            if not (self._step.has_budget and self._is_let_in(generation)):
                continue
            if not self._admit(generation):  # without memory, none overtakes it: it would starve
                newcomers = [g for g in newcomers if self._rank(g) < self._rank(generation)]
                break
            self._count(generation)
        running = (g for g in self._places.running.values() if not self._step.runs(g))
        prompts = sorted((g for g in (*running, *newcomers) if not g.is_decoding), key=self._rank)
        if not self._rules.reservations:
            self._step.limit_tokens(limit.prompt_tokens(prompts, self._step.budget_tokens))
        self._schedule_prompts(prompts)

    def _schedule_prompts(self, prompts: Iterable[Generation]) -> None:
        """Schedules, in their order, the prompts that the limit allows."""
        has_memory = True
        stuck: list[Generation] = []
        for generation in prompts:
            if not self._step.has_budget:
                break
            is_running = generation.state is GenerationState.RUNNING
            if not (is_running or has_memory) or not self._is_let_in(generation):
                continue
            if not is_running:
                has_memory = runs = self._admit(generation)  # if not, none overtakes it: it would starve
            elif runs := self._fits(generation):
                self._step.run(generation)
            else:
                stuck.append(generation)
            if runs:
                self._count(generation)
        if stuck and self._step.runs_nothing:  # each holds memory that others lack: the worst ranked loses its KV
            self._preempt(stuck[-1])
            self._places.ready.add(stuck[-1])

    def _admit(self, generation: Generation) -> bool:
        """Gives a slot to a ready generation; returns False if there is no memory for it."""
        running, ledger = self._places.running, self._rules.ledger
        claimed_blocks = ledger.claimed_blocks(generation.request_id)
        if self._gate is not None and not self._is_safe(self._gate, generation):
            return False
        if not self._fits(generation, headroom_blocks=len(running)):  # each running one may take one more block
            own_blocks = ledger.claimed_blocks(generation.request_id)
            if own_blocks + self._step.missing_blocks(generation) > ledger.capacity_blocks:
                self.unschedulable.append(generation.request_id)
            return False
        self._places.ready.pop(generation.request_id)
        self._step.admit(generation)
        if generation.num_segment_steps == 0:
            generation.segment_started_at_s = self._now_s
        running[generation.request_id] = generation
        if self._gate is not None:
            self._gate.note_started(generation, claimed_blocks)
        return True

    def _is_safe(self, gate: MemoryGate, generation: Generation) -> bool:
        """Returns whether what runs has room until it ends if this one starts; a reservation is kept in any case."""
        return self._rules.has_reserved_slot(generation) or gate.admits(generation)

    def _preempt(self, generation: Generation) -> None:
        del self._places.running[generation.request_id]
        self._step.preempt(generation)

    # --- Memory

    def _fits(self, generation: Generation, headroom_blocks: int = 0) -> bool:
        """Returns whether its next tokens fit, if need be after others gave memory."""
        return self._step.fits(generation, headroom_blocks) or self._make_room(generation, headroom_blocks)

    def _make_room(self, generation: Generation, headroom_blocks: int) -> bool:
        """Takes memory from suspended generations until ``generation`` fits; returns whether it does.

        Those whose plan is complete give first, and lose their KV; then those whose robot is busy longest, whose KV is
        offloaded while host memory has room, else lost. These stay in their places: their KV is needed no earlier.
        """
        ledger = self._rules.ledger
        needed = self._step.missing_blocks(generation) + headroom_blocks
        givers = self._holders(generation)
        if needed > ledger.available_blocks + sum(ledger.claimed_blocks(g.request_id) for g in givers):
            return False
        retained = [g for g in givers if g.request_id in self._places.retained]
        holders = [g for g in givers if g.request_id not in self._places.retained]
        while retained and needed > ledger.available_blocks:
            self._step.preempt(retained.pop())
        holders.sort(key=lambda g: (g.resume_at_s, g.order))
        while needed > ledger.available_blocks:
            self._step.take_memory(holders.pop())
        return True

    def _holders(self, generation: Generation) -> list[Generation]:
        """Returns those that do not run and hold memory that ``generation`` could have."""
        places = self._places
        queued = (*places.suspended.values(), *places.ready.values(), *places.retained.values())
        return [g for g in queued if g is not generation and self._holds_memory(g)]

    def _holds_memory(self, generation: Generation) -> bool:
        """Whether it has memory that others could have; one whose first step was given up has only what is reserved."""
        is_suspended = generation.state is GenerationState.SUSPENDED
        return is_suspended and self._rules.ledger.claimed_blocks(generation.request_id) > 0

    # --- Which may run

    @property
    def _has_slot(self) -> bool:
        return len(self._places.running) < self._rules.num_slots

    def _is_let_in(self, generation: Generation) -> bool:
        """Returns whether the limit, if there is one, has room for it; a reservation needs none."""
        return self._rules.has_reserved_slot(generation) or self._limit is None or self._limit.admits(generation)

    def _count(self, generation: Generation) -> None:
        """Tells the limit that it runs in this step; it does not look at reservations."""
        if self._limit is not None and not self._rules.has_reserved_slot(generation):
            self._limit.count(generation)

    def _rank(self, generation: Generation) -> Rank:
        return self._rules.order.rank(generation, self._now_s)
