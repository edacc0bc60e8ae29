# SPDX-License-Identifier: Apache-2.0
"""The budget solver: the least harmful combination of measures that keeps a time budget, or a refusal."""

import bisect
import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.execution_time import CoBatch, ExecutionTime
from llm_planner.scheduling.budget import (
    MAX_EVICTION_RATIO,
    PESSIMISM,
    Measure,
    Setup,
    Task,
    execution_s,
    prefill_phase_s,
    removal_needed,
    tokens_within,
)

_ROUNDING = 1e-6  # of a token
LEAST_SAVED_SHARE = 0.05
"""Of a decode step of one sequence. An eviction that saves less does not pay: estimates of whole responses whose length
is known are off by about as much (docs/benchmarks/timebill.md)."""


class Prompt(NamedTuple):
    """What is still to be computed of a prompt.

    Attributes:
        num_tokens: So many tokens, >= 1.
        kv_len: Behind so many that are in its cache, shared prefix included.
    """

    num_tokens: int
    kv_len: int


def prompts_s(prompts: Iterable[Prompt], chunk_tokens: int, time: ExecutionTime) -> float:
    """Returns the seconds until prompts are computed: one after the other, though some may share a step.

    Each behind its own cache: all tokens of one prompt would have to look at each other, and none at what is cached.
    """
    return sum(time.prefill_s(prompt.num_tokens, prompt.kv_len, chunk_tokens) for prompt in prompts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What else the engine has to do.

    Attributes:
        has_free_slot: Whether it may run without preempting another request.
        kv_lens: Caches of the others that decode along if nothing is done, without those that hold a reserved slot.
        returning_kv_lens: Caches of further ones that may come to decode along: they are suspended, or wait for a slot.
        prompts: Of their prompts that are computed first if nothing is done, what is still to be computed.
        reserved_kv_lens: Caches of those that hold a reserved slot: they never yield.
        reserved_prompts: Of their prompts, what is still to be computed, before or along with its own.
        reserved_s: Seconds until these are done, at the worst; no one else's prompt is computed before.
        max_co_batched: Most others that may decode along with one more reserved slot: what the batch can hold, and what
            the existing reservations allow; negative if there is no place for it.
        reserved_slack_s: By how much those that hold a reserved slot may be held up.
        room_tokens: Most tokens that its cache may take beside theirs: what they count on until they are done is taken.
        waiting_slack_s: By how much those may be held up that were admitted with a budget and hold no reserved slot.
        chunk_tokens: Most prompt tokens of a step if nothing is done.
        reserved_chunk_tokens: The same for a prompt in a reserved slot.
    """

    has_free_slot: bool = True
    kv_lens: tuple[int, ...] = ()
    returning_kv_lens: tuple[int, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    reserved_kv_lens: tuple[int, ...] = ()
    reserved_prompts: tuple[Prompt, ...] = ()
    reserved_s: float = 0.0
    max_co_batched: int = 15
    reserved_slack_s: float = math.inf
    room_tokens: float = math.inf
    waiting_slack_s: float = math.inf
    chunk_tokens: int = 2048
    reserved_chunk_tokens: int = 2048

    @property
    def most_others(self) -> int:
        """Most that may decode along with one more reserved slot, besides those that hold one."""
        num_others = len(self.kv_lens) + len(self.returning_kv_lens)
        return min(num_others, self.max_co_batched - len(self.reserved_kv_lens))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How a budget is kept.

    Attributes:
        measures: What is done, the least harmful first; empty if nothing need be.
        max_co_batched: Most others that may decode along; None for as many as there are.
        num_omitted_tokens: Of the prompt, left out before the prefill.
        num_removed_tokens: Evicted after the prefill.
        max_tokens: Tokens that there is time and memory for, if these are fewer than might come; None for no cap.
        num_tokens: Tokens that the worst case counts on: N_W, or the cap.
        wcet_s: Seconds from now to the last of them.
        waits_for_memory: Whether it gets no slot before those that hold a reserved one are done.
    """

    measures: tuple[Measure, ...] = ()
    max_co_batched: int | None = None
    num_omitted_tokens: int = 0
    num_removed_tokens: int = 0
    max_tokens: int | None = None
    num_tokens: int
    wcet_s: float
    setup: Setup
    waits_for_memory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSolver:
    """Finds the least harmful setup that keeps a budget; a pure function: a larger budget never takes more measures.

    First nothing, then a reserved slot in as large a batch as possible, then a shorter scene: taken as far as ``N_W``
    tokens need. Then eviction, as far as the expected number of tokens needs it, and a token cap where more
    might come than fit.

    Section 5.1 of TimeBill. Deviation: Eq. (11) knows one measure and one request. Making others wait briefly mostly
    harms no plan, so it comes first. Leaving out what the task does not speak of shortens the prefill as well as the
    decode steps (what it does to plans: docs/benchmarks/timebill.md, with it and without). Eviction gets numbers wrong,
    and lengths are predicted of plans without, so it is no provision for the worst case: it is decided again before
    every step, and most plans never need it. Eq. (11) evicts however little that saves; here it must pay.

    Attributes:
        k: Pessimistic factor, >= 1.
        max_eviction_ratio: alpha_max, 0 to 1: of what is left out and evicted together.
        way_s: From the robot to the planner and back, >= 0. It is gone from every budget, as the robot counts from its
            asking.
    """

    k: float = PESSIMISM
    max_eviction_ratio: float = MAX_EVICTION_RATIO
    way_s: float = 0.0

    def solve(self, budget_s: float, task: Task, load: Load, time: ExecutionTime) -> Decision:
        """Returns how to reach ``N_W`` tokens, or at least those of the shortest plan, within ``budget_s`` from now.

        Raises:
            PlannerError: INVALID_TIME_BUDGET if the budget is not a number above 0; BUDGET_INFEASIBLE if no combination
                of measures keeps it, with the shortest budget that would have been kept.
        """
        if not (math.isfinite(budget_s) and budget_s > 0.0):
            raise PlannerError(ErrorCode.INVALID_TIME_BUDGET, f"a time budget of {budget_s} s; give a positive number")
        left_s = budget_s - self.way_s
        decision = self._as_it_is(left_s, task, load, time) or self._reserved(left_s, task, load, time)
        if decision is None and self._lacks_memory(task, load, time):
            later = self.later(task, load, time)
            decision = later if later.wcet_s <= min(left_s, load.waiting_slack_s) else None
        if decision is None:
            raise self._infeasible(budget_s, task, load, time)
        return decision

    def _as_it_is(self, budget_s: float, task: Task, load: Load, time: ExecutionTime) -> Decision | None:
        """Returns the decision to do nothing: it waits its turn."""
        if not load.has_free_slot:
            return None
        wait_s = load.reserved_s + prompts_s(load.prompts, load.chunk_tokens, time)
        kv_lens = (*load.kv_lens, *load.reserved_kv_lens)  # a goal whose first segment is out goes on decoding
        co_batch = CoBatch(len(kv_lens), sum(kv_lens))
        setup = Setup(wait_s=wait_s, chunk_tokens=load.chunk_tokens, co_batch=co_batch)
        num_tokens = task.pessimistic_tokens(self.k)
        wcet_s = execution_s(task, num_tokens, setup, time)
        return Decision(num_tokens=num_tokens, wcet_s=wcet_s, setup=setup) if wcet_s <= budget_s else None

    def _reserved(self, budget_s: float, task: Task, load: Load, time: ExecutionTime) -> Decision | None:
        """Returns a decision that begins with a reserved slot, with a token cap where the memory holds no more."""
        room = (load.room_tokens - task.num_prefilled_tokens) / task.tokens_per_step
        most = int(max(self._fewest_tokens(task), min(room, task.max_tokens)))
        decision = self._in_slot(min(budget_s, load.waiting_slack_s), replace(task, max_tokens=most), load, time)
        if decision is None or decision.num_tokens >= self._worst_tokens(task, decision):
            return decision
        measures = dict.fromkeys((*decision.measures, Measure.TOKEN_CAP))
        return replace(decision, measures=tuple(measures), max_tokens=decision.num_tokens)

    def _in_slot(self, budget_s: float, task: Task, load: Load, time: ExecutionTime) -> Decision | None:
        """Returns a decision that begins with a reserved slot, if the memory holds all tokens that may come."""

        def attempt(num_others: int, num_omitted: int = 0) -> Decision:
            return self._attempt(task, load, time, num_others, num_omitted)

        def is_kept(decision: Decision) -> bool:
            return decision.wcet_s <= budget_s and _has_place(task, decision.setup, load, time)

        if is_kept(attempt(0)):
            decision = attempt(_largest(load.most_others, lambda others: is_kept(attempt(others))))
            is_capped = Measure.BATCH_CAP in decision.measures
            return decision if is_capped else replace(decision, max_co_batched=load.max_co_batched)
        droppable = task.droppable_tokens
        enough = bisect.bisect_left(droppable, True, key=lambda num_omitted: is_kept(attempt(0, num_omitted)))
        if enough < len(droppable):
            return attempt(0, droppable[enough])
        shortest = attempt(0, droppable[-1] if droppable else 0)
        if not _has_place(task, shortest.setup, load, time):
            return None
        return self._capped(budget_s, task, shortest, time)

    def _lacks_memory(self, task: Task, load: Load, time: ExecutionTime) -> bool:
        """Returns whether it is for the memory alone that no slot can be reserved now."""
        with_room = replace(load, room_tokens=math.inf)
        return self.has_place(task, with_room, time) and not self.has_place(task, load, time)

    def has_place(self, task: Task, load: Load, time: ExecutionTime) -> bool:
        """Returns whether a slot may be reserved now: batch and memory hold it, and it breaks no reservation."""
        return _has_place(task, self._shortest_setup(task, load, time), load, time)

    def later(self, task: Task, load: Load, time: ExecutionTime) -> Decision:
        """Returns the decision to wait until those that hold a reserved slot are done."""
        setup = Setup(wait_s=load.reserved_s, chunk_tokens=load.reserved_chunk_tokens)
        num_tokens = task.pessimistic_tokens(self.k)
        wcet_s = execution_s(task, num_tokens, setup, time)
        return Decision(num_tokens=num_tokens, wcet_s=wcet_s, setup=setup, waits_for_memory=True)

    def _attempt(self, task: Task, load: Load, time: ExecutionTime, num_others: int, num_omitted: int) -> Decision:
        """Returns the decision for a reserved slot with ``num_others``, without ``num_omitted`` prompt tokens."""
        setup = replace(_reserved_setup(load, num_others, time), num_omitted_tokens=num_omitted)
        measures = [Measure.RESERVED_SLOT]
        if num_others < load.most_others:
            measures.append(Measure.BATCH_CAP)
        if num_omitted:
            measures.append(Measure.SCENE_PRUNING)
        num_tokens = task.pessimistic_tokens(self.k)
        return Decision(
            measures=tuple(measures),
            max_co_batched=setup.co_batch.num_seqs,
            num_omitted_tokens=num_omitted,
            num_tokens=num_tokens,
            wcet_s=execution_s(task, num_tokens, setup, time),
            setup=setup,
        )

    def _capped(self, budget_s: float, task: Task, short: Decision, time: ExecutionTime) -> Decision | None:
        """Returns the decision that evicts what the expected length needs, with a cap unless the worst case fits too.

        None if a plan may not fit at all.
        """
        left_s = budget_s - prefill_phase_s(task, short.setup, time)

        def num_fitting(decision: Decision) -> int:
            return min(short.num_tokens, tokens_within(left_s, task, decision.setup, time))

        best = max(self._evictions(left_s, task, short, time), key=num_fitting)
        if num_fitting(best) < self._fewest_tokens(task):
            return None
        most = self._worst_tokens(task, best)
        num_tokens = min(most, tokens_within(left_s, task, best.setup, time))
        wcet_s = execution_s(task, num_tokens, best.setup, time)
        if num_tokens == most:
            return replace(best, num_tokens=num_tokens, wcet_s=wcet_s)
        measures = (*best.measures, Measure.TOKEN_CAP)
        return replace(best, measures=measures, max_tokens=num_tokens, num_tokens=num_tokens, wcet_s=wcet_s)

    def _worst_tokens(self, task: Task, decision: Decision) -> int:
        """Returns ``N_W``, once what is decided has been evicted."""
        is_evicted = task.is_evicted or decision.num_removed_tokens > 0
        return replace(task, is_evicted=is_evicted).pessimistic_tokens(self.k)

    def _evictions(self, left_s: float, task: Task, short: Decision, time: ExecutionTime) -> list[Decision]:
        """Returns the choices: none if none is needed, what is needed, or none and all if that is not enough.

        Eq. (11) for a batch. An eviction may take longer than it saves: then none is better. What is expected may be
        less than the least that makes sense, as that is what most plans, or segments, need.
        """
        num_tokens = min(max(math.ceil(task.lengths.expected), task.lengths.lower), short.num_tokens)
        needed = removal_needed(left_s, task, num_tokens, short.setup, time)
        removable = self._removable_tokens(task, short.num_omitted_tokens, time)
        if needed <= 0.0 or removable == 0:
            return [short]
        if needed <= removable:
            return [_with_removed(short, min(removable, math.ceil(needed + _ROUNDING)))]
        return [short, _with_removed(short, removable)]

    def _removable_tokens(self, task: Task, num_omitted: int, time: ExecutionTime) -> int:
        """Returns how much may be evicted where ``num_omitted`` tokens are left out; 0 if that would not pay.

        Whether it pays depends on nothing that changes from step to step: what was decided once holds.
        """
        most = min(task.num_removable_tokens, int(self.max_eviction_ratio * task.num_prefilled_tokens))
        removable, line = max(0, most - num_omitted), time.decode_line(1)
        step_s = line.q_s + line.p_s * (task.num_prefilled_tokens - num_omitted)
        return removable if line.p_s * removable >= LEAST_SAVED_SHARE * step_s else 0

    def _fewest_tokens(self, task: Task) -> int:
        return min(task.lengths.lower, task.pessimistic_tokens(self.k))

    def _infeasible(self, budget_s: float, task: Task, load: Load, time: ExecutionTime) -> PlannerError:
        step_s = time.decode_line(1).q_s
        left, has_place = _rounded(budget_s, math.floor), self.has_place(task, load, time)
        can_wait = self._lacks_memory(task, load, time)
        needed_s = self.later(task, load, time).wcet_s if can_wait else self.shortest_s(task, load, time)
        leaves_time = needed_s <= load.waiting_slack_s
        if budget_s < step_s:
            message = f"{left} s are left of the time budget, but one decode step takes {step_s:.3g} s"
        elif not (has_place and leaves_time):
            message = f"the engine is reserved for other goals with budgets, for up to {load.reserved_s:.3g} s"
        else:
            message = f"{left} s are left of the time budget"
        way_out = "no budget would do now: ask again later, or let the reflex act"
        if leaves_time and (has_place or can_wait):
            feasible = _rounded(needed_s + self.way_s, math.ceil)
            way_out = f"at least {feasible} s are needed now: give that much, or let the reflex act"
        return PlannerError(ErrorCode.BUDGET_INFEASIBLE, f"{message}; {way_out}")

    def shortest_s(self, task: Task, load: Load, time: ExecutionTime) -> float:
        """Returns the shortest budget that could be kept with all measures, if a reserved slot can be had."""
        setup = self._shortest_setup(task, load, time)
        evicted = replace(setup, num_removed_tokens=self._removable_tokens(task, setup.num_omitted_tokens, time))
        return min(execution_s(task, self._fewest_tokens(task), each, time) for each in (setup, evicted))

    def _shortest_setup(self, task: Task, load: Load, time: ExecutionTime) -> Setup:
        """Returns the setup with the shortest prefill."""
        num_omitted = max(task.droppable_tokens, default=0)
        return replace(_reserved_setup(load, 0, time), num_omitted_tokens=num_omitted)


def _rounded(seconds: float, rounding: Callable[[float], int]) -> str:
    """Returns seconds with three digits, rounded down or up, so that what is left never reads as what is needed."""
    if not 0.0 < seconds < math.inf:
        return f"{seconds:.3g}"
    unit_s = 10.0 ** (math.floor(math.log10(seconds)) - 2)
    return f"{rounding(round(seconds / unit_s, 6)) * unit_s:.3g}"


def _reserved_setup(load: Load, num_others: int, time: ExecutionTime) -> Setup:
    """Returns the setup of a reserved slot with ``num_others`` alongside the reserved ones, the longest at worst."""
    longest = heapq.nlargest(num_others, (*load.kv_lens, *load.returning_kv_lens))
    kv_tokens = sum(load.reserved_kv_lens) + sum(longest)
    co_batch = CoBatch(len(load.reserved_kv_lens) + num_others, kv_tokens)
    wait_s = prompts_s(load.reserved_prompts, load.reserved_chunk_tokens, time)
    return Setup(wait_s=wait_s, chunk_tokens=load.reserved_chunk_tokens, co_batch=co_batch)


def _has_place(task: Task, setup: Setup, load: Load, time: ExecutionTime) -> bool:
    """Returns whether another slot may be reserved: batch and memory hold it, and its prefill breaks no reservation."""
    peak_tokens = task.num_prefilled_tokens - setup.num_omitted_tokens + min(task.lengths.lower, task.max_tokens)
    is_room = len(load.reserved_kv_lens) <= load.max_co_batched and peak_tokens <= load.room_tokens
    return is_room and prefill_phase_s(task, setup, time) <= load.reserved_slack_s


def _with_removed(decision: Decision, num_removed: int) -> Decision:
    setup = replace(decision.setup, num_removed_tokens=num_removed)
    measures = (*decision.measures, Measure.EVICTION)
    return replace(decision, measures=measures, num_removed_tokens=num_removed, setup=setup)


def _largest(most: int, is_met: Callable[[int], bool]) -> int:
    """Returns the largest number in 0..most that meets a condition which 0 meets and which no larger one regains."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if is_met(middle) else (low, middle - 1)
    return low
