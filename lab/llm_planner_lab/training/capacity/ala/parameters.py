# SPDX-License-Identifier: Apache-2.0
"""Extrapolates the parameters of the exponential law to lengths that were not measured (Algorithm 3 of ALA)."""

from dataclasses import dataclass

import numpy as np
import xgboost
from numpy.typing import NDArray

from llm_planner_lab.training.capacity.ala.exponential import ExponentialLaw

ROUNDS = 100
OPTIONS = {"objective": "reg:squarederror", "max_depth": 6, "eta": 0.3, "nthread": 1}
"""The library's defaults: the paper names none."""


def features(pairs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the seven features of Algorithm 3, (num_pairs, 7), of (num_pairs, 2) lengths ``ii, oo``.

    ``log_bb`` is ``log(1 + ii / oo)`` and ``ii_ii_ratio`` is ``ii / (ii + 1)``, as printed.
    """
    ii, oo = pairs[:, 0], pairs[:, 1]
    return np.column_stack([ii, oo, np.log1p(ii), np.log1p(oo), np.log1p(ii / oo), ii / (oo + 1.0), ii / (ii + 1.0)])


@dataclass(frozen=True, slots=True)
class ParameterRegressor:
    """Three boosted regressors, one for each of a, b and c."""

    boosters: tuple[xgboost.Booster, xgboost.Booster, xgboost.Booster]

    def law(self, input_tokens: int, output_tokens: int) -> ExponentialLaw:
        """Returns the law that is expected for a pair of lengths."""
        matrix = xgboost.DMatrix(features(np.array([[input_tokens, output_tokens]], dtype=np.float64)))
        return ExponentialLaw(*(float(booster.predict(matrix)[0]) for booster in self.boosters))


def train_parameters(rows: NDArray[np.float64], seed: int = 0) -> ParameterRegressor | None:
    """Returns the regressors for rows ``ii, oo, a, b, c``: Algorithm 3 of ALA; None for no rows."""
    if not len(rows):
        return None
    x = features(rows[:, :2])
    a, b, c = (
        xgboost.train({**OPTIONS, "seed": seed}, xgboost.DMatrix(x, label=rows[:, column]), num_boost_round=ROUNDS)
        for column in (2, 3, 4)
    )
    return ParameterRegressor((a, b, c))
