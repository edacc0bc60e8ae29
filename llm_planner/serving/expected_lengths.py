# SPDX-License-Identifier: Apache-2.0
"""How much is still to be generated within a time budget: as predicted, or as for robots of this model before."""

import statistics
from collections import defaultdict, deque

from llm_planner.core.request import BudgetScope, Urgency
from llm_planner.core.segment import Segment
from llm_planner.scheduling.budget import Lengths
from llm_planner.serving.goal import Goal

PRIOR_SEGMENT_TOKENS = 10.0
"""Before a segment was seen: the bound of TimelyLLM, section 7.1."""
PRIOR_PLAN_TOKENS = 40.0
"""Before a plan was seen: a few segments; times k it covers most."""
PRIOR_SHORTEST_TOKENS = 5
"""Before anything was seen: one call of a skill."""
MOST = 0.9
MEMORY = 256
SURE = 0.998
"""Nominal coverage of the interval whose ends bound a predicted length."""

_Kind = tuple[str, bool, BudgetScope]


class ExpectedLengths:
    """Lengths of first segments and whole plans, apart for each robot model, and for answers in words.

    The latest ``MEMORY`` of each count.
    """

    def __init__(self) -> None:
        self._seen: dict[_Kind, deque[int]] = defaultdict(lambda: deque(maxlen=MEMORY))
        self._per_step: dict[_Kind, deque[float]] = defaultdict(lambda: deque(maxlen=MEMORY))

    def observe_segment(self, goal: Goal, segment: Segment) -> None:
        """Learns from a segment that the present step completed, if it is the first."""
        if segment.index or segment.num_tokens == 0:  # 0 is an unknown number
            return
        kind = _kind(goal, BudgetScope.FIRST_SEGMENT)
        self._seen[kind].append(segment.num_tokens)
        if goal.generation.num_segments == 0:
            self._per_step[kind].append(segment.num_tokens / (goal.generation.num_segment_steps + 1))

    def observe_plan(self, goal: Goal) -> None:
        """Learns from a plan that is complete, if all of it was generated here."""
        num_tokens = goal.generation.num_output_tokens
        if num_tokens and not (goal.is_partial or goal.request.delivered or goal.failures):
            self._seen[_kind(goal, BudgetScope.WHOLE_PLAN)].append(num_tokens)

    def remaining(self, goal: Goal, scope: BudgetScope) -> Lengths:
        """Returns what is still to come before ``goal`` has what its budget covers.

        A whole plan's length is predicted where there is a predictor (TimeBill, section 4.1). For first segments, and
        without one, the mean of what was seen counts. The least that makes sense is the shortest plan, and what is
        enough for most first segments.
        """
        num_done = goal.generation.num_output_tokens
        num_ends = int(scope is BudgetScope.WHOLE_PLAN)  # a plan is whole when its end token is out, too
        if scope is BudgetScope.WHOLE_PLAN and goal.length is not None:
            left = goal.length.remaining(num_done)
            lower, upper = left.interval(SURE)
            return Lengths(lower=lower + num_ends, expected=left.expected_tokens + num_ends, upper=upper + num_ends)
        seen = self._seen[_kind(goal, scope)]
        prior = PRIOR_PLAN_TOKENS if scope is BudgetScope.WHOLE_PLAN else PRIOR_SEGMENT_TOKENS
        expected = statistics.fmean(seen) if seen else prior
        lower = PRIOR_SHORTEST_TOKENS
        if seen:  # a plan can be asked to be brief, a statement is as long as it is
            lower = min(seen) if scope is BudgetScope.WHOLE_PLAN else sorted(seen)[int(MOST * (len(seen) - 1))]
        return Lengths(lower=num_ends + max(1, lower - num_done), expected=num_ends + max(1.0, expected - num_done))

    def tokens_per_step(self, goal: Goal) -> float:
        """Returns how many tokens a step brings, >= 1: the grammar forces some, drafts bring others."""
        seen = self._per_step[_kind(goal, BudgetScope.FIRST_SEGMENT)]
        return max(1.0, statistics.fmean(seen)) if seen else 1.0


def _kind(goal: Goal, scope: BudgetScope) -> _Kind:
    return goal.request.robot_model, goal.request.urgency is Urgency.CHAT, scope
