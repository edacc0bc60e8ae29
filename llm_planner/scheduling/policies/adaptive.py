# SPDX-License-Identifier: Apache-2.0
"""The adaptive choice between A_min and A_l with a live engine (section 5.1 of A_min)."""

import math
from collections import deque
from collections.abc import Iterable

from llm_planner.scheduling.policies.a_l import AL
from llm_planner.scheduling.policies.interface import GenerationView
from llm_planner.scheduling.policies.memory_safe import BoundOrder

CRITICAL_RATIO = (3.0 - math.sqrt(5.0)) / 2.0
"""alpha*, about 0.382: below it the bound of A_l for two-point lengths is smaller."""
LEAST_ENDED, MOST_ENDED = 20, 200
"""Requests that must have ended before their lengths say anything, and how many of the last ones count."""
SHARE_AT_ENDS = 0.95
"""Of them that must have ended at one of their two points."""
NEAR = 0.02
"""Share of an interval, and at least one token, that still counts as its end."""


class Adaptive(BoundOrder):
    """Counts as A_l does where alpha = l / u is below 0.382 and lengths are l or u, else as A_min; in A_min's order.

    Deviation: the choice is made for each request by its own interval, not once for a workload that is unknown
    beforehand. And A_l needs proof: Theorem 7 holds for lengths of two points, l or u, and with others A_l counts on u
    for nearly everybody. So A_l counts only once 95 % of those that have ended were as long as one end of their
    interval.
    """

    name = "adaptive"

    def __init__(self) -> None:
        self._long = AL()
        self._was_at_end: deque[bool] = deque(maxlen=MOST_ENDED)

    def counted_tokens(self, generation: GenerationView, *, can_offload: bool) -> int:
        """Returns what the chosen one counts on."""
        lower, upper = generation.output_bounds
        if lower < CRITICAL_RATIO * upper and self._has_two_points:
            return self._long.counted_tokens(generation, can_offload=can_offload)
        return lower

    def note_complete(self, generation: GenerationView, others: Iterable[GenerationView]) -> None:
        """Notes whether a request that ended was as long as one end of its interval."""
        lower, upper = generation.predicted_bounds
        near = max(1.0, NEAR * (upper - lower))
        tokens = generation.num_output_tokens
        self._was_at_end.append(min(abs(tokens - lower), abs(tokens - upper)) <= near)

    @property
    def _has_two_points(self) -> bool:
        num_ended = len(self._was_at_end)
        return num_ended >= LEAST_ENDED and sum(self._was_at_end) >= SHARE_AT_ENDS * num_ended
