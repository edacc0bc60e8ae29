# SPDX-License-Identifier: Apache-2.0
"""Predicts how far off predictions for a set of workloads will be, and how sure that is (Algorithms 7 and 8 of ALA)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xgboost
from numpy.typing import NDArray

from llm_planner.prediction.throughput.table import Workload
from llm_planner_lab.training.capacity.ala.annealing import Step
from llm_planner_lab.training.capacity.ala.parameters import OPTIONS, ROUNDS


class Encoding(NamedTuple):
    """All values that occur, in order: what a subset is encoded by."""

    input_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]
    batch_sizes: tuple[int, ...]

    @classmethod
    def of(cls, points: Iterable[Workload]) -> "Encoding":
        """Returns the values that occur in ``points``."""
        return cls(*(tuple(sorted(set(values))) for values in zip(*points, strict=True)))

    def presence(self, points: Iterable[Workload]) -> NDArray[np.float64]:
        """Returns one number per value: whether it occurs in a subset (lines 5 to 10 of Algorithm 7)."""
        occurring = [set(values) for values in zip(*points, strict=True)] or [set(), set(), set()]
        order = (0, 2, 1)  # ii, bb, oo, as printed
        return np.array([float(value in occurring[i]) for i in order for value in self[i]])

    def histograms(self, points: Iterable[Workload]) -> list[NDArray[np.float64]]:
        """Returns for each feature how many points have each value."""
        columns = [Counter(values) for values in zip(*points, strict=True)] or [Counter(), Counter(), Counter()]
        return [
            np.array([counts[value] for value in values], dtype=np.float64)
            for counts, values in zip(columns, self, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class ErrorPredictor:
    """The model F and the history L it was trained on."""

    encoding: Encoding
    booster: xgboost.Booster
    history: Sequence[Sequence[NDArray[np.float64]]]

    def predict(self, points: Sequence[Workload]) -> tuple[float, float]:
        """Returns the error to expect, as a fraction, and the confidence in 0..1 for new data: Algorithm 8 of ALA.

        The distance between two sets of points is that of the text: cosine distance of their histograms, averaged over
        the features.
        """
        row = xgboost.DMatrix(self.encoding.presence(points).reshape(1, -1))
        new = self.encoding.histograms(points)
        nearest = min(
            float(np.mean([_cosine_distance(a, b) for a, b in zip(new, known, strict=True)])) for known in self.history
        )
        return max(0.0, float(self.booster.predict(row)[0])), 1.0 / (1.0 + nearest)


def train_error_predictor(log: Sequence[Step], seed: int = 0) -> ErrorPredictor:
    """Returns the error predictor of an annealing log: Algorithm 7 of ALA."""
    encoding = Encoding.of(point for step in log for point in step.subset)
    x = np.array([encoding.presence(step.subset) for step in log])
    y = np.array([step.error for step in log])
    booster = xgboost.train({**OPTIONS, "seed": seed}, xgboost.DMatrix(x, label=y), num_boost_round=ROUNDS)
    return ErrorPredictor(encoding, booster, [encoding.histograms(step.subset) for step in log])


def _cosine_distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return 1.0 - float(a @ b) / norm if norm else 1.0
