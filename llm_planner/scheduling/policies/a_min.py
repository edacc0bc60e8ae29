# SPDX-License-Identifier: Apache-2.0
"""A_min with a live engine: every output is counted on as short as it can still be (Algorithms 2 and 5)."""

from llm_planner.scheduling.policies.interface import GenerationView
from llm_planner.scheduling.policies.memory_safe import BoundOrder


class AMin(BoundOrder):
    """The smallest lower bound first, and lower bounds in Eq. (3).

    The bound is that of the predicted interval, or one more than was generated: no token is ever forgotten, because a
    preempted request keeps its tokens here, so the bound is refined with every one of them.
    """

    name = "a_min"

    def counted_tokens(self, generation: GenerationView, *, can_offload: bool) -> int:
        """Returns o-tilde."""
        return generation.output_bounds[0]
