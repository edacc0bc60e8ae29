# SPDX-License-Identifier: Apache-2.0
"""Service gain density, after Tempo (Liu et al., arXiv 2504.20068, 2025): a recent rival for mixed deadlines."""

from collections.abc import Hashable

from llm_planner.scheduling.policies.interface import GenerationView, Rank
from llm_planner.scheduling.policies.pricing import PricedPolicy
from llm_planner.scheduling.policies.pud import SHORTEST_S


class GainDensity(PricedPolicy):
    """Serves most service gain per second of remaining generation first, and no request much earlier than needed.

    Deviation: Tempo's gains are step functions of its own service levels; here the gain is the time utility that the
    segment will still have. Its "just enough bandwidth to meet each SLO" is kept as a class of its own: what has more
    slack than ``AMPLE`` times its generation time yields to what has less. What has no utility left
    to gain comes last, the least late first.
    """

    name = "gain_density"
    ample = 4.0

    def rank(self, generation: GenerationView, now_s: float) -> Rank:
        """Returns (pressing, with slack, without gain; density; order)."""
        generation_s = max(SHORTEST_S, self.forecast.generation_time_s(generation))
        slack_s = self.due_s(generation) - now_s - generation_s
        gain = generation.request.time_utility.after_ert(-slack_s)
        if gain <= 0:
            return (2.0, -gain, generation.order)
        has_ample_slack = slack_s > self.ample * generation_s
        return (float(has_ample_slack), -gain / generation_s, generation.order)

    def sub_queue(self, generation: GenerationView) -> tuple[Hashable, Rank]:
        """Returns a sub-queue of its own: what has lost its gain is overtaken by its like."""
        return (generation.order, ())
