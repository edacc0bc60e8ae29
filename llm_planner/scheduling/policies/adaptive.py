# SPDX-License-Identifier: Apache-2.0
"""The adaptive choice between A_min and A_l with a live engine (section 5.1 of A_min)."""

import math

from llm_planner.scheduling.policies.a_l import AL
from llm_planner.scheduling.policies.interface import GenerationView
from llm_planner.scheduling.policies.memory_safe import BoundOrder

CRITICAL_RATIO = (3.0 - math.sqrt(5.0)) / 2.0
"""alpha*, about 0.382: below it the bound of A_l is smaller."""


class Adaptive(BoundOrder):
    """Counts as A_l does where alpha = l / u is below 0.382, else as A_min; in the order of A_min.

    Deviation: the choice is made for each request by its own interval, not once for a workload that is unknown
    beforehand.
    """

    name = "adaptive"

    def __init__(self) -> None:
        self._long = AL()

    def counted_tokens(self, generation: GenerationView, *, can_offload: bool) -> int:
        """Returns what the chosen one counts on."""
        lower, upper = generation.output_bounds
        if lower < CRITICAL_RATIO * upper:
            return self._long.counted_tokens(generation, can_offload=can_offload)
        return lower
