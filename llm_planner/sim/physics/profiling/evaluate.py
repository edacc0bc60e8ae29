# SPDX-License-Identifier: Apache-2.0
"""How good are duration models: predicted against measured, on calls that were not profiled."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from llm_planner.robots.duration import Z_P90, polynomial_s, quantile_s, skill_duration, trap
from llm_planner.robots.effect import Translate
from llm_planner.robots.model import Skill
from llm_planner.robots.timing import DurationModel, Noise, Polynomial, Quantiles, Sweeps, Trapezoid, TurnThenMove
from llm_planner.sim.physics.profiling.collect import Sample


class Prediction(NamedTuple):
    """Median and 90 % quantile of a time in seconds."""

    p50_s: float
    p90_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Of the predictions for several calls.

    Attributes:
        median_error: Of ``|p50 - measured| / measured``.
        coverage: Share of the calls that took no longer than their p90; 0.9 is right.
    """

    num_samples: int
    median_error: float
    coverage: float


def predicted(duration: DurationModel, sample: Sample) -> Prediction:
    """Returns what a duration model says of a call whose way is known: by its argument, or by where things are."""
    length = sample.length or 0.0
    match duration:
        case Trapezoid(noise=noise):
            return _noisy(_way_s(duration, length), noise)
        case TurnThenMove(turn=turn, move=move):
            one, two = _noisy(_way_s(turn, 0.0), turn.noise), _noisy(_way_s(move, length), move.noise)
            return Prediction(one.p50_s + two.p50_s, one.p90_s + two.p90_s)
        case Sweeps(latency_s=latency_s, noise=noise):
            return _noisy(latency_s.value + (sample.moving_s or 0.0), noise)
        case Polynomial(noise=noise):
            return _noisy(polynomial_s(duration, 0.0), noise)
        case Quantiles():
            return Prediction(quantile_s(duration, 0.5), quantile_s(duration, 0.9))


def predicted_by_argument(skill: Skill, sample: Sample) -> Prediction:
    """Returns what the scheduler counts with before a call: it knows arguments, but not where things are."""
    unit = skill.effect.unit_m if isinstance(skill.effect, Translate) else 1.0
    number = None if skill.number is None or sample.length is None else sample.length / unit
    expected = skill_duration(skill, number)
    return Prediction(expected.p50_s, expected.p90_s)


def accuracy(predictions: Iterable[Prediction], samples: Sequence[Sample]) -> Accuracy:
    """Returns how good predictions for calls were."""
    pairs = [(p, sample.seconds) for p, sample in zip(predictions, samples, strict=True)]
    return Accuracy(
        num_samples=len(samples),
        median_error=statistics.median(abs(p.p50_s - seconds) / seconds for p, seconds in pairs),
        coverage=statistics.fmean(seconds <= p.p90_s for p, seconds in pairs),
    )


def of(skills: Iterable[Skill], samples: Iterable[Sample]) -> list[Sample]:
    """Returns the samples of some skills."""
    names = {skill.name for skill in skills}
    return [sample for sample in samples if sample.skill in names]


def _way_s(trapezoid: Trapezoid, length: float) -> float:
    return trapezoid.latency_s.value + trap(length, trapezoid.speed.value, trapezoid.acceleration.value)


def _noisy(fixed_s: float, noise: Noise | None) -> Prediction:
    median_s, sigma = (noise.median_s, noise.sigma) if noise else (0.0, 0.0)
    return Prediction(fixed_s + median_s, fixed_s + median_s * math.exp(Z_P90 * sigma))
