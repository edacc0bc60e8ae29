# SPDX-License-Identifier: Apache-2.0
"""Types in plans: is every skill known, does every argument and every comparison fit?"""

import math
from collections.abc import Iterator, Mapping

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.skill import ArgumentType, Late, SkillCall, Value
from llm_planner.language.printer import expression_text
from llm_planner.language.syntax import (
    And,
    Boolean,
    Call,
    Comparison,
    Condition,
    Expression,
    Name,
    Number,
    Or,
    Text,
    Variable,
)
from llm_planner.robots.model import Argument, ReturnType, RobotModel, Skill

Variables = Mapping[int, ReturnType]  # those that surely have a value

_WHITESPACE = {ord("\n"): " ", ord("\t"): " "}


class TypeChecker:
    """Refuses calls and conditions whose types do not fit; knows nothing of positions."""

    def __init__(self, model: RobotModel, max_call_depth: int, allowed: frozenset[str] | None = None) -> None:
        self._model = model
        self._allowed = allowed
        self._max_call_depth = max_call_depth

    def skill(self, name: str) -> Skill:
        """Returns the skill of a name or alias.

        Raises:
            PlannerError: UNKNOWN_SKILL or SKILL_NOT_ALLOWED.
        """
        skill = self._model.skill(name)
        if skill is None:
            known = ", ".join(self._model.skills)
            raise PlannerError(
                ErrorCode.UNKNOWN_SKILL, f"{self._model.name} has no skill {name[:40]!r}; it has: {known}"
            )
        if self._allowed is not None and skill.name not in self._allowed:
            allowed = ", ".join(sorted(self._allowed)) or "none"
            message = f"this goal may not use {skill.name}; it may use: {allowed}"
            raise PlannerError(ErrorCode.SKILL_NOT_ALLOWED, message)
        return skill

    def calls(self, call: Call, variables: Variables, depth: int = 1) -> Iterator[SkillCall]:
        """Yields a call and the calls in its arguments, in order of appearance, after checking each.

        Raises:
            PlannerError: UNKNOWN_SKILL, INVALID_ARGUMENT or ARGUMENT_OUT_OF_RANGE.
        """
        if depth > self._max_call_depth:
            raise PlannerError(ErrorCode.PLAN_TOO_LONG, f"calls are nested deeper than {self._max_call_depth}")
        skill = self.skill(call.name)
        if len(call.arguments) != len(skill.arguments):
            counts = f"takes {len(skill.arguments)} argument(s), got {len(call.arguments)}"
            raise PlannerError(ErrorCode.INVALID_ARGUMENT, f"{skill.name} {counts}")
        pairs = list(zip(skill.arguments, call.arguments, strict=True))
        yield SkillCall(skill.name, tuple(self._argument(skill, a, given, variables) for a, given in pairs))
        for given in call.arguments:
            if isinstance(given, Call):
                yield from self.calls(given, variables, depth + 1)

    def condition_calls(self, condition: Condition, variables: Variables) -> Iterator[SkillCall]:
        """Yields the calls of a condition in order of appearance, after checking each and every comparison.

        Raises:
            PlannerError: As ``calls``.
        """
        for test in tests(condition):
            sides = (test.left, test.right) if isinstance(test, Comparison) else (test,)
            for side in sides:
                yield from self.value_calls(side, variables)
            types = [self._type(side, variables) for side in sides]
            problem = _comparison_problem(test, types) if isinstance(test, Comparison) else _truth_problem(test, types)
            if problem:
                raise PlannerError(ErrorCode.INVALID_ARGUMENT, f"the condition {problem}")

    def value_calls(self, value: Expression, variables: Variables) -> Iterator[SkillCall]:
        """Yields the calls in a value after checking it.

        Raises:
            PlannerError: As ``calls``.
        """
        self._type(value, variables)
        if isinstance(value, Call):
            yield from self.calls(value, variables)

    def returned(self, call: Call) -> ReturnType:
        """Returns the type of a call's value.

        Raises:
            PlannerError: INVALID_ARGUMENT, if it has none.
        """
        skill = self.skill(call.name)
        if skill.returns is ReturnType.NONE:
            raise PlannerError(ErrorCode.INVALID_ARGUMENT, f"{skill.name} returns nothing; call it as a statement")
        return skill.returns

    def _type(self, value: Expression, variables: Variables) -> ReturnType:
        """Returns the type of a value; a literal must be finite or printable."""
        match value:
            case Number(value=number):
                if not math.isfinite(number):
                    raise PlannerError(ErrorCode.INVALID_ARGUMENT, f"{number} is not a finite number")
                return ReturnType.NUMBER
            case Boolean():
                return ReturnType.BOOLEAN
            case Name(name=text) | Text(text=text):
                if not text.translate(_WHITESPACE).isprintable():
                    raise PlannerError(ErrorCode.INVALID_ARGUMENT, f"the text {text[:40]!r} has control characters")
                return ReturnType.TEXT
            case Variable(index=index):
                if index not in variables:
                    problem = f"the variable _{index} may have no value when it is used; assign it before, outside of ?"
                    raise PlannerError(ErrorCode.INVALID_ARGUMENT, problem)
                return variables[index]
            case Call():
                return self.returned(value)

    def _argument(self, skill: Skill, argument: Argument, given: Expression, variables: Variables) -> Value:
        """Returns an argument's value, or ``Late`` where only the robot will know it."""
        what = f"{argument.name} of {skill.name}"
        if argument.type is ArgumentType.NUMBER:
            return _checked_number(what, argument, given)
        is_name = isinstance(given, Name)
        fits = self._type(given, variables) is ReturnType.TEXT
        if not fits or (is_name and argument.type is ArgumentType.TEXT):
            wanted = "a name" if argument.type is ArgumentType.IDENTIFIER else "a quoted text"
            raise PlannerError(ErrorCode.INVALID_ARGUMENT, f"{what} must be {wanted}, not {_shown(given)}")
        if not isinstance(given, Name | Text):
            return Late(expression_text(given))
        text = given.name if isinstance(given, Name) else given.text
        if not 1 <= len(text) <= argument.max_length:
            limits = f"1 to {argument.max_length} characters, not {len(text)}"
            raise PlannerError(ErrorCode.ARGUMENT_OUT_OF_RANGE, f"{what} must have {limits}")
        if argument.type is ArgumentType.IDENTIFIER and not text.isprintable():
            raise PlannerError(ErrorCode.INVALID_ARGUMENT, f"{what} has control characters")
        return text


def tests(condition: Condition) -> tuple[Comparison | Expression, ...]:
    """Returns the comparisons and bare values that a condition joins, in order."""
    if isinstance(condition, And | Or):
        return tuple(test for operand in condition.operands for test in tests(operand))
    return (condition,)


def _checked_number(what: str, argument: Argument, given: Expression) -> float:
    """Returns the literal number: the gate must know it, so nothing that only the robot knows will do."""
    if not isinstance(given, Number) or not math.isfinite(given.value):
        raise PlannerError(ErrorCode.INVALID_ARGUMENT, f"{what} must be a number, not {_shown(given)}")
    low, high = argument.minimum, argument.maximum
    if low is None or high is None or not low <= given.value <= high:
        limits = f"from {low:g} to {high:g} {argument.unit}".rstrip()
        raise PlannerError(ErrorCode.ARGUMENT_OUT_OF_RANGE, f"{what} must be {limits}, not {given.value:g}")
    if argument.is_integer and given.value != int(given.value):
        raise PlannerError(ErrorCode.ARGUMENT_OUT_OF_RANGE, f"{what} must be whole, not {given.value:g}")
    return given.value


def _comparison_problem(test: Comparison, types: list[ReturnType]) -> str:
    """Returns why two values cannot be compared, or an empty string. A text may spell a number or boolean."""
    shown = f"{_shown(test.left)} {test.operator} {_shown(test.right)}"
    if test.operator in ("==", "!="):
        is_mixed = set(types) == {ReturnType.NUMBER, ReturnType.BOOLEAN}
        return f"{shown} compares a number with a boolean" if is_mixed else ""
    if test.operator not in (">", "<"):
        return f"{shown} has an unknown operator"
    is_literal = any(isinstance(side, Name | Text) for side in (test.left, test.right))
    if ReturnType.BOOLEAN in types or ReturnType.NUMBER not in types or is_literal:
        return f"{shown} needs numbers"
    return ""


def _truth_problem(test: Expression, types: list[ReturnType]) -> str:
    """Returns why a value cannot stand for true or false, or an empty string. ``False`` may stand for a text."""
    is_literal = isinstance(test, Name | Text)
    return f"{_shown(test)} is neither true nor false" if ReturnType.NUMBER in types or is_literal else ""


def _shown(expression: Expression) -> str:
    """Returns an expression for a message; never long."""
    if isinstance(expression, Call):
        return f"{expression.name[:40]}(...)"
    if isinstance(expression, Number) and not math.isfinite(expression.value):
        return str(expression.value)
    text = expression_text(expression)
    return text if len(text) <= 40 else f"{text[:40]}..."
