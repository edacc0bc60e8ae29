# SPDX-License-Identifier: Apache-2.0
"""How sure a figure is: 95 % intervals of means and shares."""

from collections.abc import Sequence
from statistics import fmean, stdev

from scipy.stats import binomtest, t


def t_975(degrees: int) -> float:
    """Returns the 0.975 quantile of Student's t with so many degrees of freedom."""
    return float(t.ppf(0.975, degrees))


def interval95(values: Sequence[float]) -> float | None:
    """Returns the half-width of the 95 % interval of a mean (Student's t); None with fewer than two values."""
    return t_975(len(values) - 1) * stdev(values) / len(values) ** 0.5 if len(values) > 1 else None


def mean_and_ci95(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Returns the mean, and the half-width of its 95 % interval; None where unknown."""
    return (fmean(values), interval95(values)) if values else (None, None)


def wilson(num_true: int, num_all: int) -> tuple[float, float]:
    """Returns the 95 % interval of a share (Wilson): none is without width, as that of a mean is where all agree."""
    interval = binomtest(num_true, num_all).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)
