# SPDX-License-Identifier: Apache-2.0
"""The answer to a question, in words: what a robot measured or saw, as it tells it to a person.

The robot words it, and not the planner: only the robot carries the plan out and knows which return was reached, and
which call its value came from.
"""

import math

from llm_planner.core.skill import SkillCall, Value
from llm_planner.language.printer import expression_text
from llm_planner.language.syntax import Number
from llm_planner.robots.effect import Ask, Perceive, Scan
from llm_planner.robots.model import ReturnType, RobotModel

MAX_ANSWER_LENGTH = 300  # characters
_PLACES = {
    "x": "of the way from the left to the right of the picture",
    "y": "of the way from the top to the bottom of the picture",
    "width": "of the width of the picture",
    "height": "of the height of the picture",
}


def answer_in_words(model: RobotModel, call: SkillCall | None, value: Value) -> str:
    """Returns what a robot says where its plan returns a value; empty if there is nothing to say.

    Args:
        model: Of the robot.
        call: What the value came from, with evaluated arguments; None for a literal of the plan.
        value: As it was returned.
    """
    return _answer(model, call, value)[:MAX_ANSWER_LENGTH]


def _answer(model: RobotModel, call: SkillCall | None, value: Value) -> str:  # noqa: PLR0911 (one per kind)
    skill = None if call is None else model.skill(call.name)
    if call is None or skill is None:
        return _plain(value)
    if skill.returns is ReturnType.NONE:
        return ""
    about = _named(next(iter(call.arguments), ""))
    match skill.effect:
        case Perceive(quantity="visible"):
            return f"yes, I see the {about}" if value is True else f"no, I do not see the {about}"
        case Perceive(quantity="distance", unit_m=unit_m) if _is_number(value):
            return f"the {about} is {_length(float(value) * unit_m)} away"
        case Perceive(quantity="x" | "y") if _is_number(value):
            return f"the {about} is at {float(value):.0%} {_PLACES[skill.effect.quantity]}"
        case Perceive(quantity="width" | "height") if _is_number(value):
            return f"the {about} takes {float(value):.0%} {_PLACES[skill.effect.quantity]}"
        case Scan(match="name"):
            return f"yes, I have found the {about}" if value is True else f"no, I have not found the {about}"
        case Scan():
            found = isinstance(value, str) and value.casefold() not in ("", "false")
            return f"I have found the {_named(value)}" if found else f"no, I have found nothing that is {about}"
        case Ask() if " " not in _plain(value):  # a bare value
            return f"{about.rstrip('?')}: {_plain(value)}"
        case _:
            return _plain(value)


def _plain(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return " ".join(value.split())
    return expression_text(Number(round(value, 6))) if math.isfinite(value) else str(value)


def _named(name: Value) -> str:
    return str(name).replace("_", " ").strip()


def _is_number(value: Value) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value)


def _length(length_m: float) -> str:
    """Returns a length as people say it: ``86 cm``, ``3.2 m``."""
    centimetres = round(length_m * 100)
    return f"{centimetres} cm" if abs(centimetres) < 100 else f"{length_m:.1f} m"
