# SPDX-License-Identifier: Apache-2.0
"""Coefficients of an engine profile from measured steps, and how far such a fit is off on lengths it never saw."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from llm_planner.prediction.profile import NO_MOVE_COST, DecodeCost, MoveCost, PrefillCost
from llm_planner.prediction.samples import StepKind, StepSample
from llm_planner.robots.timing import Parameter, Source

HELD_UP = 1.1
"""A prompt that takes this much longer than a decode step is held up by its tokens, not by reading the weights."""


class Costs(NamedTuple):
    """What steps of one engine take."""

    prefill: PrefillCost
    decode: DecodeCost

    def step_s(self, sample: StepSample) -> float:
        """Returns the seconds that a step like ``sample``, a prompt or a decode step, is expected to take."""
        extra_s = self.decode.per_sequence_s.value * (sample.num_seqs - 1)
        floor_s = self.decode.base_s.value + extra_s + self.decode.per_kv_token_s.value * sample.kv_tokens
        if sample.kind is not StepKind.PREFILL:
            return floor_s
        cost, end = self.prefill, sample.kv_tokens + sample.num_tokens
        prompt_s = cost.a_s_per_token2.value * (end**2 - sample.kv_tokens**2) + cost.c_s.value
        prompt_s += cost.b_s_per_token.value * sample.num_tokens
        return max(floor_s, prompt_s + self.decode.per_kv_token_s.value * sample.kv_tokens)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Mean absolute percentage errors, as fractions, over single samples of points that the fit never saw.

    Attributes:
        mape: Of the fit.
        noise_floor: Of the median of the repeats themselves: no function of the lengths does better.
    """

    mape: float
    noise_floor: float


def fit_costs(samples: Iterable[StepSample]) -> Costs:
    """Returns the costs of prompts and decode steps by least squares on the medians of the points.

    Eq. (4) of TimeBill, section 4.2: ``a N^2 + b N + c`` and ``p N_kv + q``. Deviation: a decode step also depends on
    the number of sequences, ``N_kv`` counts the caches of all of them, and a prompt may stand behind cached tokens,
    of which only the rest is computed. Prompts that end while the weights are still being read say nothing about
    their coefficients and are left out.
    """
    medians = _medians(samples)
    decodes = [m for m in medians if m.kind is StepKind.DECODE]
    base_s, per_sequence_s, per_kv_s = nonnegative_fit(
        [(1.0, m.num_seqs - 1.0, float(m.kv_tokens)) for m in decodes], [m.duration_s for m in decodes]
    )
    prompts = [m for m in medians if m.kind is StepKind.PREFILL]
    held_up = [m for m in prompts if m.duration_s > HELD_UP * (base_s + per_kv_s * m.kv_tokens)]
    if len({m.num_tokens for m in held_up}) >= 3:
        prompts = held_up
    rows = [
        (1.0, float(m.num_tokens), float((m.kv_tokens + m.num_tokens) ** 2 - m.kv_tokens**2))  # c, b, a
        for m in prompts
    ]
    c_s, b_s, a_s = nonnegative_fit(rows, [m.duration_s - per_kv_s * m.kv_tokens for m in prompts])
    return Costs(
        PrefillCost(a_s_per_token2=measured(a_s), b_s_per_token=measured(b_s), c_s=measured(c_s)),
        DecodeCost(base_s=measured(base_s), per_sequence_s=measured(per_sequence_s), per_kv_token_s=measured(per_kv_s)),
    )


def noise_ratio(costs: Costs, samples: Iterable[StepSample]) -> float:
    """Returns how many times longer than expected 5 % of the prompts and decode steps take, at least; >= 1."""
    ratios = [s.duration_s / costs.step_s(s) for s in samples if s.kind in (StepKind.PREFILL, StepKind.DECODE)]
    return max(1.0, float(np.quantile(ratios, 0.95)))


def fit_first_steps(costs: Costs, samples: Iterable[StepSample]) -> tuple[Parameter, ...]:
    """Returns how many times longer than a later one the first, second, ... decode step behind a prompt takes."""
    ratios: dict[int, list[float]] = defaultdict(list)
    for sample in samples:
        if sample.kind is StepKind.FIRST_DECODE:
            ratios[sample.point].append(sample.duration_s / costs.step_s(sample))
    return tuple(measured(statistics.median(ratios[place])) for place in sorted(ratios))


def fit_move(samples: Iterable[StepSample]) -> MoveCost:
    """Returns the cost per token in the cache, by least squares on the medians of the points; unknown without any."""
    medians = _medians(samples)
    if not medians:
        return NO_MOVE_COST
    constant_s, per_token_s = nonnegative_fit(
        [(1.0, float(m.kv_tokens)) for m in medians], [m.duration_s for m in medians]
    )
    return MoveCost(constant_s=measured(constant_s), per_token_s=measured(per_token_s))


def held_out_accuracy(
    samples: Sequence[StepSample], fit: Callable[[Iterable[StepSample]], Costs] = fit_costs
) -> Mapping[StepKind, Accuracy]:
    """Returns, for prompts and decode steps, the errors on held-out points.

    Every second point of a kind, in the order of its work, is held out; the longest never is, so that the fit
    interpolates as it does in service.

    Raises:
        ValueError: If there are fewer than five points of a kind.
    """
    held_out = {kind: _every_second_point(samples, kind) for kind in (StepKind.PREFILL, StepKind.DECODE)}
    seen = [s for s in samples if s.kind in held_out and s.point not in held_out[s.kind]]
    costs = fit(seen)
    return {
        kind: _accuracy([s for s in samples if s.kind is kind and s.point in points], costs)
        for kind, points in held_out.items()
    }


def averaged(samples: Iterable[StepSample], num_steps: int) -> list[StepSample]:
    """Returns one sample for every ``num_steps`` successive ones of a point: their mean duration and cache length.

    A response is a sum of steps, and what is estimated for it is such a sum: single steps that are slowed down or sped
    up by the machine cancel out in it. Steps of a point that do not fill a last group are left out.
    """
    means = []
    for _, same in groupby(sorted(samples, key=_point), key=_point):
        steps = list(same)
        for start in range(0, len(steps) - num_steps + 1, num_steps):
            group = steps[start : start + num_steps]
            num_seqs, kv_tokens, duration_s = (
                statistics.fmean(numbers)
                for numbers in zip(*((s.num_seqs, s.kv_tokens, s.duration_s) for s in group), strict=True)
            )
            means.append(replace(group[0], num_seqs=num_seqs, kv_tokens=kv_tokens, duration_s=duration_s))
    return means


def _every_second_point(samples: Iterable[StepSample], kind: StepKind) -> set[int]:
    medians = sorted(
        (m for m in _medians(samples) if m.kind is kind), key=lambda m: (m.num_seqs, m.num_tokens + m.kv_tokens)
    )
    points = list(dict.fromkeys(m.point for m in medians))
    if len(points) < 5:
        raise ValueError(f"{len(points)} points of {kind.value} are too few to hold some out; measure 5 or more")
    return set(points[1:-1:2])


def _accuracy(samples: Sequence[StepSample], costs: Costs) -> Accuracy:
    medians = {_repeated(m): m.duration_s for m in _medians(samples)}
    repeats = Counter(map(_repeated, samples))
    errors = [abs(costs.step_s(s) / s.duration_s - 1.0) for s in samples]
    noise = [abs(medians[_repeated(s)] / s.duration_s - 1.0) for s in samples if repeats[_repeated(s)] > 1]
    return Accuracy(statistics.fmean(errors), statistics.fmean(noise or [0.0]))


def _medians(samples: Iterable[StepSample]) -> list[StepSample]:
    """Returns one sample for all that repeat each other: their median duration, at the mean of their cache lengths."""
    medians: list[StepSample] = []
    for _, group in groupby(sorted(samples, key=_repeated), key=_repeated):
        same = list(group)
        duration_s = statistics.median(s.duration_s for s in same)
        kv_tokens = statistics.fmean(s.kv_tokens for s in same)
        medians.append(replace(same[0], kv_tokens=kv_tokens, duration_s=duration_s))
    return medians


def _point(sample: StepSample) -> tuple[str, int]:
    return sample.kind.value, sample.point


def _repeated(sample: StepSample) -> tuple[str, int, float]:
    """Returns what repeats have in common: steps of a point compute further tokens where its grammar forces some."""
    return *_point(sample), sample.num_seqs


def nonnegative_fit(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Returns least-squares coefficients >= 0, every point weighing by its relative error.

    A column whose coefficient comes out negative is noise: it is taken out and the rest fitted again. One that too few
    points tell from those before it gets 0.
    """
    matrix, target = np.array(rows), np.array(values)
    columns: list[int] = []
    for column in range(matrix.shape[1]):
        if np.linalg.matrix_rank(matrix[:, [*columns, column]]) > len(columns):
            columns.append(column)
    matrix, target = matrix / target[:, None], np.ones_like(target)
    while True:
        solution = np.linalg.lstsq(matrix[:, columns], target, rcond=None)[0]
        negative = [column for column, value in zip(columns, solution, strict=True) if value < 0]
        if not negative:
            break
        columns.remove(negative[-1])
    coefficients = [0.0] * matrix.shape[1]
    for column, value in zip(columns, solution, strict=True):
        coefficients[column] = float(value)
    return coefficients


def measured(value: float) -> Parameter:
    """Returns a number of a profile that was measured."""
    return Parameter(value=float(f"{value:.4g}"), source=Source.MEASURED)
