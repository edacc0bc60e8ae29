# SPDX-License-Identifier: Apache-2.0
"""Latencies of many samples in three numbers."""

from collections.abc import Sequence
from dataclasses import dataclass


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
        last = len(ordered) - 1
        return Quantiles(
            round(ordered[round(0.5 * last)], 2), round(ordered[round(0.99 * last)], 2), round(ordered[-1], 2), last + 1
        )
