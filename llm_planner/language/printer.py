# SPDX-License-Identifier: Apache-2.0
"""The syntax tree as canonical MiniSpec: no spaces, single quotes, every statement with its ``;``."""

from decimal import Decimal

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
    Name,
    Number,
    Opening,
    Or,
    Part,
    Plan,
    Return,
    Text,
    Unclear,
    Variable,
)

_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def to_text(plan: Part | Plan) -> str:  # noqa: PLR0911 (one case per node)
    """Returns canonical MiniSpec of a statement, a part of one, or a plan; ``parse`` is the inverse for plans."""
    if isinstance(plan, tuple):
        return "".join(map(to_text, plan))
    if isinstance(plan, Loop):
        return f"{plan.count}{{{to_text(plan.body)}}}"
    if isinstance(plan, If):
        return f"{to_text(Opening(plan.condition))}{to_text(plan.body)}{to_text(Closing())}"
    if isinstance(plan, Opening):
        return f"?{condition_text(plan.condition)}{{"
    if isinstance(plan, Closing):
        return "}"
    if isinstance(plan, Assign):
        return f"{expression_text(plan.variable)}={expression_text(plan.call)};"
    if isinstance(plan, Return):
        return f"->{expression_text(plan.value)};"
    if isinstance(plan, Fail):
        plan = Call("fail", (Text(plan.reason),))
    elif isinstance(plan, Unclear):
        plan = Call("unclear", (Text(plan.what),))
    return f"{expression_text(plan)};"


def condition_text(condition: Condition) -> str:
    """Returns canonical MiniSpec of a condition."""
    if isinstance(condition, Or):
        return "|".join(map(condition_text, condition.operands))
    if isinstance(condition, And):
        return "&".join(map(condition_text, condition.operands))
    if isinstance(condition, Comparison):
        return f"{expression_text(condition.left)}{condition.operator}{expression_text(condition.right)}"
    return expression_text(condition)


def expression_text(expression: Expression) -> str:
    """Returns canonical MiniSpec of a value."""
    if isinstance(expression, Call):
        return f"{expression.name}({','.join(map(expression_text, expression.arguments))})"
    if isinstance(expression, Number):
        return _number_text(expression.value)
    if isinstance(expression, Text):
        return f"'{expression.text.translate(_ESCAPES)}'"
    if isinstance(expression, Variable):
        return f"_{expression.index}"
    if isinstance(expression, Name):
        return expression.name
    return str(expression.value)


def _number_text(value: float) -> str:
    """Returns the shortest decimal that reads back as ``value``, without an exponent: ``100``, ``0.5``."""
    if value == int(value):
        return str(int(value))
    return format(Decimal(repr(float(value))), "f")
