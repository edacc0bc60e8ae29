"""Keeps time budgets: asks the solver what each goal needs, and pulls the levers in scheduler and backend."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from llm_planner.core.errors import PlannerError
from llm_planner.core.eviction import num_removable_tokens
from llm_planner.core.interfaces import BackendInfo
from llm_planner.core.request import BudgetScope, OverrunStrategy
from llm_planner.scheduling.budget import Lever, Setup, Task, execution_s
from llm_planner.scheduling.eviction import decide_eviction
from llm_planner.scheduling.generation import Generation, GenerationState
from llm_planner.scheduling.levers import BudgetSolver, Decision, Load
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.expected_lengths import ExpectedLengths
from llm_planner.serving.goal import Goal


@dataclass(slots=True, kw_only=True, eq=False)
class KeptBudget:
    """A goal with a budget.

    Attributes:
        decision: The latest; None before the first.
        levers: All that were pulled so far.
    """

    goal: Goal
    decision: Decision | None = None
    levers: set[Lever] = field(default_factory=set)


class Budgets:
    """Decides about every goal with a time budget, at arrival and, while a lever is left, before every step.

    A goal is refused only at its first decision. Later ones follow what happens: the estimate of the prefill gives way
    to what it really took (as in TimeBill, section 5.2), others come, the engine slows down. What was promised to a
    goal holds for those that come after it.

    Args:
        scheduler: Gives reserved slots; knows the engine's times.
        info: Of the backend.
    """

    def __init__(self, scheduler: Scheduler, info: BackendInfo) -> None:
        self._scheduler = scheduler
        self._info = info
        config = scheduler.config
        self._solver = BudgetSolver(k=config.pessimism, max_eviction_ratio=config.max_eviction_ratio)
        self._kept: dict[str, KeptBudget] = {}
        self.lengths = ExpectedLengths()

    def open(self, goal: Goal) -> None:
        """Looks after a goal from now on, if it has a budget that is not kept yet."""
        if goal.budget_ends_at_s is not None:
            self._kept[goal.request.request_id] = KeptBudget(goal=goal)

    def close(self, request_id: str) -> None:
        """Forgets a goal."""
        self._kept.pop(request_id, None)

    def keep(self, now_s: float) -> list[tuple[Goal, PlannerError]]:
        """Decides where there is something to decide; returns the goals that must be refused, with the reason."""
        refused: list[tuple[Goal, PlannerError]] = []
        for request_id, kept in list(self._kept.items()):
            ends_s = kept.goal.budget_ends_at_s
            if ends_s is None:
                self._scheduler.reservations.end(request_id)
                del self._kept[request_id]
            elif self._is_open(kept):
                try:
                    self._decide(kept, ends_s, now_s)
                except PlannerError as error:
                    if kept.decision is None:
                        refused.append((kept.goal, error))
                    elif not self._scheduler.reservations:  # whatever is left, without breaking a promise
                        self._pull(kept, replace(kept.decision, levers=(Lever.RESERVED_SLOT,), max_company=0))
        return refused

    def _is_open(self, kept: KeptBudget) -> bool:
        """Whether a lever is left: with a slot and the prompt computed, time alone decides."""
        is_reserved = kept.goal.request.request_id in self._scheduler.reservations
        return not (is_reserved and kept.goal.generation.num_output_tokens > 0)

    def _decide(self, kept: KeptBudget, ends_s: float, now_s: float) -> None:
        times, task = self._scheduler.times, self._task(kept)
        budget_s = ends_s - now_s
        if kept.goal.request.overrun is OverrunStrategy.PARTIAL:  # it is closed a step and the way to the robot earlier
            budget_s -= self._scheduler.config.network_latency_s + times.cautious.decode_line(1).q_s
        if not times.is_known:  # too early to judge, and no reason to refuse: it gets a slot
            most = self._scheduler.config.max_num_seqs - 1
            decision = Decision(
                levers=(Lever.RESERVED_SLOT,), max_company=most, num_tokens=1, wcet_s=0.0, setup=Setup()
            )
        else:
            # What is over already is refused as any budget that cannot be kept: it was a good number when it came.
            decision = self._solver.solve(max(budget_s, 1e-9), task, self._load(kept, now_s), times.cautious)
        if kept.goal.wcet_s is None and times.is_known:
            self._note_prediction(kept, decision, task, now_s)
        self._pull(kept, decision)

    def _note_prediction(self, kept: KeptBudget, decision: Decision, task: Task, now_s: float) -> None:
        """Notes what the first sound decision expects, counted from the arrival (docs/metrics.md)."""
        goal = kept.goal
        elapsed_s = now_s - goal.generation.arrival_s
        num_tokens = max(1, min(round(task.lengths.expected), decision.num_tokens))
        expected_s = execution_s(task, num_tokens, decision.setup, self._scheduler.times.expected)
        goal.predicted_time_s, goal.wcet_s = elapsed_s + expected_s, elapsed_s + decision.wcet_s

    def _pull(self, kept: KeptBudget, decision: Decision) -> None:
        goal, generation = kept.goal, kept.goal.generation
        kept.decision = decision
        kept.levers |= set(decision.levers)
        goal.levers = tuple(lever.value for lever in Lever if lever in kept.levers)
        if decision.max_company is not None:
            self._scheduler.reserve(generation.request_id, decision.max_company)
        if self._info.can_evict and not generation.num_evicted_tokens:
            # Half a token more, so that rounding down gives the number that was decided.
            share = (decision.num_removed_tokens + 0.5) / generation.num_prompt_tokens
            decide_eviction(generation, share if decision.num_removed_tokens else 0.0, self._info)
        is_new = generation.state is GenerationState.WAITING and not generation.output_token_ids
        if decision.max_tokens is not None and is_new and goal.brief_grammar is not None:
            num_statements = int(decision.max_tokens / self.lengths.segment_tokens(goal))
            generation.sequence = replace(generation.sequence, grammar=goal.brief_grammar(max(1, num_statements)))

    # --- What the solver must know

    def _task(self, kept: KeptBudget) -> Task:
        goal, generation = kept.goal, kept.goal.generation
        can_evict = self._info.can_evict and not generation.num_evicted_tokens
        streams = self._scheduler.policy.streams or goal.request.overrun is OverrunStrategy.PARTIAL
        lengths = self.lengths.remaining(goal, goal.request.budget_scope if streams else BudgetScope.WHOLE_PLAN)
        if goal.request.overrun is OverrunStrategy.PARTIAL:  # its first segment is worth delivering
            lengths = replace(lengths, lower=self.lengths.remaining(goal, BudgetScope.FIRST_SEGMENT).lower)
        return Task(
            num_uncomputed_tokens=max(1, generation.num_uncomputed_tokens),
            kv_len=generation.kv_len,
            num_removable_tokens=num_removable_tokens(generation.sequence) if can_evict else 0,
            lengths=lengths,
            max_tokens=max(1, generation.num_tokens_left),
        )

    def _load(self, kept: KeptBudget, now_s: float) -> Load:
        scheduler, own_id = self._scheduler, kept.goal.request.request_id
        config, promised = scheduler.config, scheduler.reservations
        has_free_slot = scheduler.num_running + scheduler.num_ready <= config.max_num_seqs
        company: Iterable[Generation] = (*scheduler.running, *scheduler.ready) if has_free_slot else scheduler.running
        others = [g for g in company if g.request_id != own_id and g.request_id not in promised]
        reserved = [k for r, k in self._kept.items() if r in promised and r != own_id and k.decision is not None]
        waiting = [k for r, k in self._kept.items() if r not in promised and r != own_id and k.decision is not None]
        ends_s = [self._worst_s(k) for k in reserved]
        companies = [r.max_company for name, r in promised.live.items() if name != own_id]
        return Load(
            has_free_slot=has_free_slot,
            kv_lens=tuple(g.kv_len + g.num_uncomputed_tokens for g in others),
            num_prompt_tokens=sum(g.num_uncomputed_tokens for g in others if not g.is_decoding),
            reserved_kv_lens=tuple(k.goal.generation.num_tokens for k in reserved),
            reserved_s=max(ends_s, default=0.0),
            max_company=min([config.max_num_seqs - 1, *companies]),
            reserved_slack_s=_slack_s(reserved, ends_s, now_s),
            waiting_slack_s=_slack_s(waiting, [self._worst_s(k) for k in waiting], now_s),
            chunk_tokens=max(1, min(config.max_num_batched_tokens, scheduler.forecast.steps.free_tokens)),
            reserved_chunk_tokens=config.max_num_batched_tokens,
        )

    def _worst_s(self, kept: KeptBudget) -> float:
        """Returns how long another goal still takes at the worst, in a reserved slot as it was, or would be, given."""
        task, decision = self._task(kept), kept.decision
        setup = Setup() if decision is None or decision.max_company is None else decision.setup
        num_tokens = task.pessimistic_tokens(self._solver.k)
        if decision is not None and decision.max_tokens is not None:
            num_tokens = min(num_tokens, decision.max_tokens)
        return execution_s(task, num_tokens, replace(setup, wait_s=0.0), self._scheduler.times.cautious)


def _slack_s(others: list[KeptBudget], ends_s: list[float], now_s: float) -> float:
    """Returns by how much all of ``others`` may be held up and keep their budgets."""
    slacks = (
        k.goal.budget_ends_at_s - now_s - s for k, s in zip(others, ends_s, strict=True) if k.goal.budget_ends_at_s
    )
    return min(slacks, default=math.inf)
