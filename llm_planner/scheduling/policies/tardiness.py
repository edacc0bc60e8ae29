"""Apparent tardiness cost: our policy."""

import math

from llm_planner.scheduling.policies.interface import GenerationView, Rank
from llm_planner.scheduling.policies.pricing import PricedPolicy, weight
from llm_planner.scheduling.policies.pud import SHORTEST_S

LOOKAHEAD_S = 0.1
"""Slack at which the cost of waiting counts a third: about the time of one segment."""


class Tardiness(PricedPolicy):
    """``Pri = (-alpha / G) exp(-max(0, L) / K)``, most first.

    The time utility of Eq. (1) is a constant less the weighted tardiness ``-alpha max(0, t - ERT)``, so the best order
    is one of least total weighted tardiness. Its classical rule is the apparent tardiness cost of Vepsalainen and
    Morton (Management Science 33(8), 1987): among the late, the loss per second of engine time (Smith's rule, which
    is optimal for them); before that, discounted by the slack, so that work without a deadline in sight yields.

    Deviation: K is a constant time instead of a multiple of the mean processing time, and weights age (see
    ``PricedPolicy.weight``).
    """

    name = "tardiness"

    def rank(self, generation: GenerationView, now_s: float) -> Rank:
        """Returns (logarithm of the cost, due time, order)."""
        generation_s = self.forecast.generation_time_s(generation) + SHORTEST_S
        due_s = self.due_s(generation)
        slack_s = due_s - now_s - generation_s
        cost = weight(generation.request.time_utility, now_s - due_s) / generation_s
        discount = slack_s / LOOKAHEAD_S if slack_s > 0 else 0.0
        return (discount - math.log(cost), due_s, generation.order)
