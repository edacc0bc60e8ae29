# SPDX-License-Identifier: Apache-2.0
"""The exponential database: one law per pair of input and output length (Algorithm 2 of ALA)."""

import math
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeWarning, curve_fit

from llm_planner.prediction.throughput.table import Measurement
from llm_planner_lab.training.capacity.ala.exponential import ExponentialLaw

EPSILON = 1e-3
LEAST = 1e-5
SINGLE = ExponentialLaw(a=1.0, b=0.001, c=0.0)
"""Where the fit starts if a pair has one batch size only."""
MOST_STEPS = 500
MOST_EXPONENT = 50.0

Vector = NDArray[np.float64]
Pair = tuple[int, int]
"""Tokens of input and output: (ii, oo)."""


def build_exponential_database(measurements: Iterable[Measurement]) -> dict[Pair, ExponentialLaw]:
    """Returns the law of each pair of lengths in the measurements of one combination: Algorithm 2 of ALA.

    Pairs whose optimisation fails are left out, as printed. "Bounded constraints" are not printed: all three parameters
    are kept at or above 0 here, so that throughput never falls as the batch grows.
    """
    groups: defaultdict[Pair, list[Measurement]] = defaultdict(list)
    for m in measurements:
        groups[m.workload.input_tokens, m.workload.output_tokens].append(m)
    laws = {pair: fit_law([(m.batch_size, m.throughput_tokens_per_s) for m in group]) for pair, group in groups.items()}
    return {pair: law for pair, law in laws.items() if law is not None}


def fit_law(points: Sequence[tuple[int, float]]) -> ExponentialLaw | None:
    """Returns the law through (batch size, throughput) points by least squares; None if there is no convergence.

    The start is that of lines 6 to 15. The optimiser (Levenberg and Marquardt) works on logarithms, which bounds all
    three parameters below by 0. One or two points do not determine three parameters: each then counts several times, so
    that the optimiser may run, and stays near its start, as in the paper.
    """
    repeats = -(-3 // len(points))
    batch, throughput = np.array(list(points) * repeats, dtype=np.float64).T
    start = np.log(np.maximum(_start(batch, throughput), LEAST))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OptimizeWarning)  # too few points have no covariance
            fitted, _ = curve_fit(
                _curve, batch, throughput, p0=start, jac=_slopes, method="lm", maxfev=MOST_STEPS, ftol=1e-6, xtol=1e-6
            )
    except RuntimeError:
        return None
    law = ExponentialLaw(*map(float, np.exp(_bounded(fitted))))
    return law if all(map(math.isfinite, law)) else None


def _curve(batch: Vector, a: float, b: float, c: float) -> Vector:
    return np.exp(_bounded(c)) - np.exp(_bounded(a) - _bounded(np.exp(_bounded(b)) * batch))


def _slopes(batch: Vector, a: float, b: float, c: float) -> Vector:
    rates = _bounded(np.exp(_bounded(b)) * batch)
    decayed = np.exp(_bounded(a) - rates)
    return np.column_stack([-decayed, decayed * rates, np.full_like(batch, np.exp(_bounded(c)))])


def _bounded(exponent: Vector | float) -> Vector:
    """Returns an exponent whose exponential is finite, however far the optimiser strays."""
    return np.clip(exponent, -MOST_EXPONENT, MOST_EXPONENT)


def _start(batch: Vector, throughput: Vector) -> ExponentialLaw:
    if len(set(batch)) < 2:
        return SINGLE
    low, high = np.percentile(throughput, [10, 90])
    first, last = np.percentile(batch, [10, 90])
    last = max(last, first + EPSILON)
    return ExponentialLaw(a=max(high - low, LEAST), b=1.0 / max(last - first, LEAST), c=max(high, LEAST))


def to_rows(laws: Mapping[Pair, ExponentialLaw]) -> Vector:
    """Returns the training parameters T of Algorithm 2: one row ``ii, oo, a, b, c`` per pair."""
    return np.array([[*pair, *law] for pair, law in sorted(laws.items())], dtype=np.float64).reshape(-1, 5)
