# SPDX-License-Identifier: Apache-2.0
"""The speed of the machine while a benchmark runs: the same piece of work, timed between all others."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from llm_planner.core.interfaces import Backend
from llm_planner.prediction.prober import Prober
from llm_planner_lab.bench.timely.metrics import quantile

REFERENCE_TOKENS = 256
"""Of the prompt that is computed, with one decode step behind it: long enough not to be noise."""


@dataclass(slots=True)
class Reference:
    """Times a prompt of ``REFERENCE_TOKENS`` and one step behind it whenever it is asked.

    Args:
        prober: Drives the engine; of its own, so that its samples are no one else's.
    """

    prober: Prober
    times_s: list[float] = field(default_factory=list)

    @staticmethod
    def of(backend: Backend, grammar: str) -> "Reference":
        """Returns the reference of an engine, under the grammar that it decodes with."""
        return Reference(Prober(backend, grammar=grammar))

    def measure(self) -> float:
        """Returns the seconds that the work takes now."""
        self.times_s.append(sum(self.prober.probe(REFERENCE_TOKENS)))
        return self.times_s[-1]

    def figures(self) -> Mapping[str, float]:
        """Returns its median in ms, and how far from it the machine was: the 5 % and 95 % quantiles, as ratios."""
        ordered, middle_s = sorted(self.times_s), median(self.times_s)
        return {
            "n": len(ordered),
            "median_ms": 1000.0 * middle_s,
            "p05_ratio": quantile(ordered, 0.05) / middle_s,
            "p95_ratio": quantile(ordered, 0.95) / middle_s,
        }
