# SPDX-License-Identifier: Apache-2.0
"""A skill call: the smallest thing that a robot can be told to do."""

from dataclasses import dataclass
from enum import Enum

Value = float | str | bool


class ArgumentType(Enum):
    """Type of a skill argument, as declared in a robot model."""

    NUMBER = "number"
    IDENTIFIER = "identifier"  # an object or place name: bare (red_box) or quoted ('red box')
    TEXT = "text"  # free text, quoted


class Late(str):
    """The source text of an argument that is only known on the robot: ``_1``, ``sa('red')``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SkillCall:
    """One call with its literal arguments, e.g. ``SkillCall("mf", (100.0,))``.

    An argument that is only known on the robot (a variable or a nested call) is not flat; such calls stay in
    their statement (``Segment.text``) and appear here with the argument as ``Late``.
    """

    name: str
    arguments: tuple[Value, ...] = ()
