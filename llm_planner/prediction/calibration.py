# SPDX-License-Identifier: Apache-2.0
"""Intervals that keep their nominal coverage: a level is chosen on examples that the predictor was not trained on.

Distributional conformal prediction (Chernozhukov, Wuethrich and Zhu, PNAS 2021): the score of an example is the level
of the central interval that just reaches its true length; the interval for 90 % uses the level that 90 % of the
calibration examples stay within. Coverage then holds for any predictor, however wrong its probabilities are, as long
as new requests resemble the calibration examples. They do so best within a group of prompts of similar length, so each
group has a calibration of its own (Mondrian conformal prediction; Vovk, Lindsay, Nouretdinov and Gammerman, 2003).
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_STEPS = 1000
_FEWEST = 200  # examples of a group that is calibrated by itself: 20 of them lie outside 90 % intervals


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


@dataclass(frozen=True, slots=True)
class GroupedCalibration:
    """A calibration for each group of prompts of similar length.

    Attributes:
        shorter: Groups in ascending order: the most prompt tokens of a group, and its calibration.
        longest: Of prompts that are longer than all of these.
    """

    shorter: tuple[tuple[int, IntervalCalibration], ...] = ()
    longest: IntervalCalibration = field(default_factory=IntervalCalibration)

    def of(self, num_prompt_tokens: int) -> IntervalCalibration:
        """Returns the calibration of a prompt's group."""
        fitting = (calibration for most, calibration in self.shorter if num_prompt_tokens <= most)
        return next(fitting, self.longest)


def calibrate_groups(examples: Sequence[tuple[int, float]], bounds: Sequence[int]) -> GroupedCalibration:
    """Returns the calibration of each group of held-out examples.

    A group of fewer than 200 examples gets the calibration of all.

    Args:
        examples: Prompt tokens and score (see ``calibrate``) of each example, at least one.
        bounds: The most prompt tokens of each group but the last, ascending.
    """
    of_all = calibrate(score for _, score in examples)

    def group(above: int, most: float) -> IntervalCalibration:
        scores = [score for num_tokens, score in examples if above < num_tokens <= most]
        return calibrate(scores) if len(scores) >= _FEWEST else of_all

    edges = (0, *bounds)
    shorter = tuple((most, group(above, most)) for above, most in itertools.pairwise(edges))
    return GroupedCalibration(shorter, group(edges[-1], math.inf))
