# SPDX-License-Identifier: Apache-2.0
"""Apparent tardiness cost: our policy."""

import math

from llm_planner.scheduling.policies.interface import GenerationView, Rank
from llm_planner.scheduling.policies.pricing import LEAST_WEIGHT, LOOKAHEAD_S, PricedPolicy
from llm_planner.scheduling.policies.pud import SHORTEST_S

AGEING_PER_S2 = 0.5
"""By how much the cost of a late one grows per second: as its weight does (``pricing``) with G = 0.1 s."""


class Tardiness(PricedPolicy):
    """``Pri = (-alpha / G + A max(0, lateness)) exp(-max(0, L) / K)``, most first.

    The time utility of Eq. (1) is a constant less the weighted tardiness ``-alpha max(0, t - ERT)``, so the best order
    is one of least total weighted tardiness. Its classical rule is the apparent tardiness cost of Vepsalainen and
    Morton (Management Science 33(8), 1987): among the late, the loss per second of engine time (Smith's rule, which
    is optimal for them); before that, discounted by the slack, so that work without a deadline in sight yields.

    Deviation: K is a constant time instead of a multiple of the mean processing time, and costs age, so that no class
    starves however long an overload lasts: of two late ones the one that costs less, by D, waits only for what is due
    less than ``D / A`` after it. Ageing weights alone would not do: divided by a longer G they age more slowly.
    """

    name = "tardiness"

    def rank(self, generation: GenerationView, now_s: float) -> Rank:
        """Returns (logarithm of the cost, due time, order)."""
        generation_s = self.forecast.generation_time_s(generation) + SHORTEST_S
        due_s = self.due_s(generation)
        slack_s = due_s - now_s - generation_s
        lateness_s = now_s - due_s
        cost = (LEAST_WEIGHT + generation.request.time_utility.loss_per_s(lateness_s)) / generation_s
        if lateness_s > 0:
            cost += AGEING_PER_S2 * lateness_s
        discount = slack_s / LOOKAHEAD_S if slack_s > 0 else 0.0
        return (discount - math.log(cost), due_s, generation.order)
