# SPDX-License-Identifier: Apache-2.0
"""A plan for people: what the robot would do, in the words of its model."""

from llm_planner.core.text import counted
from llm_planner.language.parser import parse
from llm_planner.language.printer import condition_text, expression_text
from llm_planner.language.syntax import (
    Assign,
    Call,
    Expression,
    Fail,
    If,
    Loop,
    Name,
    Number,
    Return,
    Statement,
    Text,
    Unclear,
)
from llm_planner.robots.model import RobotModel


def in_words(model: RobotModel, plan: str) -> str:
    """Returns what a plan means: ``fly forward (200 cm), then take a picture``.

    Args:
        model: Of the robot.
        plan: In MiniSpec.

    Raises:
        PlannerError: PLAN_SYNTAX if it is none.
    """
    return _sequence(model, parse(plan))


def _sequence(model: RobotModel, statements: tuple[Statement, ...]) -> str:
    return ", then ".join(_statement(model, statement) for statement in statements)


def _statement(model: RobotModel, statement: Statement) -> str:  # noqa: PLR0911 (one per kind)
    match statement:
        case Call():
            return _call(model, statement)
        case Assign():
            return _call(model, statement.call)
        case Loop():
            return f"{counted(statement.count, 'time')}: [{_sequence(model, statement.body)}]"
        case If():
            return f"if {condition_text(statement.condition)}: [{_sequence(model, statement.body)}]"
        case Return():
            value = statement.value
            return f"answer: {_call(model, value) if isinstance(value, Call) else expression_text(value)}"
        case Fail():
            return f"give up: {statement.reason}"
        case Unclear():
            return f"ask back: {statement.what}"


def _call(model: RobotModel, call: Call) -> str:
    skill = model.skill(call.name)
    if skill is None:
        return expression_text(call)
    units = [argument.unit for argument in skill.arguments]
    said = ", ".join(_argument(value, unit) for value, unit in zip(call.arguments, units, strict=False))
    return f"{skill.description} ({said})" if said else skill.description


def _argument(value: Expression, unit: str) -> str:
    match value:
        case Name():
            return value.name.replace("_", " ")
        case Text():
            return f'"{value.text}"'
        case Number():
            return f"{value.value:g} {unit}".rstrip()
        case _:
            return expression_text(value)
