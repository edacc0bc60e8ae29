# SPDX-License-Identifier: Apache-2.0
"""How long skills and statements take: expectations for the scheduler, samples for the kinematic driver."""

import bisect
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from llm_planner.core.segment import ZERO_DURATION, ExpectedDuration
from llm_planner.core.skill import SkillCall
from llm_planner.language.syntax import (
    And,
    Assign,
    Call,
    Closing,
    Comparison,
    Condition,
    Expression,
    Fail,
    If,
    Loop,
    Number,
    Opening,
    Or,
    Part,
    Return,
    Unclear,
)
from llm_planner.robots.effect import Replan, TakeOff, Translate
from llm_planner.robots.model import RobotModel, Skill
from llm_planner.robots.timing import NUM_SAMPLES, Noise, Polynomial, Quantiles, Sweeps, Trapezoid, Travel, TurnThenMove

Z_P90 = 1.2815515655446004  # 90 % quantile of the standard normal distribution


def trap(distance: float, speed: float, acceleration: float) -> float:
    """Returns the seconds of a motion from rest to rest: accelerate, cruise if there is room, brake."""
    if distance >= speed**2 / acceleration:
        return distance / speed + speed / acceleration
    return 2.0 * math.sqrt(distance / acceleration)


def expected_duration(model: RobotModel, statement: Part | SkillCall | Sequence[Part]) -> ExpectedDuration:
    """Returns how long a robot will take for a part of a plan, a plan or a flat call.

    Loops count every round. A conditional's minimum is without its body, its p90 with it, and its p50 with half of it.
    If it comes in parts, each counts as if it is run: that it may not be is known to ``ExecutionTracker``.
    A plan may end early at a return, which only its minimum reflects. A number that is only known on the robot is
    bounded by the limits of the argument. Skills that the model does not have take no time: the gate refuses them.
    """
    if isinstance(statement, SkillCall):
        numbers = [v for v in statement.arguments if isinstance(v, float | int) and not isinstance(v, bool)]
        skill = model.skill(statement.name)
        return skill_duration(skill, numbers[0] if numbers else None) if skill else ZERO_DURATION
    statements = statement if isinstance(statement, Sequence) else (statement,)
    estimate = _block(model, statements)
    shortest_s = min(estimate.duration.min_s, estimate.earliest_end_s)
    return ExpectedDuration(min_s=shortest_s, p50_s=estimate.duration.p50_s, p90_s=estimate.duration.p90_s)


def skill_duration(skill: Skill, number: float | None) -> ExpectedDuration:
    """Returns how long one call takes, with its number argument if that is known already."""
    if isinstance(skill.effect, TakeOff):  # takes no time in the air
        return replace(_duration(skill, number), min_s=0.0)
    return _duration(skill, number)


def _duration(skill: Skill, number: float | None) -> ExpectedDuration:
    low, middle, high = _range(skill, number)
    match skill.duration:
        case Trapezoid() as trapezoid:
            return _trapezoid(skill, trapezoid, low, middle, high)
        case TurnThenMove(turn=turn, move=move):
            return _trapezoid(skill, turn, low, middle, high) + _trapezoid(skill, move, low, middle, high)
        case Sweeps(latency_s=latency_s, moving_s=moving_s, noise=noise):
            min_s, p50_s, p90_s = (latency_s.value + s for s in (moving_s.minimum, moving_s.p50, moving_s.p90))
            return _with_noise(min_s, p50_s, p90_s, noise)
        case Polynomial() as polynomial:
            step = (high - low) / (NUM_SAMPLES - 1)
            values = [polynomial_s(polynomial, low + i * step) for i in range(NUM_SAMPLES if step else 1)]
            return _with_noise(min(values), polynomial_s(polynomial, middle), max(values), polynomial.noise)
        case Quantiles() as quantiles:
            p = (quantile_s(quantiles, 0.0), quantile_s(quantiles, 0.5), quantile_s(quantiles, 0.9))
            return ExpectedDuration(min_s=p[0], p50_s=p[1], p90_s=p[2])


def polynomial_s(polynomial: Polynomial, number: float) -> float:
    """Returns the polynomial at ``number``, never negative, without its noise."""
    return max(0.0, polynomial.at(number))


def quantile_s(quantiles: Quantiles, probability: float) -> float:
    """Returns the seconds at a probability in [0, 1], linear between the rows of the table."""
    table = quantiles.table
    right = min(max(1, bisect.bisect_left([p for p, _ in table], probability)), len(table) - 1)
    (p0, s0), (p1, s1) = table[right - 1], table[right]
    return s0 + (s1 - s0) * (probability - p0) / (p1 - p0)


def noise_s(noise: Noise | None, rng: random.Random) -> float:
    """Returns one sample of the extra time."""
    return rng.lognormvariate(math.log(noise.median_s), noise.sigma) if noise else 0.0


def sample_s(skill: Skill, number: float | None, rng: random.Random) -> float:
    """Returns one sample of the time of a skill whose model knows no distance (polynomial, quantiles or sweeps)."""
    match skill.duration:
        case Quantiles() as quantiles:
            return quantile_s(quantiles, rng.random())
        case Polynomial() as polynomial:
            return polynomial_s(polynomial, number or 0.0) + noise_s(polynomial.noise, rng)
        case Sweeps(latency_s=latency_s, moving_s=moving_s, noise=noise):
            return latency_s.value + _between(moving_s, rng.random()) + noise_s(noise, rng)
        case _:
            return skill_duration(skill, number).p50_s


def _between(travel: Travel, probability: float) -> float:
    """Returns a quantile, linear between those that are known; beyond p90 it goes on as it came there."""
    if probability < 0.5:
        return travel.minimum + (travel.p50 - travel.minimum) * probability / 0.5
    return travel.p50 + (travel.p90 - travel.p50) * (probability - 0.5) / 0.4


@dataclass(frozen=True, slots=True)
class _Estimate:
    """Of a block: its duration when it runs through, and when it may end the whole plan at the earliest."""

    duration: ExpectedDuration = ZERO_DURATION
    earliest_end_s: float = math.inf
    ends_plan: bool = False


def _block(model: RobotModel, statements: Sequence[Part]) -> _Estimate:
    total, earliest_end_s = ZERO_DURATION, math.inf
    for statement in statements:
        part = _statement(model, statement)
        earliest_end_s = min(earliest_end_s, total.min_s + part.earliest_end_s)
        total += part.duration
        if part.ends_plan:
            return _Estimate(total, earliest_end_s, ends_plan=True)
    return _Estimate(total, earliest_end_s)


def _statement(model: RobotModel, statement: Part) -> _Estimate:  # noqa: PLR0911 (one case per node)
    match statement:
        case Opening(condition=condition):
            return _Estimate(_condition(model, condition))
        case Closing():
            return _Estimate()
        case Call() | Assign():
            call = statement.call if isinstance(statement, Assign) else statement
            duration = _value(model, call)
            skill = model.skill(call.name)
            is_end = skill is not None and isinstance(skill.effect, Replan)
            return _Estimate(duration, duration.min_s if is_end else math.inf, is_end)
        case Return(value=value):
            duration = _value(model, value)
            return _Estimate(duration, duration.min_s, ends_plan=True)
        case Fail() | Unclear():
            return _Estimate(earliest_end_s=0.0, ends_plan=True)
        case If(condition=condition, body=body):
            test, inner = _condition(model, condition), _block(model, body)
            then = inner.duration
            duration = test + ExpectedDuration(min_s=0.0, p50_s=then.p50_s / 2, p90_s=then.p90_s)
            return _Estimate(duration, test.min_s + inner.earliest_end_s)
        case Loop(count=count, body=body):
            inner = _block(model, body)
            rounds = 1 if inner.ends_plan else count
            return _Estimate(_scaled(inner.duration, rounds), inner.earliest_end_s, inner.ends_plan)


def _condition(model: RobotModel, condition: Condition) -> ExpectedDuration:
    match condition:
        case Or(operands=operands) | And(operands=operands):  # the first one may decide
            parts = [_condition(model, operand) for operand in operands]
            total = sum(parts, ZERO_DURATION)
            return ExpectedDuration(min_s=parts[0].min_s, p50_s=total.p50_s, p90_s=total.p90_s)
        case Comparison(left=left, right=right):
            return _value(model, left) + _value(model, right)
        case _:
            return _value(model, condition)


def _value(model: RobotModel, value: Expression) -> ExpectedDuration:
    if not isinstance(value, Call):
        return ZERO_DURATION
    nested = sum((_value(model, argument) for argument in value.arguments), ZERO_DURATION)
    skill = model.skill(value.name)
    if skill is None:
        return nested
    numbers = [argument.value for argument in value.arguments if isinstance(argument, Number)]
    return nested + skill_duration(skill, numbers[0] if numbers else None)


def _range(skill: Skill, number: float | None) -> tuple[float, float, float]:
    if number is not None:
        return number, number, number
    argument = skill.number
    if argument is None or argument.minimum is None or argument.maximum is None:
        return 0.0, 0.0, 0.0
    return argument.minimum, (argument.minimum + argument.maximum) / 2, argument.maximum


def _trapezoid(skill: Skill, trapezoid: Trapezoid, low: float, middle: float, high: float) -> ExpectedDuration:
    scale = skill.effect.unit_m if isinstance(skill.effect, Translate) else 1.0
    distances = [abs(n) * scale for n in (low, middle, high)]
    if trapezoid.travel is not None:
        distances = [trapezoid.travel.minimum, trapezoid.travel.p50, trapezoid.travel.p90]
    fixed_s, speed, acceleration = trapezoid.latency_s.value, trapezoid.speed.value, trapezoid.acceleration.value
    min_s, p50_s, p90_s = (fixed_s + trap(distance, speed, acceleration) for distance in distances)
    return _with_noise(min_s, p50_s, p90_s, trapezoid.noise)


def _with_noise(min_s: float, p50_s: float, p90_s: float, noise: Noise | None) -> ExpectedDuration:
    median_s = noise.median_s if noise else 0.0
    sigma = noise.sigma if noise else 0.0
    return ExpectedDuration(min_s=min_s, p50_s=p50_s + median_s, p90_s=p90_s + median_s * math.exp(Z_P90 * sigma))


def _scaled(duration: ExpectedDuration, factor: int) -> ExpectedDuration:
    return ExpectedDuration(min_s=duration.min_s * factor, p50_s=duration.p50_s * factor, p90_s=duration.p90_s * factor)
