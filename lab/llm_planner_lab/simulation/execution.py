# SPDX-License-Identifier: Apache-2.0
"""How long simulated robots really take: one sample of a robot model's duration models per statement."""

import random

from llm_planner.core.segment import ExpectedDuration
from llm_planner.language.syntax import (
    And,
    Assign,
    Call,
    Comparison,
    Condition,
    Expression,
    Fail,
    If,
    Loop,
    Number,
    Or,
    Return,
    Statement,
    Unclear,
)
from llm_planner.robots.duration import sample_s, skill_duration
from llm_planner.robots.model import RobotModel, Skill
from llm_planner.robots.timing import Polynomial, Quantiles

BODY_SHARE = 0.5  # of conditionals whose body is carried out
TAIL_SHARE = 0.25  # how much longer than p90 the longest is, in units of p90 - p50


def sample_duration_s(model: RobotModel, statement: Statement, rng: random.Random) -> float:
    """Returns for how long one robot executes one statement, once."""
    match statement:
        case Call():
            return _value(model, statement, rng)
        case Assign(call=call):
            return _value(model, call, rng)
        case Return(value=value):
            return _value(model, value, rng)
        case Loop(count=count, body=body):
            return sum(sample_duration_s(model, inner, rng) for _ in range(count) for inner in body)
        case If(condition=condition, body=body):
            test_s = _condition(model, condition, rng)
            is_taken = rng.uniform(0.0, 1.0) < BODY_SHARE
            body_s = sum(sample_duration_s(model, inner, rng) for inner in body)  # drawn also if it is not taken
            return test_s + (body_s if is_taken else 0.0)
        case Fail() | Unclear():
            return 0.0


def _condition(model: RobotModel, condition: Condition, rng: random.Random) -> float:
    match condition:
        case Or(operands=operands) | And(operands=operands):
            return sum(_condition(model, operand, rng) for operand in operands)
        case Comparison(left=left, right=right):
            return _value(model, left, rng) + _value(model, right, rng)
        case _:
            return _value(model, condition, rng)


def _value(model: RobotModel, value: Expression, rng: random.Random) -> float:
    if not isinstance(value, Call):
        return 0.0
    nested_s = sum(_value(model, argument, rng) for argument in value.arguments)
    skill = model.skill(value.name)
    if skill is None:
        return nested_s
    numbers = [argument.value for argument in value.arguments if isinstance(argument, Number)]
    return nested_s + _sample_skill_s(skill, numbers[0] if numbers else None, rng)


def _sample_skill_s(skill: Skill, number: float | None, rng: random.Random) -> float:
    if isinstance(skill.duration, Polynomial | Quantiles):
        return sample_s(skill, number, rng)
    return _between(skill_duration(skill, number), rng.uniform(0.0, 1.0))


def _between(expected: ExpectedDuration, probability: float) -> float:
    """Returns the quantile of a distribution of which three points are known, linear in between and behind."""
    longest_s = expected.p90_s + TAIL_SHARE * (expected.p90_s - expected.p50_s)
    points = ((0.0, expected.min_s), (0.5, expected.p50_s), (0.9, expected.p90_s), (1.0, longest_s))
    right = next(i for i in range(1, len(points)) if probability <= points[i][0])
    (low_p, low_s), (high_p, high_s) = points[right - 1], points[right]
    return low_s + (high_s - low_s) * (probability - low_p) / (high_p - low_p)
