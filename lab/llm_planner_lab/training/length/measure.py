# SPDX-License-Identifier: Apache-2.0
"""Figures of predictors on held-out prompts."""

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from llm_planner.prediction.calibration import GroupedCalibration, calibrate_groups
from llm_planner.prediction.length import LengthInterval, LengthPredictor
from llm_planner_lab.training.length.data import Example, collate
from llm_planner_lab.training.length.network import LengthNetwork
from llm_planner_lab.training.length.objectives import Objective

_BATCH_SIZE = 32
GROUPS = (32, 64, 256)  # most prompt tokens of each group that is calibrated by itself; the last has no limit


@dataclass(frozen=True, slots=True)
class Errors:
    """How far predicted lengths are off, in tokens.

    Attributes:
        mae: Mean absolute error.
        rmse: Root of the mean squared error.
        r2: Share of the variance that the prediction explains; None if the true lengths do not vary.
    """

    mae: float
    rmse: float
    r2: float | None


def errors_of(predicted: Sequence[float], true: Sequence[int]) -> Errors:
    """Returns mean absolute error, root mean squared error and the coefficient of determination (TimeBill, Table 1)."""
    truth = np.array(true, dtype=np.float64)
    residuals = np.array(predicted) - truth
    variance = ((truth - truth.mean()) ** 2).mean()
    square = (residuals**2).mean()
    r2 = float(1.0 - square / variance) if variance > 0 else None
    return Errors(float(abs(residuals).mean()), float(square**0.5), r2)


@torch.no_grad()
def predict_lengths(
    network: LengthNetwork, objective: Objective, examples: Sequence[Example], max_input_tokens: int, head_tokens: int
) -> list[float]:
    """Returns the length that a network predicts for each example, in order."""
    order = sorted(range(len(examples)), key=lambda index: len(examples[index].token_ids))
    predicted = [0.0] * len(examples)
    for start in range(0, len(order), _BATCH_SIZE):
        rows = order[start : start + _BATCH_SIZE]
        batch = collate([examples[row] for row in rows], max_input_tokens, head_tokens)
        lengths = objective.lengths(network(batch.token_ids, batch.lengths))
        for row, length in zip(rows, lengths.tolist(), strict=True):
            predicted[row] = length
    return predicted


def fit_calibration(predictor: LengthPredictor, examples: Sequence[Example]) -> GroupedCalibration:
    """Returns the levels that give intervals their nominal coverage in each group of examples like these."""
    scored = [(len(e.token_ids), predictor.predict(e.token_ids).nonconformity(e.num_tokens)) for e in examples]
    return calibrate_groups(scored, GROUPS)


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """90 % intervals of prompts of similar length.

    Attributes:
        max_prompt_tokens: The longest of them; None for no limit.
        num_prompts: How many they are.
        coverage_90: Share of lengths inside.
        width_90: Median width, in tokens.
    """

    max_prompt_tokens: int | None
    num_prompts: int
    coverage_90: float
    width_90: float


def _groups(examples: Sequence[Example], intervals: Sequence[LengthInterval]) -> list[GroupFigures]:
    """Returns the figures of each group that has an example."""
    edges = (0, *GROUPS, math.inf)
    groups = []
    for above, most in itertools.pairwise(edges):
        pairs = [(e, i) for e, i in zip(examples, intervals, strict=True) if above < len(e.token_ids) <= most]
        if pairs:
            coverage = statistics.fmean(i.lower <= e.num_tokens <= i.upper for e, i in pairs)
            width = statistics.median(i.upper - i.lower + 1 for _, i in pairs)
            groups.append(GroupFigures(int(most) if most < math.inf else None, len(pairs), coverage, width))
    return groups


@dataclass(frozen=True, slots=True)
class ServedFigures:
    """A predictor as it serves.

    Attributes:
        mean: Errors of the expected length.
        bucket_end: Errors of the end of the most probable bucket, Eq. (2) of TimeBill.
        ended: Errors of the expected length of those responses that ended before the limit; None if none did.
        coverage: Share of lengths inside the interval, by nominal coverage.
        width_90: Median width of 90 % intervals, in tokens.
        groups: The same by length of the prompt.
        bound_999: Share of lengths up to the upper end of 99.8 % intervals, on which budgets for whole plans count.
        predict_ms: Median and 99th percentile of the time of one prediction, one at a time.
    """

    mean: Errors
    bucket_end: Errors
    ended: Errors | None
    coverage: dict[float, float]
    width_90: float
    groups: list[GroupFigures]
    bound_999: float
    predict_ms: tuple[float, float]


def measure_served(
    predictor: LengthPredictor,
    examples: Sequence[Example],
    now_s: Callable[[], float],
    max_tokens: int,
    nominals: Sequence[float] = (0.5, 0.8, 0.9, 0.95),
) -> ServedFigures:
    """Returns the figures of a predictor, asked for one prompt after the other.

    Args:
        predictor: As it is loaded in service.
        examples: That neither training nor calibration saw.
        now_s: Reads a clock.
        max_tokens: The limit of a response.
        nominals: Coverages to ask for.
    """
    told, took_ms = [], []
    for example in examples:
        started_s = now_s()
        told.append(predictor.predict(example.token_ids))
        took_ms.append(1e3 * (now_s() - started_s))
    true = [example.num_tokens for example in examples]
    intervals = {nominal: [distribution.interval(nominal) for distribution in told] for nominal in {*nominals, 0.9}}
    expected = [distribution.expected_tokens for distribution in told]
    ended = [(tokens, n) for tokens, n in zip(expected, true, strict=True) if n < max_tokens]
    return ServedFigures(
        mean=errors_of(expected, true),
        bucket_end=errors_of([distribution.bucket_upper_tokens for distribution in told], true),
        ended=errors_of(*zip(*ended, strict=True)) if ended else None,
        coverage={
            nominal: statistics.fmean(i.lower <= n <= i.upper for i, n in zip(intervals[nominal], true, strict=True))
            for nominal in nominals
        },
        width_90=statistics.median(i.upper - i.lower + 1 for i in intervals[0.9]),
        groups=_groups(examples, intervals[0.9]),
        bound_999=statistics.fmean(n <= d.interval(0.998).upper for d, n in zip(told, true, strict=True)),
        predict_ms=(statistics.median(took_ms), float(np.percentile(took_ms, 99))),
    )
