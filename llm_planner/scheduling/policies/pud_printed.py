# SPDX-License-Identifier: Apache-2.0
"""Eq. (4) of TimelyLLM to the letter: for comparison only."""

import math
from collections.abc import Hashable

from llm_planner.scheduling.policies.interface import GenerationView, Rank
from llm_planner.scheduling.policies.pricing import PricedPolicy
from llm_planner.scheduling.policies.pud import SHORTEST_S


class PudPrinted(PricedPolicy):
    """``Pri = TUF(W) / (G L)`` with whatever sign comes out, and without the batch limit of ``pud``.

    Only ``L = 0``, for which the equation has no value, is kept away from: a slack within a microsecond of it counts
    as one. See ``pud`` for what is wrong with the rest.
    """

    name = "pud_printed"
    limits_batch = False

    def rank(self, generation: GenerationView, now_s: float) -> Rank:
        """Returns (-priority, order)."""
        generation_s = self.forecast.generation_time_s(generation) + SHORTEST_S
        slack_s = self.due_s(generation) - now_s - generation_s
        if abs(slack_s) < SHORTEST_S:
            slack_s = math.copysign(SHORTEST_S, slack_s)
        utility = generation.request.time_utility.after_ert(-slack_s)
        return (-utility / (generation_s * slack_s), generation.order)

    def sub_queue(self, generation: GenerationView) -> tuple[Hashable, Rank]:
        """Returns a sub-queue of its own: as it gets late, a generation may fall behind its like."""
        return (generation.order, ())
