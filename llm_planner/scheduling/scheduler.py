"""The scheduler: schedule(now_s) -> SchedulerOutput, executed by a backend, then update(...)."""

from collections.abc import Iterable, Mapping
from contextlib import closing
from itertools import islice

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.execution_time import EngineTimes
from llm_planner.core.interfaces import BackendInfo
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.scheduling.batch_limit import LatencyGuidedLimit
from llm_planner.scheduling.forecast import EngineForecast
from llm_planner.scheduling.generation import Generation, GenerationState
from llm_planner.scheduling.kv_ledger import KVLedger
from llm_planner.scheduling.learned_times import LearnedTimes
from llm_planner.scheduling.pace import GenerationPace
from llm_planner.scheduling.policies.interface import Policy, Rank
from llm_planner.scheduling.policies.pricing import PricedPolicy
from llm_planner.scheduling.ready_queue import ReadyQueue
from llm_planner.scheduling.reservation import Reservations, ReservedFirst
from llm_planner.scheduling.sleepers import Sleepers
from llm_planner.scheduling.step_builder import StepBuilder


class Scheduler:
    """Decides who runs in the next step, and how many tokens of each.

    A generation is in exactly one of three places: ``running``; ``ready`` to run (waiting, or suspended and due);
    ``sleeping`` (suspended, its robot busy; also without its KV, if memory ran out). Ready ones are ranked by the
    policy at every decision in which a slot is free; running ones keep their slot until they suspend, end, or lose
    their KV to a better ranked one. Under a policy that weighs utility against time, running ones also pause for a
    step if that keeps a more pressing one in time, and give their slot, but not their KV, to one that needs it.

    Args:
        config: Limits.
        policy: Order of service.
        info: What the backend can hold.
        times: Of the engine; None to learn them from its steps.
    """

    def __init__(
        self, config: SchedulerConfig, policy: Policy, info: BackendInfo, times: EngineTimes | None = None
    ) -> None:
        self.config = config
        self.policy = policy
        self.ledger = KVLedger(info.num_kv_blocks, info.block_size)
        self.pace = GenerationPace()
        self.forecast = EngineForecast(config.network_latency_s)
        self.times: EngineTimes = times or LearnedTimes(self.forecast.steps)
        self.reservations = Reservations()
        self._order = ReservedFirst(policy, self.reservations)
        self._limiting: PricedPolicy | None = None  # the policy, if it limits batches
        if isinstance(policy, PricedPolicy):
            policy.forecast = self.forecast
            self._limiting = policy if policy.limits_batch else None
        self._can_offload = info.can_offload
        self._running: dict[str, Generation] = {}
        self._ready = ReadyQueue(self._order)
        self._sleeping = Sleepers()
        self._released: dict[str, Generation] = {}  # ended; their KV goes with the next step
        self._num_added = 0
        self._hopeless: list[str] = []

    # --- What comes and goes

    def add(self, generation: Generation) -> None:
        """Puts a new generation in line."""
        generation.order = self._num_added
        self._num_added += 1
        self._ready.add(generation)

    def end(self, request_id: str) -> None:
        """Takes a generation out, finished, failed or cancelled; its KV is released in the next step."""
        generation = self._find(request_id)
        if generation is None:
            return
        self._running.pop(request_id, None)
        self._sleeping.pop(request_id)
        self._ready.pop(request_id)
        self.reservations.end(request_id)
        if generation.state is not GenerationState.WAITING:
            self._released[request_id] = generation
        generation.finish()

    def reserve(self, request_id: str, max_company: int | None) -> None:
        """Gives a generation a slot at once, with at most ``max_company`` others beside it; None takes it back."""
        queued = self._ready.pop(request_id)
        self.reservations.end(request_id) if max_company is None else self.reservations.make(request_id, max_company)
        if queued is not None:
            self._ready.add(queued)

    def robot_heard(self, request_id: str, now_s: float) -> None:
        """Estimates anew, after a report, when a robot is idle: when a sleeper must resume, how the others rank."""
        if (sleeper := self._sleeping.get(request_id)) is not None:
            self._sleep(sleeper, now_s)
        elif (generation := self._find(request_id)) is not None and generation.num_segments:
            generation.robot_idle_at_s = generation.execution.idle_at_s(now_s)
            self._ready.place_anew(generation)

    # --- One step

    def schedule(self, now_s: float) -> SchedulerOutput:
        """Returns the next step; empty if nothing can run before ``next_wakeup_s``."""
        for generation in self._sleeping.take_due(now_s):
            self._ready.add(generation)
        for request_id in self._released:
            self.ledger.close(request_id)
        limit = None if self._limiting is None else LatencyGuidedLimit(self._limiting, self.forecast, now_s)
        ranks = {g: self._rank(g, now_s) for g in self._running.values()}
        if limit is not None or self.reservations:
            self._give_way(ranks, now_s)
        step = StepBuilder(self.ledger, self.config.max_num_batched_tokens, self._released)
        self._released = {}
        preempted = self._schedule_running(step, limit, ranks)
        if limit is None:
            self._schedule_ready(step, now_s)
        else:
            self._schedule_limited(step, limit, now_s)
        for generation in preempted:
            self._ready.add(generation)
        return step.build()

    def _give_way(self, ranks: dict[Generation, Rank], now_s: float) -> None:
        """Pauses running generations for better ranked ready ones where no slot is free: the way in for the urgent.

        Without a limit, only for those that were promised a slot. A promise of a thin batch leaves fewer slots.
        """
        num_too_many = max(0, len(self._running) - self._num_slots)
        if not num_too_many and (not self._ready or self._has_slot):
            return
        worst = sorted(ranks, key=lambda g: ranks[g], reverse=True)
        paused = worst[:num_too_many]
        with closing(self._ready.ranked(now_s)) as best:
            for incumbent, newcomer in zip(worst[num_too_many:], best, strict=False):
                is_promised = newcomer.request_id in self.reservations
                if self._rank(newcomer, now_s) >= ranks[incumbent] or not (is_promised or self._limiting):
                    break
                paused.append(incumbent)
        for incumbent in paused:
            del self._running[incumbent.request_id], ranks[incumbent]
            incumbent.pause()
            self._ready.add(incumbent)

    def _schedule_running(
        self, step: StepBuilder, limit: LatencyGuidedLimit | None, ranks: dict[Generation, Rank]
    ) -> list[Generation]:
        """Schedules running generations, decodes before prompts; returns those that lost their KV.

        With a limit, prompts are left for ``_schedule_limited``, where they compete with those of newcomers.
        """
        ranked = sorted(ranks, key=lambda g: (not g.is_decoding, ranks[g]))
        if limit is not None:
            ranked = [g for g in ranked if g.is_decoding and (self._is_promised(g) or limit.admits(g))]
        ranked = [g for g in ranked if not self.reservations.holds_back(g)]
        preempted: list[Generation] = []
        while ranked and step.has_budget:
            generation = ranked[0]
            if not step.fits(generation) and not self._make_room(step, generation):
                victim = max(ranked, key=lambda g: ranks[g])
                ranked.remove(victim)
                del self._running[victim.request_id]
                step.preempt(victim)
                preempted.append(victim)
                continue
            step.run(generation)
            del ranked[0]
        return preempted

    def _schedule_ready(self, step: StepBuilder, now_s: float) -> None:
        """Admits ready generations in the policy's order while slots, tokens and memory last."""
        with closing(self._ready.ranked(now_s)) as ranked:
            for generation in ranked:
                if self.reservations.holds_back(generation):
                    continue
                if not (self._has_slot and step.has_budget and self._admit(step, generation, now_s)):
                    return  # without memory, nobody overtakes the first in line: it would starve

    def _schedule_limited(self, step: StepBuilder, limit: LatencyGuidedLimit, now_s: float) -> None:
        """Admits what the limit lets in: first what only decodes, then prompts, running and new ones in one order."""
        with closing(self._ready.ranked(now_s)) as ranked:
            newcomers = list(islice(ranked, max(0, self._num_slots - len(self._running))))
        for generation in newcomers:
            is_let_in = self._is_promised(generation) or limit.admits(generation)
            if generation.is_decoding and step.has_budget and is_let_in:
                self._admit(step, generation, now_s)
        if not self.reservations:
            step.limit_tokens(limit.free_tokens)
        running = (g for g in self._running.values() if not step.runs(g))
        prompts = [g for g in (*running, *newcomers) if not (g.is_decoding or self.reservations.holds_back(g))]
        prompts.sort(key=lambda g: self._rank(g, now_s))
        has_memory = True
        stuck: list[Generation] = []
        for generation in prompts:
            if not step.has_budget:
                break
            is_running = generation.state is GenerationState.RUNNING
            if not (is_running or has_memory) or not (self._is_promised(generation) or limit.admits(generation)):
                continue
            if not is_running:
                has_memory = self._admit(step, generation, now_s)  # if not, nobody overtakes it: it would starve
            elif step.fits(generation) or self._make_room(step, generation):
                step.run(generation)
            else:
                stuck.append(generation)
        if stuck and step.runs_nothing:  # each holds memory that the others lack: the worst ranked one loses its KV
            del self._running[stuck[-1].request_id]
            step.preempt(stuck[-1])
            self._ready.add(stuck[-1])

    def _admit(self, step: StepBuilder, generation: Generation, now_s: float) -> bool:
        """Gives a slot to a ready generation; returns False if there is no memory for it."""
        headroom_blocks = len(self._running)  # each running one may take one more block without preempting anyone
        if not step.fits(generation, headroom_blocks) and not self._make_room(step, generation, headroom_blocks):
            own_blocks = self.ledger.claimed_blocks(generation.request_id)
            if own_blocks + step.missing_blocks(generation) > self.ledger.capacity_blocks:
                self._hopeless.append(generation.request_id)
            return False
        self._ready.pop(generation.request_id)
        step.admit(generation)
        if generation.num_segment_steps == 0:
            generation.segment_started_at_s = now_s
        self._running[generation.request_id] = generation
        return True

    def take_hopeless(self) -> list[str]:
        """Returns, once, the generations that outgrew the whole KV cache: the caller ends them."""
        hopeless, self._hopeless = self._hopeless, []
        return hopeless

    @property
    def _num_slots(self) -> int:
        return self.reservations.num_slots(self.config.max_num_seqs)

    @property
    def _has_slot(self) -> bool:
        return len(self._running) < self._num_slots

    def _is_promised(self, generation: Generation) -> bool:
        return generation.request_id in self.reservations

    def _make_room(self, step: StepBuilder, generation: Generation, headroom_blocks: int = 0) -> bool:
        """Takes memory from suspended generations until ``generation`` fits; returns whether it does.

        Those whose robot is busy longest give first. Their KV is offloaded if the backend can, else lost.
        """
        needed = step.missing_blocks(generation) + headroom_blocks
        suspended = (*self._sleeping.values(), *self._ready.values())
        holders = [g for g in suspended if g is not generation and self._holds_memory(g)]
        if needed > self.ledger.available_blocks + sum(self.ledger.claimed_blocks(g.request_id) for g in holders):
            return False
        holders.sort(key=lambda g: (g.resume_at_s, g.order))
        while needed > self.ledger.available_blocks:
            victim = holders.pop()
            if self._can_offload:
                step.offload(victim)
            else:
                step.preempt(victim)  # it stays in its place: a sleeper's KV is needed no earlier than before
        return True

    def _holds_memory(self, generation: Generation) -> bool:
        is_suspended = generation.state is GenerationState.SUSPENDED
        return is_suspended and self.ledger.private_blocks(generation.request_id) > 0

    def _rank(self, generation: Generation, now_s: float) -> Rank:
        return self._order.rank(generation, now_s)

    # --- What came of it

    def update(self, scheduled: SchedulerOutput, output: StepOutput, segments: Mapping[str, int], now_s: float) -> None:
        """Books the outcome of a step, and suspends generations whose robot is busy.

        Args:
            scheduled: The step that was executed.
            output: What came out of it.
            segments: How many segments each request completed in it.
            now_s: When the step ended.
        """
        if output.token_ids:
            self.pace.observe_step(output.duration_s)
        ran = [g for r in scheduled.num_scheduled_tokens if (g := self._running.get(r) or self._released.get(r))]
        num_prompt_tokens = sum(scheduled.num_scheduled_tokens[g.request_id] for g in ran if not g.is_decoding)
        if not (scheduled.offload or scheduled.evict or scheduled.restore):
            work = [(scheduled.num_scheduled_tokens[g.request_id], g.kv_len) for g in ran]
            self.times.observe(work, output.duration_s)
        self.forecast.observe_step(num_prompt_tokens, len(scheduled.num_scheduled_tokens), output.duration_s)
        for generation in ran:
            request_id = generation.request_id
            generation.take(scheduled.num_scheduled_tokens[request_id], output)
            self.ledger.grow(request_id, generation.kv_len)  # less than was booked, if drafts were rejected
            if segments.get(request_id) and request_id in self._running:
                self._complete_segments(generation, segments[request_id], now_s)

    def _complete_segments(self, generation: Generation, num_segments: int, now_s: float) -> None:
        self.pace.observe_segment(generation.num_segment_steps)
        self.forecast.observe_segment(generation, generation.num_segment_steps)
        generation.num_segments += num_segments
        generation.num_segment_steps = 0
        generation.segment_started_at_s = now_s
        generation.robot_idle_at_s = generation.execution.idle_at_s(now_s)
        if self.policy.suspends and not generation.request.is_hurried and self.resume_at_s(generation) > now_s:
            generation.suspend()
            self.reservations.end(generation.request_id)  # its robot has what it waited for
            del self._running[generation.request_id]
            self._sleep(generation, now_s)

    def resume_at_s(self, generation: Generation) -> float:
        """Returns when it must run again so that the next segment arrives as its robot becomes idle."""
        lead_s = self.pace.segment_time_s + self.config.network_latency_s + self.config.resume_margin_s
        return generation.robot_idle_at_s - lead_s

    # --- Sleepers

    def next_wakeup_s(self, now_s: float) -> float | None:
        """Returns when ``schedule`` has something to do: ``now_s``, when the first sleeper is due, or None: never."""
        if self._running or self._ready or self._released:
            return now_s
        next_s = self._sleeping.next_s
        return None if next_s is None else max(now_s, next_s)

    def _sleep(self, generation: Generation, now_s: float) -> None:
        execution = generation.execution
        generation.robot_idle_at_s = execution.idle_at_s(now_s)
        generation.resume_at_s = now_s if execution.is_all_reported else self.resume_at_s(generation)
        self._sleeping.add(generation)

    # --- Looking in

    def _find(self, request_id: str) -> Generation | None:
        found = self._running.get(request_id) or self._ready.get(request_id)
        return found or self._sleeping.get(request_id)

    @property
    def generations(self) -> Iterable[Generation]:
        """All unfinished generations."""
        return (*self._running.values(), *self._ready.values(), *self._sleeping.values())

    @property
    def running(self) -> Iterable[Generation]:
        """Generations that hold a slot."""
        return self._running.values()

    @property
    def ready(self) -> Iterable[Generation]:
        """Generations that wait for a slot, in no particular order."""
        return self._ready.values()

    @property
    def num_running(self) -> int:
        """Generations that hold a slot."""
        return len(self._running)

    @property
    def num_ready(self) -> int:
        """Generations that wait for a slot."""
        return len(self._ready)

    @property
    def num_sleeping(self) -> int:
        """Suspended generations whose robot is busy."""
        return len(self._sleeping)

    def check_integrity(self) -> None:
        """Asserts that every generation is in one place only, in the right state, and that the KV adds up."""
        self.ledger.check_integrity()
        ids = [g.request_id for g in self.generations]
        assert len(ids) == len(set(ids))
        assert len(self._running) <= self.config.max_num_seqs
        assert all(g.state is GenerationState.RUNNING for g in self._running.values())
        queued = (*self._sleeping.values(), *self._ready.values())
        assert all(g.state in (GenerationState.WAITING, GenerationState.SUSPENDED) for g in queued)
        for generation in self.generations:
            shared = generation.sequence.num_cached_tokens // self.ledger.block_size
            kv_blocks = self.ledger.blocks_for(generation.kv_len) - shared
            expected = 0 if generation.is_offloaded else kv_blocks
            assert self.ledger.private_blocks(generation.request_id) == expected, generation
