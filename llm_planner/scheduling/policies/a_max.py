# SPDX-License-Identifier: Apache-2.0
"""A_max with a live engine: every output is counted on as long as it can be (Algorithm 1)."""

from collections.abc import Hashable

from llm_planner.scheduling.policies.interface import GenerationView, Rank
from llm_planner.scheduling.policies.memory_safe import MemorySafe


class AMax(MemorySafe):
    """Upper bounds in Eq. (3), in the order of arrival: the paper's random order could delay one at length."""

    name = "a_max"
    suspends = True
    streams = True

    def counted_tokens(self, generation: GenerationView, *, can_offload: bool) -> int:
        """Returns u."""
        return generation.output_bounds[1]

    def rank(self, generation: GenerationView, now_s: float) -> Rank:
        """Returns the arrival."""
        return (generation.arrival_s, generation.order)

    def sub_queue(self, generation: GenerationView) -> tuple[Hashable, Rank]:
        """Returns the one sub-queue there is."""
        return ((), (generation.arrival_s,))
