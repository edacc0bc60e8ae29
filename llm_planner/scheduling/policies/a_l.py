# SPDX-License-Identifier: Apache-2.0
"""A_l with a live engine: a request that outlives its lower bound is long and goes last (Algorithm 6)."""

from collections.abc import Hashable

from llm_planner.scheduling.policies.interface import GenerationView, Rank
from llm_planner.scheduling.policies.memory_safe import MemorySafe


class AL(MemorySafe):
    """Counts on l until l tokens are there, then on u; long ones go last, else the order of arrival.

    Deviation: one that turns out to be long is not cancelled. It keeps its tokens and its slot, and goes last when it
    has to wait again. It counts as long when all but one of the l tokens are there.
    """

    name = "a_l"
    suspends = True
    streams = True

    def counted_tokens(self, generation: GenerationView, *, can_offload: bool) -> int:
        """Returns l, then u."""
        lower, upper = generation.output_bounds
        return upper if self.is_long(generation) else lower

    def is_long(self, generation: GenerationView) -> bool:
        """Returns whether it has reached its lower bound, but for one token."""
        return 0 < generation.num_output_tokens == generation.output_bounds[0] - 1

    def rank(self, generation: GenerationView, now_s: float) -> Rank:
        """Returns (is long, arrival, order)."""
        return (float(self.is_long(generation)), generation.arrival_s, generation.order)

    def sub_queue(self, generation: GenerationView) -> tuple[Hashable, Rank]:
        """Returns the one sub-queue there is: no request generates while it waits."""
        return ((), (float(self.is_long(generation)), generation.arrival_s))
