# SPDX-License-Identifier: Apache-2.0
"""Potential utility density, the policy of TimelyLLM (section 4.3, Eq. 4)."""

from llm_planner.scheduling.policies.interface import GenerationView, Rank
from llm_planner.scheduling.policies.pricing import PricedPolicy

SHORTEST_S = 1e-6  # keeps a quotient finite


class Pud(PricedPolicy):
    """``Pri = TUF(W) / (G L)``, most first: more utility per second of generation, and less slack.

    Deviation: as printed, the equation breaks where slack or utility is not positive. At ``L = 0`` it is infinite; for
    ``L < 0`` the sign turns, so that a late generation of high utility comes last; and where both are negative, the
    one that has lost most comes first for the wrong reason. As ``L`` falls to 0 the printed priority grows without
    bound, so whatever has no slack left goes before whatever has some. Among those the rate at which utility is being
    lost per second of generation, ``-alpha / G``, decides: the loss that engine time can still stop. TUF is
    positive wherever L is, so the printed form is used nowhere else. The rank is finite and total, and falls
    (more urgent) as time passes.
    """

    name = "pud"

    def rank(self, generation: GenerationView, now_s: float) -> Rank:
        """Returns (late first, density, due time, order)."""
        generation_s = max(SHORTEST_S, self.forecast.generation_time_s(generation))
        due_s = self.due_s(generation)
        slack_s = due_s - now_s - generation_s
        time_utility = generation.request.time_utility
        if slack_s <= SHORTEST_S:
            return (0.0, -time_utility.loss_per_s(now_s - due_s) / generation_s, due_s, generation.order)
        return (1.0, -time_utility.beta / (generation_s * slack_s), due_s, generation.order)
