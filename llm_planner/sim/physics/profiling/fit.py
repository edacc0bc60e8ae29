# SPDX-License-Identifier: Apache-2.0
"""Duration models fitted to samples: trapezoid plus offset, a constant, or a table of quantiles."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from llm_planner.robots.duration import Z_P90, trap
from llm_planner.robots.effect import Grasp, Gripper, Home, MoveTool, Place, Scan, Translate, Turn
from llm_planner.robots.model import Skill, SpeedLimits
from llm_planner.robots.timing import Noise, Parameter, Polynomial, Quantiles, Source, Sweeps, Trapezoid, Travel
from llm_planner.sim.physics.profiling.collect import Sample

Vector = NDArray[np.float64]
CONSTANT_SPREAD = 0.35
"""A time without a distance is a constant with noise up to this (p90 - p10) / p50; beyond it, a table."""
UNBIASED: Literal["weibull"] = "weibull"
"""Quantiles of n samples at k / (n + 1): as many calls to come lie below as they say, however few there were."""
_POWERS = (-1, 0, 2)  # of 2: first guesses of acceleration over speed; the loss has several hollows
_LEAST_S, _LEAST_SIGMA, _MOST_SIGMA = 1e-3, 0.01, 3.0
_PROBABILITIES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

Fit = Trapezoid | Sweeps | Polynomial | Quantiles


def fit(skill: Skill, samples: Sequence[Sample], limits: SpeedLimits) -> Fit:
    """Returns the duration model of a skill, or of several that share one.

    Args:
        skill: Any of them.
        samples: At least two.
        limits: Of the robot, beyond which its model says nothing is.
    """
    fastest = limits.rotation_deg_per_s if isinstance(skill.effect, Turn) else limits.translation_m_per_s
    if isinstance(skill.effect, Scan):
        return fit_table(samples)
    if isinstance(skill.effect, Translate | Turn):
        return fit_trapezoid(samples, fastest=fastest)
    if isinstance(skill.effect, Grasp | Place | MoveTool | Home) and all(s.moving_s is not None for s in samples):
        return fit_sweeps(samples)
    seconds = np.array([sample.seconds for sample in samples])
    low, middle, high = np.quantile(seconds, (0.1, 0.5, 0.9))
    is_constant = isinstance(skill.effect, Gripper) or high - low <= CONSTANT_SPREAD * middle
    return fit_constant(seconds) if is_constant else fit_table(samples)


def fit_trapezoid(samples: Sequence[Sample], *, fastest: float) -> Trapezoid:
    """Returns ``latency + trap(length; speed, acceleration) + noise``, fitted to the relative errors.

    The loss is soft-L1, so that a call that was held up pulls less. What is left is shared by latency and noise so that
    the median and the p90 of all samples come out; where nothing ever cruised, speed is the highest that was reached.

    Args:
        samples: With lengths.
        fastest: Highest speed that makes sense.
    """
    lengths = np.array([sample.length or 0.0 for sample in samples])
    seconds = np.array([sample.seconds for sample in samples])
    longest = max(float(lengths.max()), 1e-6)

    def times(parameters: Vector) -> Vector:
        _, speed, acceleration = np.exp(parameters)
        return np.array([trap(length, speed, acceleration) for length in lengths])

    def errors(parameters: Vector) -> Vector:
        result: Vector = (math.exp(parameters[0]) + times(parameters) - seconds) / seconds
        return result

    quickest_s = max(float(seconds.min()), 0.1)
    cruise = longest / max(float(seconds.max()), 0.1)
    starts = [np.log([quickest_s * share, cruise, cruise * 2.0**power]) for share in (0.2, 0.7) for power in _POWERS]
    most = min(fastest, longest * 100.0)
    bounds = np.log([[1e-4, min(most, longest) / 100.0, longest / 100.0], [quickest_s * 2.0, most, longest * 100.0]])
    found = min(
        (
            least_squares(
                errors,
                np.clip(start, bounds[0] + 1e-6, bounds[1] - 1e-6),
                bounds=(bounds[0], bounds[1]),
                loss="soft_l1",
                f_scale=0.05,
            )
            for start in starts
        ),
        key=lambda result: float(result.cost),
    )
    _, speed, acceleration = (float(value) for value in np.exp(found.x))
    top = math.sqrt(acceleration * longest)
    latency_s, noise = split(seconds - times(found.x))
    return Trapezoid(
        latency_s=Parameter(value=_rounded(latency_s), source=Source.SIMULATED),
        speed=Parameter(value=min(_rounded(min(speed, top)), fastest), source=Source.SIMULATED),
        acceleration=Parameter(value=_rounded(acceleration), source=Source.SIMULATED),
        noise=noise,
        num_samples=len(samples),
    )


def fit_sweeps(samples: Sequence[Sample]) -> Sweeps:
    """Returns ``latency + moving + noise`` with the time for which joints move as their body's limits have it."""
    moving_s = np.array([sample.moving_s or 0.0 for sample in samples])
    latency_s, noise = split(np.array([sample.seconds for sample in samples]) - moving_s)
    return Sweeps(
        latency_s=Parameter(value=_rounded(latency_s), source=Source.SIMULATED),
        moving_s=_travel(moving_s),
        noise=noise,
        num_samples=len(samples),
    )


def fit_constant(seconds: Vector) -> Polynomial:
    """Returns a constant with noise."""
    constant_s, noise = split(seconds)
    return Polynomial(
        coefficients=(_rounded(constant_s),), source=Source.SIMULATED, noise=noise, num_samples=len(seconds)
    )


def fit_table(samples: Sequence[Sample]) -> Quantiles:
    """Returns the quantiles of the times, and the time of one step if there are steps."""
    seconds = np.array([sample.seconds for sample in samples])
    rows = np.maximum.accumulate(np.quantile(seconds, _PROBABILITIES, method=UNBIASED))
    table = tuple((p, _rounded(float(s))) for p, s in zip(_PROBABILITIES, rows, strict=True))
    steps = [(sample.num_steps, sample.seconds) for sample in samples if sample.num_steps]
    looked = [sample.seconds for sample in samples if sample.num_steps == 0]
    if not steps:
        return Quantiles(table=table, source=Source.SIMULATED, num_samples=len(samples))
    look_s = float(np.median(looked)) if looked else 0.0
    step_s = float(np.median([(taken_s - look_s) / count for count, taken_s in steps]))
    return Quantiles(
        table=table,
        source=Source.SIMULATED,
        step_s=Parameter(value=_rounded(step_s), source=Source.SIMULATED),
        num_samples=len(samples),
    )


def split(residuals_s: Vector) -> tuple[float, Noise]:
    """Returns a fixed time and log-normal noise with the median and the p90 of the residuals of a model."""
    low, middle = (float(value) for value in np.quantile(residuals_s, (0.0, 0.5)))
    high = float(np.quantile(residuals_s, 0.9, method=UNBIASED))
    middle, high = max(middle, 2.0 * _LEAST_S), max(high, middle, 2.0 * _LEAST_S)
    fixed_s = max(0.0, min(low, middle - max(high - middle, _LEAST_S)))
    median_s = middle - fixed_s
    sigma = math.log((high - fixed_s) / median_s) / Z_P90
    sigma = min(_MOST_SIGMA, max(_LEAST_SIGMA, sigma))
    return fixed_s, Noise(median_s=_rounded(median_s), sigma=_rounded(sigma), source=Source.SIMULATED)


def _travel(lengths: Vector) -> Travel:
    low, middle, high = (float(v) for v in np.quantile(lengths, (0.0, 0.5, 0.9), method=UNBIASED))
    minimum, middle, high = map(_rounded, (low, middle, high))
    return Travel(minimum=minimum, p50=middle, p90=high, source=Source.SIMULATED)


def _rounded(value: float) -> float:
    """Returns a number as it is written: four digits, no more than was measured."""
    return float(f"{value:.4g}")
