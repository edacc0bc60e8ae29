# SPDX-License-Identifier: Apache-2.0
"""How far off a prediction will be: learned from measurements that were held out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from llm_planner.prediction.throughput.table import Combination


class Familiarity(Enum):
    """How much of a combination was measured."""

    SEEN = "seen"  # the combination itself
    UNSEEN = "unseen"  # its hardware, framework and model, but not together
    FOREIGN = "foreign"  # not even all of these


@dataclass(frozen=True, slots=True)
class ErrorScale:
    """The typical error of log throughput, and how errors spread around it.

    ``log typical = intercept + slope log deviation + sum of offsets``: what the model does not know, and what it is
    known to be bad at.

    Attributes:
        intercept: Such that half of the errors are smaller than typical.
        slope: On the logarithm of the standard deviation that the model has left.
        offsets: By the keys of ``keys_of``; a key that is not there counts nothing.
        quantiles: Errors over typical ones, 101 of them: element ``i`` holds ``i`` percent, in order.
        reach: Of a 90 % interval, in typical errors.
    """

    intercept: float
    slope: float
    offsets: Mapping[str, float]
    quantiles: tuple[float, ...]
    reach: float

    def typical(self, combination: Combination, deviation: float) -> float:
        """Returns the absolute error of log throughput that half of such predictions exceed."""
        offsets = sum(self.offsets.get(key, 0.0) for key in keys_of(combination))
        return math.exp(self.intercept + self.slope * math.log(deviation) + offsets)

    def chance_within(self, error: float, typical: float) -> float:
        """Returns the chance that the absolute error of log throughput is at most ``error``."""
        return float(np.interp(error / typical, self.quantiles, np.linspace(0.0, 1.0, len(self.quantiles))))


def keys_of(combination: Combination) -> tuple[str, ...]:
    """Returns what errors may depend on, the combination itself last."""
    hardware, num_devices, framework, model = combination
    return (
        f"hardware:{hardware}",
        f"framework:{framework}",
        f"model:{model}",
        f"devices:{num_devices}",
        f"pair:{hardware}/{framework}",
        f"combination:{combination}",
    )
