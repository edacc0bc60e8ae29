# SPDX-License-Identifier: Apache-2.0
"""What robots ask of a server."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from llm_planner.core.time_utility import TimeUtility
from llm_planner.robots.record import require

Fleet = Mapping[str, int]
"""How many robots of which model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One kind of request of a fleet.

    Attributes:
        per_s: How many come per second.
        num_prompt_tokens: That are computed for it: the static part of a prompt is shared.
        first_tokens: Until the robot can begin.
        num_tokens: Of the whole plan.
        time_utility: What a response is worth.
    """

    per_s: float
    num_prompt_tokens: float
    first_tokens: int
    num_tokens: int
    time_utility: TimeUtility

    def __post_init__(self) -> None:
        sizes = (self.per_s, self.num_prompt_tokens, self.first_tokens, self.num_tokens)
        require(all(math.isfinite(size) and size > 0 for size in sizes), "a demand has positive finite numbers")

    def scaled(self, factor: float) -> "Demand":
        """Returns the demand of ``factor`` times as many robots."""
        return replace(self, per_s=self.per_s * factor)
