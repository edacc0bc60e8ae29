# SPDX-License-Identifier: Apache-2.0
"""The syntax tree of MiniSpec, the plan language (as published by TypeFly, arXiv 2312.14950).

plan       = { statement }
statement  = call ";" | variable "=" call ";" | count "{" plan "}" | "?" condition "{" plan "}" | "->" value ";"
           | "fail(" text ")" ";" | "unclear(" text ")" ";"
condition  = conjunction { "|" conjunction }          "&" binds tighter than "|"
conjunction = comparison { "&" comparison }
comparison = value [ (">" | "<" | "==" | "!=") value ]
value      = number | boolean | text | name | variable | call

Deviation: ``fail`` and ``unclear`` are ours. They are words of the language and no skills.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Name:
    """A bare identifier used as an argument: ``red_box``."""

    name: str


@dataclass(frozen=True, slots=True)
class Text:
    """A quoted string."""

    text: str


@dataclass(frozen=True, slots=True)
class Number:
    """A decimal number; finite."""

    value: float


@dataclass(frozen=True, slots=True)
class Boolean:
    """``True`` or ``False``."""

    value: bool


@dataclass(frozen=True, slots=True)
class Variable:
    """``_1``, ``_2``, ... ; ``index >= 1``."""

    index: int


@dataclass(frozen=True, slots=True)
class Call:
    """``name(argument, ...)``; as a statement or as a value."""

    name: str
    arguments: "tuple[Expression, ...]" = ()


Expression = Name | Text | Number | Boolean | Variable | Call


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left operator right`` with operator one of ``> < == !=``."""

    left: Expression
    operator: str
    right: Expression


@dataclass(frozen=True, slots=True)
class And:
    """All operands are true; two or more operands, none of them an ``And``."""

    operands: "tuple[Comparison | Expression, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    """One operand is true; two or more operands, none of them an ``Or``."""

    operands: "tuple[And | Comparison | Expression, ...]"


Condition = Or | And | Comparison | Expression


@dataclass(frozen=True, slots=True)
class Assign:
    """``_1 = call;``."""

    variable: Variable
    call: Call


@dataclass(frozen=True, slots=True)
class Loop:
    """``count { body }``; ``count >= 1``."""

    count: int
    body: "tuple[Statement, ...]"


@dataclass(frozen=True, slots=True)
class If:
    """``? condition { body }``; MiniSpec has no else."""

    condition: Condition
    body: "tuple[Statement, ...]"


@dataclass(frozen=True, slots=True)
class Return:
    """``-> value;`` ends the plan."""

    value: Expression


@dataclass(frozen=True, slots=True)
class Fail:
    """``fail('reason');`` ends the plan: what was asked cannot be achieved."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unclear:
    """``unclear('what');`` is a whole plan: it cannot be known what is meant, so nothing is done."""

    what: str


Statement = Call | Assign | Loop | If | Return | Fail | Unclear
Plan = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Opening:
    """``? condition {``: the beginning of an ``If`` whose body follows part by part."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Closing:
    """``}``: the end of the ``If`` that was opened last and has no end yet."""


Part = Statement | Opening | Closing
"""What can be executed by itself. Openings and closings of a whole plan match."""
