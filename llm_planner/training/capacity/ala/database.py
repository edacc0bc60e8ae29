"""The exponential database: one law per pair of input and output length (Algorithm 2 of ALA)."""

import math
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from scipy.optimize import OptimizeWarning, curve_fit

from llm_planner.prediction.throughput.exponential import ExponentialLaw
from llm_planner.prediction.throughput.table import Measurement

EPSILON = 1e-3
LEAST = 1e-5
SINGLE = ExponentialLaw(a=1.0, b=0.001, c=0.0)
"""Where the fit starts if a pair has one batch size only."""
MOST_STEPS = 10_000

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

    The start is that of lines 6 to 15. One point does not determine three parameters: the optimiser then stays near its
    start, as in the paper.
    """
    batch, throughput = np.array(points, dtype=np.float64).T
    start = np.array(_start(batch, throughput))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OptimizeWarning)  # fewer points than parameters have no covariance
            fitted, _ = curve_fit(
                lambda x, a, b, c: c - a * np.exp(-b * x),
                batch,
                throughput,
                p0=np.maximum(start, 0.0),
                bounds=(0.0, np.inf),
                method="trf",
                x_scale=np.maximum(start, LEAST),
                max_nfev=MOST_STEPS,
            )
    except (RuntimeError, ValueError):
        return None
    return ExponentialLaw(*map(float, fitted)) if all(map(math.isfinite, fitted)) else None


def _start(batch: np.ndarray, throughput: np.ndarray) -> ExponentialLaw:
    if len(set(batch)) < 2:
        return SINGLE
    low, high = np.percentile(throughput, [10, 90])
    first, last = np.percentile(batch, [10, 90])
    last = max(last, first + EPSILON)
    return ExponentialLaw(a=max(high - low, LEAST), b=1.0 / max(last - first, LEAST), c=max(high, LEAST))


def to_rows(laws: Mapping[Pair, ExponentialLaw]) -> np.ndarray:
    """Returns the training parameters T of Algorithm 2: one row ``ii, oo, a, b, c`` per pair."""
    return np.array([[*pair, *law] for pair, law in sorted(laws.items())], dtype=np.float64).reshape(-1, 5)
