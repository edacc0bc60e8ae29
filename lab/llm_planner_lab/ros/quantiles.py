# SPDX-License-Identifier: Apache-2.0
"""Latencies of many samples in three numbers."""

from collections.abc import Sequence
from dataclasses import dataclass


def nearest_rank(ordered: Sequence[float], share: float) -> float:
    """Returns the quantile of at least one sorted value."""
    return ordered[round(share * (len(ordered) - 1))]


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Distribution of a latency, milliseconds."""

    p50_ms: float
    p99_ms: float
    max_ms: float
    num_samples: int

    @staticmethod
    def of(samples_s: Sequence[float]) -> "Quantiles":
        """Returns the quantiles of at least one sample (nearest rank)."""
        ordered = sorted(1e3 * sample for sample in samples_s)
        p50_ms, p99_ms = nearest_rank(ordered, 0.5), nearest_rank(ordered, 0.99)
        return Quantiles(round(p50_ms, 2), round(p99_ms, 2), round(ordered[-1], 2), len(ordered))
