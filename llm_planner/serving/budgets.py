# SPDX-License-Identifier: Apache-2.0
"""Keeps time budgets: asks the solver what each goal needs, and applies the measures in scheduler and backend."""

import heapq
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from llm_planner.core.errors import PlannerError
from llm_planner.core.eviction import num_removable_tokens
from llm_planner.core.execution_time import CoBatch
from llm_planner.core.interfaces import BackendInfo
from llm_planner.core.request import BudgetScope, OverrunStrategy, Urgency
from llm_planner.core.shortening import droppable_tokens
from llm_planner.scheduling.budget import Lengths, Measure, Setup, Task, execution_s
from llm_planner.scheduling.budget_solver import BudgetSolver, Decision, Load, Prompt, prompts_s
from llm_planner.scheduling.eviction import decide_eviction
from llm_planner.scheduling.generation import Generation, GenerationState
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.expected_lengths import ExpectedLengths
from llm_planner.serving.giving_up import lost_budget
from llm_planner.serving.goal import Goal

HARMLESS = frozenset({Measure.RESERVED_SLOT, Measure.BATCH_CAP})
"""Measures that leave a plan as it would have been."""
RECHECKED = 4
"""Goals without a reserved slot that are looked at again before a step."""


@dataclass(slots=True, kw_only=True, eq=False)
class KeptBudget:
    """A goal with a budget.

    Attributes:
        decision: The latest; None before the first.
        measures: All measures applied so far.
        worst_s: How long it still took at the worst when it was decided about, in the slot that was, or would have
            been, reserved for it.
        num_counted_tokens: Token count assumed by the first decision.
        is_forced: Whether it was last given a slot though it could not be shown that it will be in time.
    """

    goal: Goal
    decision: Decision | None = None
    measures: set[Measure] = field(default_factory=set)
    worst_s: float = 0.0
    num_counted_tokens: int = 0
    is_forced: bool = False

    def left_s(self, now_s: float) -> float:
        """Returns what is left of the budget; infinite once it is kept."""
        ends_s = self.goal.budget_ends_at_s
        return math.inf if ends_s is None else ends_s - now_s

    @property
    def goes_on_late(self) -> bool:
        """Whether its goal goes on all the same where it is missed."""
        return self.goal.request.overrun is OverrunStrategy.SKIP_NEXT

    def is_overrun(self, now_s: float) -> bool:
        """Returns whether it was missed by a goal that goes on all the same: nothing is left to keep."""
        return self.goes_on_late and self.left_s(now_s) <= 0.0


class Budgets:
    """Decides about every goal with a time budget, at arrival and, while a measure is left, before every step.

    A goal is refused only at its first decision, and never under SKIP_NEXT, to which a late plan is better than none:
    a budget that cannot be kept is then no budget, and promises nothing. Later decisions follow what happens: the
    prefill's estimate is replaced by what it really took (as in TimeBill, section 5.2), others come, the engine slows
    down. What was guaranteed to a goal holds for those that come after it. One that can no longer be kept is given up
    early, for the reflex's sake.

    Args:
        scheduler: Gives reserved slots; knows the engine's times.
        info: Of the backend.

    Attributes:
        on_admitted: Called with a goal when the first decision about it is to keep its budget, and again when a later
            one takes a token cap.
    """

    def __init__(self, scheduler: Scheduler, info: BackendInfo) -> None:
        self._scheduler = scheduler
        self._info = info
        config = scheduler.config
        way_s = 2.0 * config.network_latency_s
        self._solver = BudgetSolver(k=config.pessimism, max_eviction_ratio=config.max_eviction_ratio, way_s=way_s)
        self._kept: dict[str, KeptBudget] = {}
        self._newcomer: KeptBudget | None = None  # that is being decided about for the first time
        self._known_worst_s: dict[tuple[str, bool, int], float] = {}  # until something changes that they depend on
        self.lengths = ExpectedLengths()
        self.on_admitted: Callable[[Goal], None] = lambda _: None

    def open(self, goal: Goal, now_s: float) -> None:
        """Looks after a goal from now on, if it has a budget that is not kept yet.

        The prediction of its length is waited for only where it matters before the prefill; what that takes is gone
        from the budget. Else the prefill hides it (TimeBill, section 5.1).
        """
        if goal.request.time_budget_s is None or goal.budget_ends_at_s is None:
            return
        kept = self._kept[goal.request.request_id] = KeptBudget(goal=goal)
        self._known_worst_s.clear()
        if not goal.take_predicted_length() and self._hangs_on_length(kept, now_s):
            goal.take_predicted_length(waits=True)
        self._scheduler.rank_again(goal.generation)

    def _hangs_on_length(self, kept: KeptBudget, now_s: float) -> bool:
        """Returns whether it may be refused, or its plan harmed, by what is known of its length so far."""
        if self._scope(kept.goal) is BudgetScope.FIRST_SEGMENT:
            return False
        try:
            return not HARMLESS.issuperset(self._solve(kept, now_s).measures)
        except PlannerError:
            return True

    def least_left_s(self, now_s: float) -> float:
        """Returns what is left of the budget that ends first; infinite if there is none to keep."""
        kept = (kept for kept in self._kept.values() if not kept.is_overrun(now_s))
        return min((one.left_s(now_s) for one in kept), default=math.inf)

    def keeps(self, request_id: str) -> bool:
        """Returns whether a goal has a time budget that is still to be kept."""
        return request_id in self._kept

    def close(self, request_id: str) -> None:
        """Forgets a goal; one that was never decided about is in nobody's worst case."""
        kept = self._kept.pop(request_id, None)
        if kept is not None and kept.decision is not None:
            self._known_worst_s.clear()

    def keep(self, now_s: float) -> list[tuple[Goal, PlannerError]]:
        """Decides where there is something to decide; returns the goals that end now, with the reason."""
        refused: list[tuple[Goal, PlannerError]] = []
        self._known_worst_s.clear()
        self._scheduler.times.pass_time(now_s, ran_step=False)
        self._scheduler.wake(now_s)  # those that resume in this very step are in it, too
        had_slot = set(self._scheduler.reservations.live)
        for kept in self._in_question(now_s) if self._kept else ():
            before, error = kept.decision, self._try_to_decide(kept, now_s)
            reason = error if before is None else self._lost(kept, now_s)
            if reason is not None:
                if not kept.goes_on_late:
                    refused.append((kept.goal, reason))
                self.close(kept.goal.request.request_id)
            elif error is not None and before is not None:
                self._protect(kept, before, now_s)
        if not had_slot.issuperset(self._scheduler.reservations.live):  # a newcomer counts on it that others yield
            for kept in [k for r, k in self._kept.items() if r in had_slot]:
                self._try_to_decide(kept, now_s)
        self._scheduler.reservations.let_in = self._let_in(now_s)
        return refused

    def _protect(self, kept: KeptBudget, before: Decision, now_s: float) -> None:
        """Does what is left to do for a goal of which it can no longer be shown that it will be in time."""
        request_id, is_only = kept.goal.request.request_id, len(self._kept) == 1  # with a budget
        if not is_only and kept.goal.generation.num_output_tokens >= kept.num_counted_tokens:
            self._reserve(request_id, None)  # longer than any decision counted on
        elif self._can_wait(kept, now_s):
            return  # forced in now, it would break what was promised to those that have a slot
        elif kept.left_s(now_s) > 0 and (is_only or request_id not in self._scheduler.reservations):
            slot = replace(before, measures=(Measure.RESERVED_SLOT,), max_co_batched=0, num_omitted_tokens=0)
            self._pull(kept, slot)
            kept.is_forced = True
            live = self._scheduler.reservations.live
            most = min(len(live), self._scheduler.config.max_num_seqs) - 1  # no more: any other would take their place
            for forced_id in [r for r, k in self._kept.items() if k.is_forced and r in live]:
                self._reserve(forced_id, most)

    def _can_wait(self, kept: KeptBudget, now_s: float) -> bool:
        """Returns whether a goal has no place beside those with reserved slots, but time once they are done."""
        if kept.goal.request.request_id in self._scheduler.reservations:
            return False
        task, load, time = self._task(kept), self._load(kept, now_s), self._scheduler.times.engine.cautious
        if self._solver.has_place(task, load, time):
            return False
        return self._solver.later(task, load, time).wcet_s <= self._usable_s(kept, now_s)

    def _try_to_decide(self, kept: KeptBudget, now_s: float) -> PlannerError | None:
        try:
            self._decide(kept, now_s)
        except PlannerError as error:
            return error
        return None

    def _lost(self, kept: KeptBudget, now_s: float) -> PlannerError | None:
        """Returns why it is certain, or late in the budget to be expected, that a goal misses it with nothing out."""
        goal, scheduler = kept.goal, self._scheduler
        if not scheduler.times.engine.is_known:
            return None
        budget_s = goal.request.time_budget_s
        has_something = goal.delivered or (goal.is_closed_in_time and (goal.held or goal.can_truncate))
        if budget_s is None or has_something or kept.goes_on_late:
            return None
        return lost_budget(
            kept.left_s(now_s),
            budget_s,
            self._task(kept),
            scheduler.times.engine.expected,
            chunk_tokens=scheduler.config.max_num_batched_tokens,
            reserve=scheduler.config.reflex_reserve,
            can_be_closed=goal.is_closed_in_time,
        )

    def _in_question(self, now_s: float) -> list[KeptBudget]:
        """Returns the goals to decide about: those with reserved slots, the tightest of the others, and new ones.

        The tightest of the new ones come first: what these find taken is lost to them, and others may wait.
        """
        for request_id, kept in list(self._kept.items()):
            if kept.goal.budget_ends_at_s is None or kept.is_overrun(now_s):
                self._scheduler.reserve(request_id, None)
                del self._kept[request_id]
        new = sorted((k for k in self._kept.values() if k.decision is None), key=lambda k: k.left_s(now_s))
        reserved = [k for r, k in self._kept.items() if k.decision and r in self._scheduler.reservations]
        waiting = (k for r, k in self._kept.items() if k.decision and r not in self._scheduler.reservations)
        return [*reserved, *heapq.nsmallest(RECHECKED, waiting, key=lambda k: k.left_s(now_s) - k.worst_s), *new]

    def _decide(self, kept: KeptBudget, now_s: float) -> None:
        times, task = self._scheduler.times, self._task(kept)
        decision = self._solve(kept, now_s)
        if times.engine.is_known and (kept.decision is None or kept.goal.wcet_s is None):
            num_tokens = self._in_tokens(kept.goal, decision)
            kept.num_counted_tokens = kept.goal.generation.num_output_tokens + num_tokens
            self._forget_worst(kept)
        if times.engine.is_known and kept.goal.wcet_s is None and kept.goal.awaited_length is None:
            self._note_prediction(kept, decision, task, now_s)
        self._pull(kept, decision)
        kept.worst_s = self._worst_s(kept) + (decision.setup.wait_s if decision.waits_for_memory else 0.0)

    def _in_tokens(self, goal: Goal, decision: Decision) -> int:
        """Returns how many tokens the steps bring that a decision counts on."""
        return math.ceil(decision.num_tokens * self.lengths.tokens_per_step(goal))

    def _solve(self, kept: KeptBudget, now_s: float) -> Decision:
        self._newcomer = kept if kept.decision is None else None
        times, solver = self._scheduler.times, self._solver
        if not times.engine.is_known:  # too early to judge, and no reason to refuse: it gets a slot
            most = self._scheduler.config.max_num_seqs - 1
            return Decision(
                measures=(Measure.RESERVED_SLOT,), max_co_batched=most, num_tokens=1, wcet_s=0.0, setup=Setup()
            )
        solver = replace(solver, way_s=self._way_s(kept))
        # What is over already is refused as any budget that cannot be kept: it was a good number when it came.
        return solver.solve(
            max(kept.left_s(now_s), 1e-9), self._task(kept), self._load(kept, now_s), times.engine.cautious
        )

    def _way_s(self, kept: KeptBudget) -> float:
        """Returns what is gone from a budget for the way, and of one whose plan is closed for a step: it is earlier."""
        is_closed = kept.goal.request.overrun is OverrunStrategy.PARTIAL
        step_s = self._scheduler.times.engine.cautious.decode_line(1).q_s if is_closed else 0.0
        return self._solver.way_s + step_s

    def _usable_s(self, kept: KeptBudget, now_s: float) -> float:
        """Returns what is left of a budget until its plan must be out."""
        return kept.left_s(now_s) - self._way_s(kept)

    def _note_prediction(self, kept: KeptBudget, decision: Decision, task: Task, now_s: float) -> None:
        """Notes what the first sound decision expects, counted from the arrival (docs/metrics.md)."""
        goal = kept.goal
        elapsed_s = now_s - goal.generation.arrival_s
        num_tokens = max(1, min(round(task.lengths.expected), decision.num_tokens))
        setup = decision.setup
        if decision.measures:  # it is expected to run with those that there are now, not with all that may come
            slots = {g.request_id for g in self._scheduler.running} | set(self._scheduler.reservations.live)
            slots.discard(goal.request.request_id)
            kv_lens = [_kv_len(g) for g in self._scheduler.generations if g.request_id in slots]
            setup = replace(setup, co_batch=min(setup.co_batch, CoBatch(len(kv_lens), sum(kv_lens))))
        expected_s = execution_s(task, num_tokens, setup, self._scheduler.times.engine.expected)
        goal.predicted_time_s, goal.wcet_s = elapsed_s + expected_s, elapsed_s + decision.wcet_s

    def _pull(self, kept: KeptBudget, decision: Decision) -> None:
        goal, generation = kept.goal, kept.goal.generation
        is_first, was_capped = kept.decision is None, goal.is_capped
        if is_first:  # from now on it is in the worst case of all
            self._known_worst_s.clear()
        elif _counts_on(kept.decision) != _counts_on(decision):
            self._forget_worst(kept)
        kept.decision, kept.is_forced = decision, False
        kept.measures |= set(decision.measures)
        goal.measures = tuple(measure.value for measure in Measure if measure in kept.measures)
        if is_first or goal.is_capped != was_capped:
            self.on_admitted(goal)
        if decision.max_co_batched is not None:
            self._reserve(generation.request_id, decision.max_co_batched)
        elif generation.request_id in self._scheduler.reservations:  # it keeps its place, others may come back
            self._reserve(generation.request_id, self._scheduler.config.max_num_seqs - 1)
        if decision.num_omitted_tokens:
            generation.eviction = None
            generation.shorten(decision.num_omitted_tokens)
            self._known_worst_s.clear()
        if self._info.can_evict and not generation.num_evicted_tokens:
            # Half a token more, so that rounding down gives the number that was decided.
            share = (decision.num_removed_tokens + 0.5) / generation.num_prompt_tokens
            decide_eviction(generation, share if decision.num_removed_tokens else 0.0, self._info)

    def _let_in(self, now_s: float) -> set[str]:
        """Returns the urgent goals whose prompts are computed beside reserved slots: all promises are kept with them.

        In the order in which they came, so that none starves behind smaller ones. Without this, reservations that
        follow each other would keep the prompt of an emergency without a budget waiting without an end.
        """
        scheduler, reservations = self._scheduler, self._scheduler.reservations
        everyone = (*scheduler.running, *scheduler.ready) if reservations and scheduler.times.engine.is_known else ()
        reservations.let_in = ()
        urgent = [g for g in everyone if g.request.urgency is Urgency.URGENT and reservations.holds_back(g)]
        if not urgent:
            return set()
        self._newcomer = None
        decided = [kept for kept in self._kept.values() if kept.decision is not None]
        slack_s = min((self._slack_s(kept, now_s) for kept in decided), default=math.inf)
        ledger = scheduler.ledger
        free_blocks = ledger.capacity_blocks - sum(ledger.blocks_for(self._own_kv_tokens(kept)) for kept in decided)
        num_slots = reservations.num_slots(scheduler.config.max_num_seqs) - len(reservations.live)
        let_in: set[str] = set()
        for generation in sorted(urgent, key=lambda g: (g.arrival_s, g.order))[: max(0, num_slots)]:
            slack_s -= self._cost_beside_s(generation, decided)
            own_tokens = generation.peak_kv_len - generation.sequence.num_cached_tokens
            free_blocks -= ledger.blocks_for(own_tokens)
            if slack_s < 0.0 or free_blocks < 0:
                break
            let_in.add(generation.request_id)
        return let_in

    def _slack_s(self, kept: KeptBudget, now_s: float) -> float:
        """Returns by how much a goal that was promised to be in time may be held up, if those without budgets yield."""
        is_reserved = kept.goal.request.request_id in self._scheduler.reservations
        worst_s = self._worst_s(kept, others_yield=True) if is_reserved else kept.worst_s
        return self._usable_s(kept, now_s) - worst_s

    def _cost_beside_s(self, generation: Generation, decided: Collection[KeptBudget]) -> float:
        """Returns by how much a goal holds up those with budgets at the worst: by its prompt, then in each step."""
        time = self._scheduler.times.engine.cautious
        kv_lens = [_kv_len(kept.goal.generation) for kept in decided]
        num_steps = max((self._task(kept).pessimistic_tokens(self._solver.k) for kept in decided), default=0)
        prompt_s = time.prefill_s(
            generation.num_uncomputed_tokens,
            generation.kv_len,
            self._scheduler.config.max_num_batched_tokens,
            CoBatch(len(kv_lens), sum(kv_lens)),
        )
        one, two = time.decode_line(1), time.decode_line(2)
        return prompt_s + num_steps * (two.q_s - one.q_s + two.p_s * (_kv_len(generation) + num_steps))

    # --- What the solver must know

    def _task(self, kept: KeptBudget) -> Task:
        goal, generation = kept.goal, kept.goal.generation
        can_evict = self._info.can_evict and not generation.num_evicted_tokens
        is_new = generation.state is GenerationState.WAITING and not generation.num_preemptions
        lengths = self.lengths.remaining(goal, self._scope(goal))
        num_counted_left = kept.num_counted_tokens - generation.num_output_tokens
        if lengths.upper is None and num_counted_left > self._solver.k * lengths.expected:
            lengths = replace(lengths, upper=num_counted_left)  # it was promised that many
        if goal.request.overrun is OverrunStrategy.PARTIAL:  # its first segment is worth delivering
            first = self.lengths.remaining(goal, BudgetScope.FIRST_SEGMENT)
            lengths = replace(lengths, lower=min(lengths.lower, first.lower))
        tokens_per_step = self.lengths.tokens_per_step(goal)
        lengths = _in_steps(lengths, tokens_per_step)
        return Task(
            num_uncomputed_tokens=max(1, generation.num_uncomputed_tokens),
            kv_len=generation.kv_len,
            num_removable_tokens=num_removable_tokens(generation.sequence) if can_evict else 0,
            droppable_tokens=droppable_tokens(generation.sequence) if is_new else (),
            lengths=lengths,
            max_tokens=max(1, generation.num_tokens_left),
            is_evicted=generation.num_evicted_tokens > 0,
            tokens_per_step=tokens_per_step,
        )

    def _scope(self, goal: Goal) -> BudgetScope:
        """Returns what must be out in time: under a policy that delivers whole plans, all of it."""
        streams = self._scheduler.policy.streams or goal.request.overrun is OverrunStrategy.PARTIAL
        is_whole = goal.request.has_whole_plan_budget or not streams
        return BudgetScope.WHOLE_PLAN if is_whole else BudgetScope.FIRST_SEGMENT

    def _load(self, kept: KeptBudget, now_s: float) -> Load:
        scheduler, own_id = self._scheduler, kept.goal.request.request_id
        config, reservations = scheduler.config, scheduler.reservations
        has_free_slot = scheduler.num_running + scheduler.num_ready <= config.max_num_seqs
        has_own = own_id in reservations  # then ready ones may run in the other slots, however many there are
        present = {*scheduler.running, *(scheduler.ready if has_free_slot or has_own else ())}
        decided = {r: k for r, k in self._kept.items() if r != own_id and k.decision is not None}
        alongside = set() if not kept.goal.generation.is_decoding else self._decoding_alongside(decided)
        reserved = [k for r, k in decided.items() if r in reservations or r in alongside]
        waiting = [k for r, k in decided.items() if r not in reservations and r not in alongside]
        counted = {own_id, *reservations.live, *alongside}
        others = [g for g in scheduler.generations if g.request_id not in counted]
        needs_room = kept.decision is None or kept.decision.waits_for_memory
        limits = [] if has_own else [r.max_co_batched for r in reservations.live.values()]
        return Load(
            has_free_slot=has_free_slot,
            kv_lens=tuple(_kv_len(g) for g in others if g in present),
            returning_kv_lens=tuple(_kv_len(g) for g in others if g not in present and g.is_decoding),
            prompts=_prompts(g for g in others if g in present),
            reserved_kv_lens=tuple(_kv_len(k.goal.generation) for k in reserved),
            reserved_prompts=_prompts(k.goal.generation for k in reserved),
            reserved_s=max(map(self._worst_s, reserved), default=0.0),
            max_co_batched=min([config.max_num_seqs - 1, *limits]),
            reserved_slack_s=min(
                (self._usable_s(k, now_s) - self._worst_s(k, others_yield=True) for k in reserved), default=math.inf
            ),
            room_tokens=self._room_tokens(kept.goal.generation, reserved) if needs_room else math.inf,
            waiting_slack_s=min((self._usable_s(k, now_s) - k.worst_s for k in waiting), default=math.inf),
            chunk_tokens=max(1, min(config.max_num_batched_tokens, scheduler.times.free_tokens)),
            reserved_chunk_tokens=config.max_num_batched_tokens,
        )

    def _room_tokens(self, generation: Generation, reserved: Iterable[KeptBudget]) -> int:
        """Returns how many tokens of a generation fit into the memory beside all that reserved ones count on."""
        ledger, cached_tokens = self._scheduler.ledger, generation.sequence.num_cached_tokens
        taken_blocks = sum(map(ledger.blocks_for, map(self._own_kv_tokens, reserved)))
        return (ledger.capacity_blocks - taken_blocks) * ledger.block_size + cached_tokens

    def _own_kv_tokens(self, kept: KeptBudget) -> int:
        """Returns its tokens in the cache, without the shared prefix, once it has written what is counted on."""
        generation = kept.goal.generation
        num_more = 0 if kept.decision is None else self._in_tokens(kept.goal, kept.decision)
        num_own = generation.peak_kv_len - generation.sequence.num_cached_tokens
        return num_own + min(num_more, generation.num_tokens_left)

    def _decoding_alongside(self, decided: Iterable[str]) -> set[str]:
        """Returns the goals with budgets that decode without a reserved slot.

        One of them that needs a slot does not take theirs: they go on alongside it, and get slots of their own
        at their next decision.
        """
        return {g.request_id for g in self._scheduler.running if g.is_decoding}.intersection(decided)

    def _reserve(self, request_id: str, max_co_batched: int | None) -> None:
        live = self._scheduler.reservations.live
        before = live.get(request_id)
        self._scheduler.reserve(request_id, max_co_batched)
        if live.get(request_id) != before:
            self._known_worst_s.clear()

    def _worst_s(self, kept: KeptBudget, *, others_yield: bool = False) -> float:
        """Returns how long another goal still takes at the worst, in the slot that is, or would be, reserved for it.

        Every decision asks it of all goals that hold one, so it is remembered while nothing that it depends on changes.
        Of a goal that is being decided about for the first time this is the length of its cache; of further ones that
        are still to be decided about nothing is, so many that come at once do not make each decision longer.

        Args:
            kept: The goal.
            others_yield: Whether it runs with no more than the other goals with budgets, and one that comes.
        """
        newcomer = self._newcomer
        newcomer_kv_len = 0 if newcomer is None or newcomer is kept else _kv_len(newcomer.goal.generation)
        key = (kept.goal.request.request_id, others_yield, newcomer_kv_len)
        if key not in self._known_worst_s:
            self._known_worst_s[key] = self._find_worst_s(kept, others_yield=others_yield)
        return self._known_worst_s[key]

    def _forget_worst(self, kept: KeptBudget) -> None:
        for key in [key for key in self._known_worst_s if key[0] == kept.goal.request.request_id]:
            del self._known_worst_s[key]

    def _find_worst_s(self, kept: KeptBudget, *, others_yield: bool) -> float:
        scheduler, own_id, decision = self._scheduler, kept.goal.request.request_id, kept.decision
        task, live = self._task(kept), scheduler.reservations.live
        counted = (k for k in self._kept.values() if k.decision is not None or k is self._newcomer)
        budgeted = {k.goal.generation for k in counted if k is not kept}
        reserved = {g for g in budgeted if g.request_id in live}
        known = budgeted.union(scheduler.running)
        most = min(len(budgeted), scheduler.config.max_num_seqs - 1)  # that wait as it does may run along then
        if own_id in live:
            most = live[own_id].max_co_batched
            if others_yield:
                most = min(most, 1 + sum(g in reserved or g.is_decoding for g in budgeted))
            else:
                known.update(g for g in scheduler.generations if g.is_decoding)
        known.discard(kept.goal.generation)
        largest = sorted(map(_kv_len, known), reverse=True)[: max(0, most)]
        chunk_tokens, time = scheduler.config.max_num_batched_tokens, scheduler.times.engine.cautious
        removed = 0 if decision is None or task.is_evicted else decision.num_removed_tokens
        num_tokens = replace(task, is_evicted=task.is_evicted or removed > 0).pessimistic_tokens(self._solver.k)
        if decision is not None and decision.max_tokens is not None:
            num_tokens = min(num_tokens, decision.max_tokens)
        setup = Setup(
            wait_s=prompts_s(_prompts(reserved), chunk_tokens, time),
            chunk_tokens=chunk_tokens,
            co_batch=CoBatch(len(largest), sum(largest)),
            num_removed_tokens=removed,
        )
        return execution_s(task, num_tokens, setup, time)


def _in_steps(lengths: Lengths, tokens_per_step: float) -> Lengths:
    """Returns lengths as the solver counts: a token stands for the step that brings it, perhaps with others.

    Not the shortest: what is admitted with nothing to spare must not depend on how many tokens a step happens to bring.
    """
    upper = None if lengths.upper is None else math.ceil(lengths.upper / tokens_per_step)
    return Lengths(lower=lengths.lower, expected=max(1.0, lengths.expected / tokens_per_step), upper=upper)


def _counts_on(decision: Decision | None) -> tuple[int, int | None]:
    """Returns what the worst case of a goal takes from the decision about it."""
    return (0, None) if decision is None else (decision.num_removed_tokens, decision.max_tokens)


def _kv_len(generation: Generation) -> int:
    """Returns the tokens in its cache once its prompt is computed."""
    return generation.num_tokens - generation.num_evicted_tokens


def _prompts(generations: Iterable[Generation]) -> tuple[Prompt, ...]:
    return tuple(Prompt(g.num_uncomputed_tokens, g.kv_len) for g in generations if not g.is_decoding)
