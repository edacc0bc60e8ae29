# SPDX-License-Identifier: Apache-2.0
"""The priority that the authors' implementation of TimelyLLM computes: for comparison only."""

import math
from collections.abc import Hashable

from llm_planner.scheduling.policies.interface import GenerationView, Rank
from llm_planner.scheduling.policies.pricing import PricedPolicy


class TimelyllmArtifact(PricedPolicy):
    """``Pri = (alpha max(0, d) + beta) exp(min(0, d))``, most first; ``d = now + G + network - due``, in seconds.

    Source: ``_priority_calculate`` in ``rtengine/vllm_llm_scheduler.py`` of the authors' public code. It is not Eq. (4)
    of the paper (``pud_printed``): it divides neither by the generation time G nor by the slack ``L = -d``. Before the
    due time it is the worth, discounted by ``exp(-L)`` with L in seconds, so that it is finite at L = 0 and keeps its
    sign behind it; after that it is the utility of a response at the expected time, so whatever has lost most comes
    last, with the same weight whatever it would cost to serve.

    Deviation: G is the learned generation time of the segment's kind, where the authors have one constant for all
    segments. Their ``1e-25 (-alpha)``, which decides between equal priorities, is a second key here: the steeper
    first. They drop every queued task whose utility has reached zero and tell no one; here that is
    ``scheduler.sheds_load``, under any policy, for goals that have not started, and with an error code. A utility that
    is not linear takes its own function in place of ``alpha max(0, d) + beta``.
    """

    name = "timelyllm_artifact"

    def rank(self, generation: GenerationView, now_s: float) -> Rank:
        """Returns (-priority, alpha, order)."""
        late_s = now_s + self.forecast.generation_time_s(generation) - self.due_s(generation)
        time_utility = generation.request.time_utility
        priority = time_utility.after_ert(late_s) * math.exp(min(0.0, late_s))
        return (-priority, time_utility.alpha, generation.order)

    def sub_queue(self, generation: GenerationView) -> tuple[Hashable, Rank]:
        """Returns a sub-queue of its own: once it is late, a generation falls behind its like."""
        return (generation.order, ())
