"""How good are duration models: predicted against measured, on calls that were not profiled."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from llm_planner.physics.profiling.collect import Sample
from llm_planner.robots.duration import Z_P90, polynomial_s, quantile_s, trap
from llm_planner.robots.effect import Scan, Translate, Turn
from llm_planner.robots.model import RobotModel, Skill
from llm_planner.robots.timing import DurationModel, Noise, Polynomial, Quantiles, Trapezoid, TurnThenMove


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


def predicted(duration: DurationModel, length: float | None) -> Prediction:
    """Returns what a duration model says of a call, of a way whose length is known."""
    match duration:
        case Trapezoid(latency_s=latency_s, speed=speed, acceleration=acceleration, noise=noise):
            return _noisy(latency_s.value + trap(length or 0.0, speed.value, acceleration.value), noise)
        case TurnThenMove(turn=turn, move=move):
            one, two = predicted(turn, 0.0), predicted(move, length)
            return Prediction(one.p50_s + two.p50_s, one.p90_s + two.p90_s)
        case Polynomial(noise=noise):
            return _noisy(polynomial_s(duration, 0.0), noise)
        case Quantiles():
            return Prediction(quantile_s(duration, 0.5), quantile_s(duration, 0.9))


def accuracy(duration: DurationModel, samples: Sequence[Sample]) -> Accuracy:
    """Returns how well a duration model predicts samples."""
    pairs = [(predicted(duration, sample.length), sample.seconds) for sample in samples]
    return Accuracy(
        num_samples=len(samples),
        median_error=statistics.median(abs(p.p50_s - seconds) / seconds for p, seconds in pairs),
        coverage=statistics.fmean(seconds <= p.p90_s for p, seconds in pairs),
    )


def groups(model: RobotModel, samples: Iterable[Sample]) -> list[list[Skill]]:
    """Returns the skills that were sampled; those that share a duration model, and do the same, together.

    Flights in all directions are the same, turns either way, and searches whatever they look for.
    """
    sampled = {sample.skill for sample in samples}
    together: dict[str, list[Skill]] = {}
    for skill in model.skills.values():
        if skill.name in sampled:
            is_any_way = isinstance(skill.effect, Translate | Turn | Scan)
            does = type(skill.effect).__name__ if is_any_way else repr(skill.effect)
            together.setdefault(f"{does} {skill.duration}", []).append(skill)
    return list(together.values())


def of(skills: Iterable[Skill], samples: Iterable[Sample]) -> list[Sample]:
    """Returns the samples of some skills."""
    names = {skill.name for skill in skills}
    return [sample for sample in samples if sample.skill in names]


def _noisy(fixed_s: float, noise: Noise | None) -> Prediction:
    median_s, sigma = (noise.median_s, noise.sigma) if noise else (0.0, 0.0)
    return Prediction(fixed_s + median_s, fixed_s + median_s * math.exp(Z_P90 * sigma))
