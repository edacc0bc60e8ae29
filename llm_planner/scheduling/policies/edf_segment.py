# SPDX-License-Identifier: Apache-2.0
"""Earliest deadline first with segmented generation (TimelyLLM, section 7.3.2)."""

from collections.abc import Hashable

from llm_planner.scheduling.policies.interface import GenerationView, Rank


class EdfSegment:
    """Serves the request whose expected response time ends first.

    As in the paper, a suspended generation keeps the deadline of its request's first segment.
    """

    name = "edf_segment"
    suspends = True
    streams = True

    def rank(self, generation: GenerationView, now_s: float) -> Rank:
        """Returns the deadline."""
        return (generation.arrival_s + generation.request.time_utility.ert_s, generation.order)

    def sub_queue(self, generation: GenerationView) -> tuple[Hashable, Rank]:
        """Returns the one sub-queue there is: the order never changes."""
        return ((), self.rank(generation, 0.0)[:1])
