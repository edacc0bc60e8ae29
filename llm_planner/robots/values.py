# SPDX-License-Identifier: Apache-2.0
"""Values of plans: what is true, what is equal, what is greater."""

import math
import re

from llm_planner.core.skill import Value

FALSE_WORDS = frozenset({"", "false", "no"})
TRUE_WORDS = frozenset({"true", "yes"})


def is_true(value: Value) -> bool:
    """Returns whether a condition on a value holds: not for false, 0, and the texts "", "no" and "false"."""
    return value.casefold() not in FALSE_WORDS if isinstance(value, str) else bool(value)


_YES_OR_NO = re.compile(rf"\W*({'|'.join(TRUE_WORDS | FALSE_WORDS - {''})})\s*(?:[,.;:!]|$)", re.IGNORECASE)


def yes_or_no(answer: Value) -> bool | None:
    """Returns what an answer decides: "no, it is closed" is false; None where it is neither yes nor no."""
    if not isinstance(answer, str):
        return bool(answer)
    word = _YES_OR_NO.match(answer)
    return None if word is None else word[1].casefold() in TRUE_WORDS


def is_yes_or_no(value: Value) -> bool:
    """Returns whether an answer that is compared with this value decides something."""
    return isinstance(value, bool) or (isinstance(value, str) and yes_or_no(value) is not None)


def compare(left: Value, operator: str, right: Value) -> bool:
    """Returns the truth of a comparison.

    A text meets a number or boolean as what it spells: "3" equals 3, "yes" equals true. Otherwise values of different
    types are different, and only numbers are greater or less. Of two texts, case and a final full stop are ignored.

    Raises:
        TypeError: If the two cannot be ordered.
    """
    left, right = _like(left, right), _like(right, left)
    if isinstance(left, str) and isinstance(right, str):
        left, right = _bare(left), _bare(right)
    is_same_type = isinstance(left, str) == isinstance(right, str) and isinstance(left, bool) == isinstance(right, bool)
    if operator in {"==", "!="}:
        return (is_same_type and left == right) == (operator == "==")
    if isinstance(left, bool | str) or isinstance(right, bool | str):
        raise TypeError(f"cannot compare {left!r} {operator} {right!r}")
    return left > right if operator == ">" else left < right


_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")


def _like(value: Value, other: Value) -> Value:
    """Returns a text as the type of ``other``, if it spells such a value."""
    if not isinstance(value, str) or isinstance(other, str):
        return value
    word = _bare(value)
    if isinstance(other, bool):
        return word in TRUE_WORDS if word in TRUE_WORDS | FALSE_WORDS else value
    return float(word) if _DECIMAL.fullmatch(word) and math.isfinite(float(word)) else value


def _bare(text: str) -> str:
    return text.strip().casefold().removesuffix(".")
