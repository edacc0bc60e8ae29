# SPDX-License-Identifier: Apache-2.0
"""The scheduler: schedule(now_s) -> SchedulerOutput, executed by a backend, then update(...)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.execution_time import EngineTimes
from llm_planner.core.interfaces import BackendInfo
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.core.step import Sequence as TokenSequence
from llm_planner.scheduling.engine_ledger import EngineLedger
from llm_planner.scheduling.engine_price import EnginePrice
from llm_planner.scheduling.generation import Generation, GenerationState
from llm_planner.scheduling.kv_ledger import KVLedger
from llm_planner.scheduling.pipeline.urgency import urgent_requests
from llm_planner.scheduling.places import Places
from llm_planner.scheduling.policies.interface import Policy
from llm_planner.scheduling.policies.memory_safe import MemorySafe
from llm_planner.scheduling.policies.pricing import PricedPolicy
from llm_planner.scheduling.reservation import Reservations, ReservedFirst
from llm_planner.scheduling.robot_pace import RobotPace
from llm_planner.scheduling.step_builder import missing_blocks
from llm_planner.scheduling.step_decision import StepDecision, StepRules
from llm_planner.scheduling.step_times import StepTimes

BATCH_LIMITS = ("auto", "on", "off")
"""Values of ``SchedulerConfig.batch_limit``."""


class Scheduler:
    """Decides which generations run in the next step, and how many tokens of each.

    Until it ends, a generation is in exactly one of four places: ``running``; ``ready`` to run (waiting, or suspended
    and due); ``suspended`` (its robot busy; also without its KV, if memory ran out); ``retained`` (its plan is
    complete, but something may be inserted). The KV of those in ``released`` goes with the next step. Ready ones are
    ranked by the policy at every decision in which a slot is free; running ones keep their slot until they suspend,
    end, or lose their KV to a better ranked one. Under a policy that weighs utility against time, running ones also
    pause for a step if that keeps a more pressing one in time, and give their slot, but not their KV, to one that
    needs it.

    Args:
        config: Limits.
        policy: Order of service.
        info: What the backend can hold.
        times: Of the engine; None to learn them from its steps.

    Attributes:
        times: The one source of step times; ``update`` teaches it.
        num_shed: Generations that were refused to shed load, so far.
    """

    def __init__(
        self, config: SchedulerConfig, policy: Policy, info: BackendInfo, times: EngineTimes | None = None
    ) -> None:
        self.config = config
        self.policy = policy
        make_ledger = EngineLedger if info.keeps_kv else KVLedger
        self.ledger = make_ledger(info.num_kv_blocks, info.block_size)
        self.robots = RobotPace()
        self.times = StepTimes(config.network_latency_s, times)
        self.reservations = Reservations()
        self._order = ReservedFirst(policy, self.reservations)
        self._max_model_len = info.max_model_len
        self._can_insert = info.can_insert
        self._num_host_blocks = info.num_host_blocks if info.can_offload else 0
        self._num_stages = info.num_stages
        self._places = Places(self._order)
        pricing = policy if isinstance(policy, PricedPolicy) else PricedPolicy()
        pricing.forecast = self.times
        if isinstance(policy, MemorySafe):
            policy.capacity_tokens = info.num_kv_blocks * info.block_size
        self._pricing = pricing if _limits_batch(config.batch_limit, policy) else None
        self._price = EnginePrice()
        self._had_work = False
        self._num_added = 0
        self.num_shed = 0
        self._unschedulable: list[str] = []

    # --- What comes and goes

    def add(self, generation: Generation) -> None:
        """Puts a new generation in line."""
        generation.order = self._num_added
        self._num_added += 1
        self._places.ready.add(generation)

    def most_tokens(self, sequence: TokenSequence) -> int:
        """Returns how many tokens a sequence may have: as many as the model takes and the whole KV cache holds."""
        ledger = self.ledger
        shared_blocks = sequence.num_cached_tokens // ledger.block_size
        return min(self._max_model_len, (ledger.capacity_blocks + shared_blocks) * ledger.block_size)

    def end(self, request_id: str) -> None:
        """Takes a generation out, finished, failed or cancelled; its KV is released in the next step."""
        self._places.end(request_id)
        self.reservations.end(request_id)

    def retain(self, request_id: str) -> None:
        """Puts a generation aside whose plan is complete, for something may yet be inserted; ``end`` takes it out.

        Its KV is the first to go when memory is short, and goes at once if the backend could not use it.
        """
        generation = self._places.take(request_id)
        if generation is None:
            return
        self.reservations.end(request_id)
        if not self._can_insert:
            self._drop_kv(generation)
        self._places.retained[request_id] = generation

    def insert(self, request_id: str, token_ids: Iterable[int], max_output_tokens: int, now_s: float) -> None:
        """Appends tokens to what a generation has read and written; its robot waits, so it goes on at once.

        Where the backend can insert, the KV of all before is used again. Else all of it is computed again.

        Args:
            request_id: Unfinished; its plan may be complete.
            token_ids: Appended.
            max_output_tokens: Most tokens that it may generate behind them.
            now_s: Since when the robot waits.
        """
        generation = self._take(request_id)
        if not self._can_insert:
            self._drop_kv(generation)
        generation.insert(token_ids, max_output_tokens)
        self._make_ready(generation, now_s)

    def restart(self, request_id: str, prompt_token_ids: Iterable[int], max_output_tokens: int, now_s: float) -> None:
        """Has a generation write behind another prompt; as ``insert``, but that only its shared prefix is kept."""
        generation = self._take(request_id)
        self._drop_kv(generation)
        generation.restart(prompt_token_ids, max_output_tokens)
        self._make_ready(generation, now_s)

    def rewrite(self, request_id: str, token_ids: Iterable[int]) -> None:
        """Has a generation go on behind other tokens than those that it wrote; its prompt stays.

        All behind its shared prefix is computed again, as after a preemption.
        """
        generation = self._take(request_id)
        self._drop_kv(generation)
        generation.rewrite(token_ids)
        self._places.ready.add(generation)

    def note_sent(self, request_id: str, num_segments: int, now_s: float) -> None:
        """Notes segments that went to the robot between two steps."""
        generation = self._places.find(request_id)
        if generation is not None and num_segments:
            generation.num_segments += num_segments
            generation.num_segment_steps, generation.segment_started_at_s = 0, now_s
            generation.robot_idle_at_s = generation.execution.idle_at_s(now_s)

    def _take(self, request_id: str) -> Generation:
        generation = self._places.take(request_id)
        if generation is None:
            raise ValueError(f"{request_id} has ended; it reads nothing any more")
        return generation

    def _make_ready(self, generation: Generation, now_s: float) -> None:
        generation.robot_idle_at_s = generation.resume_at_s = now_s
        self._places.ready.add(generation)

    def _drop_kv(self, generation: Generation) -> None:
        """Takes the KV from a generation that does not run any more; it is released in the next step."""
        if generation.state is not GenerationState.WAITING:
            generation.preempt()
            self.ledger.close(generation.request_id)
            self._places.released[generation.request_id] = generation

    def reserve(self, request_id: str, max_co_batched: int | None) -> None:
        """Gives a generation a slot at once, among at most ``max_co_batched`` others; None takes it back."""
        queued = self._places.ready.pop(request_id)
        self.reservations.end(request_id) if max_co_batched is None else self.reservations.make(
            request_id, max_co_batched
        )
        if queued is not None:
            self._places.ready.add(queued)

    def rank_again(self, generation: Generation) -> None:
        """Gives a generation its place in line again: what it is ranked by has changed."""
        self._places.ready.place_again(generation)

    def robot_reported(self, request_id: str, now_s: float) -> None:
        """Estimates again, after a report, when a robot is idle: when its generation resumes, how the others rank."""
        if (suspended := self._places.suspended.get(request_id)) is not None:
            self._sleep(suspended, now_s)
        elif (generation := self._places.find(request_id)) is not None and generation.num_segments:
            generation.robot_idle_at_s = generation.execution.idle_at_s(now_s)
            self._places.ready.place_again(generation)

    # --- One step

    def wake(self, now_s: float) -> None:
        """Makes the suspended generations ready whose robots will soon wait: they may run in the next step."""
        for generation in self._places.suspended.take_due(now_s):
            self._places.ready.add(generation)

    def schedule(self, now_s: float) -> SchedulerOutput:
        """Returns the next step; empty if nothing can run before ``next_wakeup_s``."""
        self.wake(now_s)
        for request_id in self._places.released:
            self.ledger.close(request_id)
        self._price.note(now_s, was_busy=self._had_work)
        if isinstance(self.policy, MemorySafe):
            self.policy.is_memory_short = self._is_memory_short()
        rules = StepRules(
            config=self.config,
            order=self._order,
            reservations=self.reservations,
            ledger=self.ledger,
            host_room_blocks=self._num_host_blocks - self.ledger.offloaded_blocks,
            safety=self.policy if isinstance(self.policy, MemorySafe) else None,
            pricing=self._pricing,
            times=self.times,
            price_per_s=self._price.per_s(len(self._places.running) + len(self._places.ready)),
        )
        decision = StepDecision(rules, self._places, now_s)
        self._places.released = {}
        scheduled = decision.make()
        self._unschedulable += decision.unschedulable
        for request_id in (*scheduled.offload, *scheduled.release):
            self._note_moved(request_id, now_s)
        if isinstance(self.ledger, EngineLedger):
            suspended = sorted(self._places.suspended.values(), key=lambda g: g.resume_at_s, reverse=True)
            scheduled = replace(scheduled, suspended=tuple(g.request_id for g in suspended))
        if self._num_stages > 1:
            running = [g for r in scheduled.num_scheduled_tokens if (g := self._places.find(r)) is not None]
            scheduled = replace(scheduled, urgent=urgent_requests(running, now_s, self._num_stages * self.times.step_s))
        return scheduled

    def _is_memory_short(self) -> bool:
        """Returns whether what runs, and as many ready generations as there are slots, need more than what is left."""
        ready = self._places.ready.values()
        share = min(1.0, self.config.max_num_seqs / len(ready)) if ready else 0.0
        needed = len(self._places.running) + share * sum(missing_blocks(g, self.ledger) for g in ready)
        return needed > self.ledger.available_blocks + self._places.retained_blocks(self.ledger)

    def shed(self, now_s: float, is_promised: Callable[[str], bool] = lambda _: False) -> list[str]:
        """Returns, and counts, what is refused to shed load: the caller ends it before the next decision.

        These are the generations that have not started and whose time utility has reached zero. Utility never rises, so
        serving them can only cost what others would gain: without abandonment no order bounds the loss of an overload.
        One that has a reserved slot is not refused, nor one that was promised to be in time.

        Args:
            now_s: The time.
            is_promised: Whether a goal has a time budget that is to be kept, by its id.
        """
        if not self.config.sheds_load:
            return []
        waiting = (g for g in self._places.ready.values() if not (g.has_started or g.request_id in self.reservations))
        late = [g.request_id for g in waiting if g.request.time_utility(now_s - g.arrival_s) <= 0]
        worthless = [request_id for request_id in late if not is_promised(request_id)]
        self.num_shed += len(worthless)
        return worthless

    def take_unschedulable(self) -> list[str]:
        """Returns, once, the generations that outgrew the whole KV cache: the caller ends them."""
        unschedulable, self._unschedulable = self._unschedulable, []
        return unschedulable

    # --- What came of it

    def ran(self, scheduled: SchedulerOutput) -> list[Generation]:
        """Returns the generations of a step that was executed; one that has ended comes before a new one of its id."""
        find, released = self._places.find, self._places.released
        return [g for r in scheduled.num_scheduled_tokens if (g := released.get(r) or find(r))]

    def update(self, scheduled: SchedulerOutput, output: StepOutput, segments: Mapping[str, int], now_s: float) -> None:
        """Books the outcome of a step, and suspends generations whose robot is busy.

        Args:
            scheduled: The step that was executed.
            output: What came out of it.
            segments: How many segments went to the robot of each request after it.
            now_s: When the step ended.
        """
        find, released = self._places.find, self._places.released
        ran = self.ran(scheduled)
        self._learn(scheduled, output, ran)
        self.times.pass_time(now_s, ran_step=True)
        for generation in ran:
            request_id = generation.request_id
            generation.take(scheduled.num_scheduled_tokens[request_id], output)
            self.ledger.grow(request_id, generation.kv_len)  # less than was booked, if drafts were rejected
        for request_id, num_segments in segments.items():
            if request_id not in released and (sent := find(request_id)) is not None:
                self._complete_segments(sent, num_segments, now_s)
        for request_id in output.lost:
            self._lose(request_id, now_s)
        if isinstance(self.policy, MemorySafe):
            for generation in (g for r in output.finished if (g := find(r)) is not None):
                self.policy.note_complete(generation, self.generations)
        if isinstance(self.ledger, EngineLedger):
            self._recount(self.ledger, output, now_s)
        self._price.note(now_s, was_busy=True)
        self._had_work = bool(self._places.running or self._places.ready)

    def _lose(self, request_id: str, now_s: float) -> None:
        """Books that the engine has lost the KV of a generation, as a preemption."""
        generation = self._places.find(request_id) or self._places.retained.get(request_id)
        if generation is None:
            return
        was_running = self._places.running.pop(request_id, None) is not None
        self._drop_kv(generation)
        if was_running:
            self._places.ready.add(generation)
        else:
            self._note_moved(request_id, now_s)

    def _learn(self, scheduled: SchedulerOutput, output: StepOutput, ran: Sequence[Generation]) -> None:
        """Teaches ``times`` what a step took; ``ran`` are as they were before it."""
        num_tokens = scheduled.num_scheduled_tokens
        prompts = [num_tokens[g.request_id] for g in ran if not g.is_decoding]
        kv_lens = {g.request_id: g.kv_len for g in ran}
        cycle_s = output.duration_s
        if self._num_stages > 1 and ran:  # its next token comes when all micro-batches have had their turn
            cycle_s *= max(1.0, len(self._places.running) / len(ran))
        self.times.observe_step(
            [(n, kv_lens.get(request_id, 0)) for request_id, n in num_tokens.items()],
            output.duration_s,
            num_prompt_tokens=sum(prompts),
            num_prompts=len(prompts),
            cycle_s=cycle_s,
            moves_kv=bool(scheduled.offload or scheduled.evict or scheduled.restore),
            num_moved_tokens=0 if scheduled.evict else self._num_moved_tokens(scheduled),
        )

    def _num_moved_tokens(self, scheduled: SchedulerOutput) -> int:
        """Returns of how many tokens a step moved the KV; those of shared prefixes stay where they are."""
        moved = [g for r in (*scheduled.offload, *scheduled.restore) if (g := self._places.find(r)) is not None]
        return sum(g.kv_len - g.sequence.num_cached_tokens for g in moved)

    def _recount(self, ledger: EngineLedger, output: StepOutput, now_s: float) -> None:
        """Takes over the counts of an engine that keeps its KV itself."""
        ledger.note_free(output.free_kv_blocks)
        for request_id, num_computed_tokens in output.num_computed_tokens.items():
            generation = self._places.find(request_id)
            if generation is None:
                continue
            is_running = generation.state is GenerationState.RUNNING
            has_changed = generation.num_computed_tokens != num_computed_tokens
            if not is_running or has_changed:
                generation.recount(num_computed_tokens)
                ledger.grow(request_id, generation.kv_len)
                self._places.ready.place_again(generation)  # one with steps in flight may have been paused meanwhile
            if has_changed:
                self._note_moved(request_id, now_s)

    def _complete_segments(self, generation: Generation, num_segments: int, now_s: float) -> None:
        self.times.observe_segment(generation, generation.num_segment_steps)
        if self._pricing is not None:
            self._price.observe(self._pricing.delay_cost(generation, now_s))
        generation.num_segments += num_segments
        generation.num_segment_steps = 0
        generation.segment_started_at_s = now_s
        generation.robot_idle_at_s = generation.execution.idle_at_s(now_s)
        if (
            self.policy.suspends
            and not generation.request.has_whole_plan_budget
            and self._resume_at_s(generation, now_s) > now_s
        ):
            self._places.suspend(generation)
            self.reservations.end(generation.request_id)  # its robot has what it waited for
            self._sleep(generation, now_s)

    def _resume_at_s(self, generation: Generation, now_s: float) -> float:
        """Returns when it must run again so that the next segment has arrived when its robot may become idle.

        Deviation: the paper (section 4.3) resumes for the median of a segment whose length is certain, so half of the
        robots end before. It is the minimum here for every segment, as too early a resumption costs only residency; the
        median remains what ranks generations (``robot_idle_at_s``).
        """
        lead_s = self.times.resume_lead_s(generation) + self.config.network_latency_s + self.config.resume_margin_s
        return generation.execution.earliest_idle_at_s(now_s) - lead_s

    # --- Suspended generations

    def next_wakeup_s(self, now_s: float) -> float | None:
        """Returns when ``schedule`` has something to do: ``now_s``, when the first is due to resume, or None: never."""
        if self._places.running or self._places.ready or self._places.released:
            return now_s
        next_s = self._places.suspended.next_s
        return None if next_s is None else max(now_s, next_s)

    def _note_moved(self, request_id: str, now_s: float) -> None:
        """Says again when a suspended generation must run, and what place a ready one has: its KV was moved or lost."""
        if (suspended := self._places.suspended.get(request_id)) is not None:
            self._sleep(suspended, now_s)
        elif (ready := self._places.ready.get(request_id)) is not None:
            self._places.ready.place_again(ready)

    def _sleep(self, generation: Generation, now_s: float) -> None:
        execution = generation.execution
        generation.robot_idle_at_s = execution.idle_at_s(now_s)
        generation.resume_at_s = now_s if execution.is_all_reported else self._resume_at_s(generation, now_s)
        self._places.suspended.add(generation)

    # --- Looking in

    @property
    def generations(self) -> Iterable[Generation]:
        """All unfinished generations."""
        return self._places.generations

    @property
    def running(self) -> Iterable[Generation]:
        """Generations that hold a slot."""
        return self._places.running.values()

    @property
    def ready(self) -> Iterable[Generation]:
        """Generations that wait for a slot, in no particular order."""
        return self._places.ready.values()

    @property
    def num_running(self) -> int:
        """Generations that hold a slot."""
        return len(self._places.running)

    @property
    def num_ready(self) -> int:
        """Generations that wait for a slot."""
        return len(self._places.ready)

    @property
    def num_suspended(self) -> int:
        """Suspended generations whose robot is busy."""
        return len(self._places.suspended)

    def check_integrity(self) -> None:
        """Asserts that every generation is in one place only, in the right state, and that the KV adds up."""
        self._places.check_integrity(self.ledger)
        assert self.num_running <= self.config.max_num_seqs


def _limits_batch(setting: str, policy: Policy) -> bool:
    """Returns whether the latency-guided limit is asked: as the setting says, or by default as the policy has it."""
    if setting not in BATCH_LIMITS:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG, f"scheduler.batch_limit is {setting!r}; give one of {', '.join(BATCH_LIMITS)}"
        )
    return setting == "on" if setting != "auto" else isinstance(policy, PricedPolicy) and policy.limits_batch
