# SPDX-License-Identifier: Apache-2.0
"""Learns how far off predictions are from those for measurements that were held out."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llm_planner.prediction.throughput.error_scale import ErrorScale, keys_of
from llm_planner.prediction.throughput.estimate import LEVEL
from llm_planner.prediction.throughput.table import Combination

Vector = NDArray[np.float64]

SMALLEST = 1e-4
"""Errors below are as good as none; their logarithms would count too much."""
SHRINKAGE = {"hardware": 20.0, "framework": 20.0, "model": 20.0, "devices": 20.0, "pair": 30.0, "combination": 6.0}
"""This many rows with an offset of 0 are assumed for each key."""
ROWS_PER_COMBINATION = 3.0
"""Errors of one unseen combination are nearly one error: its rows count as this many."""


def fit_error_scale(
    combinations: Sequence[Combination], deviations: Vector, errors: Vector, *, is_seen: bool
) -> ErrorScale:
    """Returns the scale of held-out errors by ridge regression of their logarithms.

    Quantiles over typical errors are taken as in split conformal prediction (Lei et al., JASA 2018), so that intervals
    keep their coverage however wrong the regression is, as long as new requests resemble those held out.

    Args:
        combinations: Of each held-out row.
        deviations: Standard deviation that the model had left.
        errors: Absolute errors of log throughput.
        is_seen: Whether other rows of the same combination were known; then each may be off in its own way.
    """
    keys = [keys_of(c) if is_seen else keys_of(c)[:-1] for c in combinations]
    index = {key: number for number, key in enumerate(sorted({key for row in keys for key in row}))}
    design = np.zeros((len(keys), 2 + len(index)))
    design[:, 0], design[:, 1] = 1.0, np.log(deviations)
    for row, names in zip(design, keys, strict=True):
        row[[2 + index[name] for name in names]] = 1.0
    weights = np.ones(len(keys)) if is_seen else _per_combination(combinations)
    penalty = np.array([1e-6, 1e-6, *(SHRINKAGE[key.partition(":")[0]] for key in index)])
    target = np.log(np.maximum(errors, SMALLEST))
    weighted = design * weights[:, None]
    solution = np.linalg.solve(design.T @ weighted + np.diag(penalty), weighted.T @ target)
    intercept, slope = float(solution[0]), float(max(0.0, solution[1]))
    offsets = {key: float(solution[2 + number]) for key, number in index.items()}
    typical = np.exp(
        intercept + slope * np.log(deviations) + np.array([sum(offsets[name] for name in names) for names in keys])
    )
    ratios = errors / typical
    middle = float(np.median(ratios))
    quantiles = np.quantile(ratios / middle, np.linspace(0.0, 1.0, 101))
    rank = min(1.0, math.ceil((len(ratios) + 1) * LEVEL) / len(ratios))
    reach = float(np.quantile(ratios / middle, rank))
    return ErrorScale(intercept + math.log(middle), slope, offsets, tuple(map(float, quantiles)), reach)


def _per_combination(combinations: Sequence[Combination]) -> Vector:
    names = np.array([str(c) for c in combinations])
    _, inverse, counts = np.unique(names, return_inverse=True, return_counts=True)
    weights: Vector = ROWS_PER_COMBINATION / np.maximum(ROWS_PER_COMBINATION, counts[inverse])
    return weights
