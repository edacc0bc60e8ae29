# SPDX-License-Identifier: Apache-2.0
"""What throughput models are compared with: the paper's four baselines, and one that knows its data better."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import xgboost
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression

from llm_planner.prediction.throughput.table import Measurement

Vector = NDArray[np.float64]
Baseline = Callable[[Sequence[Measurement], Sequence[Measurement], int], Vector]
"""``(train, test, seed) -> tokens per second of test``; the throughput in ``test`` is not looked at."""

LEAST = 1e-6
POOLED_ROUNDS = 1000
POOLED = {"objective": "reg:squarederror", "max_depth": 8, "eta": 0.05, "subsample": 0.8, "nthread": 1}


class Columns:
    """Turns measurements into columns: names as 0 or 1 each, numbers as they are or as logarithms.

    Args:
        train: Whose names are known; a name that is not has 0 everywhere.
    """

    def __init__(self, train: Sequence[Measurement]) -> None:
        self._names = [
            sorted({value(m) for m in train})
            for value in (lambda m: m.combination.hardware, lambda m: m.combination.framework, _model)
        ]

    def of(self, table: Sequence[Measurement], *, is_log: bool = False) -> Vector:
        """Returns (num_rows, num_columns)."""
        rows = [
            [
                *(float(m.combination.hardware == name) for name in self._names[0]),
                *(float(m.combination.framework == name) for name in self._names[1]),
                *(float(m.combination.model == name) for name in self._names[2]),
                m.combination.num_devices,
                np.log(m.length_tokens) if is_log else m.length_tokens,
                np.log(m.batch_size) if is_log else m.batch_size,
            ]
            for m in table
        ]
        return np.array(rows, dtype=np.float64)


def _model(m: Measurement) -> str:
    return m.combination.model


def throughput(table: Sequence[Measurement]) -> Vector:
    """Returns what was measured, in tokens per second."""
    return np.array([m.throughput_tokens_per_s for m in table])


def linear(train: Sequence[Measurement], test: Sequence[Measurement], seed: int) -> Vector:  # noqa: ARG001
    """Linear regression."""
    columns = Columns(train)
    found = LinearRegression().fit(columns.of(train), throughput(train)).predict(columns.of(test))
    return _positive(found)


def plain_xgboost(train: Sequence[Measurement], test: Sequence[Measurement], seed: int) -> Vector:
    """XGBoost as it comes ("vanilla")."""
    columns = Columns(train)
    options = {"objective": "reg:squarederror", "nthread": 1, "seed": seed}
    trees = xgboost.train(options, xgboost.DMatrix(columns.of(train), label=throughput(train)), num_boost_round=100)
    return _positive(trees.predict(xgboost.DMatrix(columns.of(test))))


def random_forest(train: Sequence[Measurement], test: Sequence[Measurement], seed: int) -> Vector:
    """A random forest as it comes."""
    columns = Columns(train)
    forest = RandomForestRegressor(random_state=seed).fit(columns.of(train), throughput(train))
    return _positive(forest.predict(columns.of(test)))


def gradient_boosting(train: Sequence[Measurement], test: Sequence[Measurement], seed: int) -> Vector:
    """Gradient boosting as it comes."""
    columns = Columns(train)
    trees = GradientBoostingRegressor(random_state=seed).fit(columns.of(train), throughput(train))
    return _positive(trees.predict(columns.of(test)))


def pooled_xgboost(train: Sequence[Measurement], test: Sequence[Measurement], seed: int) -> Vector:
    """XGBoost on log throughput of all combinations, more and deeper trees than it comes with."""
    columns = Columns(train)
    matrix = xgboost.DMatrix(columns.of(train, is_log=True), label=np.log(throughput(train)))
    trees = xgboost.train({**POOLED, "seed": seed}, matrix, num_boost_round=POOLED_ROUNDS)
    return np.exp(trees.predict(xgboost.DMatrix(columns.of(test, is_log=True))).astype(np.float64))


def _positive(found: NDArray[np.floating]) -> Vector:
    return np.maximum(found.astype(np.float64), LEAST)


BASELINES: Mapping[str, Baseline] = {
    "linear": linear,
    "xgboost": plain_xgboost,
    "random_forest": random_forest,
    "gradient_boosting": gradient_boosting,
    "pooled_xgboost": pooled_xgboost,
}
