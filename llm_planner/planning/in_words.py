# SPDX-License-Identifier: Apache-2.0
"""A plan for people: what the robot would do, in the words of its model."""

from llm_planner.core.text import counted
from llm_planner.language.parser import parse
from llm_planner.language.printer import expression_text
from llm_planner.language.syntax import (
    And,
    Assign,
    Boolean,
    Call,
    Comparison,
    Condition,
    Expression,
    Fail,
    If,
    Loop,
    Name,
    Number,
    Or,
    Return,
    Statement,
    Text,
    Unclear,
    Variable,
)
from llm_planner.robots.effect import Perceive, Scan
from llm_planner.robots.model import RobotModel

_OPERATORS = {">": "is more than", "<": "is less than", "==": "is", "!=": "is not"}


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
            return f"{_call(model, statement.call)} as {_value(model, statement.variable)}"
        case Loop():
            return f"{counted(statement.count, 'time')}: [{_sequence(model, statement.body)}]"
        case If():
            return f"if {_condition(model, statement.condition)}: [{_sequence(model, statement.body)}]"
        case Return():
            return f"answer: {_value(model, statement.value)}"
        case Fail():
            return f"give up: {statement.reason}"
        case Unclear():
            return f"ask back: {statement.what}"


def _condition(model: RobotModel, condition: Condition) -> str:
    match condition:
        case Or():
            return " or ".join(_condition(model, operand) for operand in condition.operands)
        case And():
            return " and ".join(_condition(model, operand) for operand in condition.operands)
        case Comparison(left, "==" | "!=" as operator, Boolean(wanted)):
            return _truth(model, left, wanted == (operator == "=="))
        case Comparison(left, operator, right):
            return f"{_value(model, left)} {_OPERATORS[operator]} {_value(model, right)}"
        case _:
            return _truth(model, condition, True)


def _truth(model: RobotModel, value: Expression, wanted: bool) -> str:
    """Returns what it means that a value is true, or not."""
    skill = model.skill(value.name) if isinstance(value, Call) else None
    not_ = "" if wanted else "not "
    match skill.effect if skill is not None else None:
        case Perceive(quantity="visible") if isinstance(value, Call):
            return f"{_value(model, value.arguments[0])} is {not_}in view"
        case Scan() if isinstance(value, Call):
            return f"{_value(model, value.arguments[0])} is {not_}found"
        case _:
            return f"{_value(model, value)} is {not_}true"


def _value(model: RobotModel, value: Expression) -> str:
    return _call(model, value) if isinstance(value, Call) else _argument(value, "")


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
        case Variable():
            return f"result {value.index}"
        case _:
            return expression_text(value)
