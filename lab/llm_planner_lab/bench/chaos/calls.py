# SPDX-License-Identifier: Apache-2.0
"""The skill calls that a text of the plan language stands for, by other code than the interpreter's."""

from collections.abc import Iterator, Sequence

from llm_planner.core.skill import SkillCall
from llm_planner.language.errors import PlanSyntaxError
from llm_planner.language.parser import parse
from llm_planner.language.syntax import Boolean, Call, Expression, Loop, Name, Number, Statement, Text
from llm_planner.robots.model import RobotModel

Words = tuple[object, ...]
"""A call as a value: its name, then its arguments."""


class NotFlatError(Exception):
    """Which calls a text makes depends on what the robot sees."""


def words(call: SkillCall) -> Words:
    """Returns a call as a value that can be compared and written as JSON."""
    return (
        call.name,
        *(float(a) if isinstance(a, int | float) and not isinstance(a, bool) else a for a in call.arguments),
    )


def flat_calls(text: str, model: RobotModel) -> tuple[Words, ...]:
    """Returns the calls of a text in the order in which a robot makes them.

    Raises:
        NotFlatError: If they depend on the robot, or the text is no plan.
    """
    try:
        statements = parse(text)
    except PlanSyntaxError as error:
        raise NotFlatError(str(error)) from error
    return tuple(_expand(statements, model))


def _expand(statements: Sequence[Statement], model: RobotModel) -> Iterator[Words]:
    for statement in statements:
        match statement:
            case Call(name, arguments):
                skill = model.skill(name)
                if skill is None:
                    raise NotFlatError(f"no skill {name}")
                yield (skill.name, *map(_value, arguments))
            case Loop(count, body):
                for _ in range(count):
                    yield from _expand(body, model)
            case _:
                raise NotFlatError(type(statement).__name__)


def _value(argument: Expression) -> object:
    match argument:
        case Number(value):
            return float(value)
        case Text(text):
            return text
        case Name(name):
            return name
        case Boolean(value):
            return value
        case _:
            raise NotFlatError(type(argument).__name__)
