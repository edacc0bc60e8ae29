# SPDX-License-Identifier: Apache-2.0
"""What a throughput model answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from llm_planner.prediction.throughput.table import Combination, Workload

LEVEL = 0.9
"""Share of measurements that intervals are to hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An expected throughput and how far to trust it.

    Attributes:
        tokens_per_s: Prompt and response tokens per second: as likely too high as too low.
        low_tokens_per_s: Lower end of the 90 % interval.
        high_tokens_per_s: Upper end.
        predicted_error: Absolute error that is expected in the median, as a fraction.
        confidence: 0 to 1: 1 for a certain answer, near 0 for a guess.
        is_seen: Whether the combination was measured at all.
    """

    tokens_per_s: float
    low_tokens_per_s: float
    high_tokens_per_s: float
    predicted_error: float
    confidence: float
    is_seen: bool


class ThroughputModel(Protocol):
    """Predicts throughput."""

    @property
    def method(self) -> str:
        """How it does that."""
        ...

    def require_known(self, combination: Combination) -> None:
        """Makes sure that the parts of a combination exist; INVALID_CONFIG names the nearest ones."""
        ...

    def estimates(self, queries: Sequence[tuple[Combination, Workload]]) -> list[Estimate]:
        """Returns what to expect of each query; one whose combination was never measured has a low confidence."""
        ...
