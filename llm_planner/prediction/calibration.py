# SPDX-License-Identifier: Apache-2.0
"""Intervals that keep their nominal coverage: a level is chosen on examples that the predictor was not trained on.

Distributional conformal prediction (Chernozhukov, Wuethrich and Zhu, PNAS 2021): the score of an example is the level
of the central interval that just reaches its true length; the interval for 90 % uses the level that 90 % of the
calibration examples stay within. Coverage then holds for any predictor, however wrong its probabilities are, as long
as new requests resemble the calibration examples.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

_STEPS = 1000


@dataclass(frozen=True, slots=True)
class IntervalCalibration:
    """Which level of the uncalibrated interval reaches which share of lengths.

    Attributes:
        levels: 1001 levels in 0..1 that never fall; element ``i`` is for intervals that hold ``i`` in a thousand.
            Uncalibrated, a level is what it says.
    """

    levels: tuple[float, ...] = tuple(step / _STEPS for step in range(_STEPS + 1))

    def level(self, nominal: float) -> float:
        """Returns the level for intervals that are to hold a share ``nominal`` in 0..1, rounded up to thousandths."""
        return self.levels[min(_STEPS, max(0, math.ceil(nominal * _STEPS - 1e-9)))]


def calibrate(scores: Iterable[float]) -> IntervalCalibration:
    """Returns the calibration of held-out examples.

    Args:
        scores: ``LengthDistribution.nonconformity`` of each example's true length, at least one.
    """
    ordered = sorted(scores)
    ranks = (math.ceil((len(ordered) + 1) * step / _STEPS) for step in range(_STEPS + 1))
    return IntervalCalibration(tuple(ordered[max(rank, 1) - 1] if rank <= len(ordered) else 1.0 for rank in ranks))
