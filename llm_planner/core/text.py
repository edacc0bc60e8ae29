# SPDX-License-Identifier: Apache-2.0
"""Text from the network: what it may not hold, and JSON that is safe to use."""

import json
import re
from typing import Any

from llm_planner.core.errors import ErrorCode, PlannerError

MAX_JSON_LENGTH = 1_000_000
"""Characters. The longest line of this project holds a scene of 64 KiB, escaped."""
_MAX_DIGITS = 18
MAX_NUMBER = 1e30
"""Sums and products of some such numbers stay finite."""
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Categories Cc and Cs of Unicode, without tab and line ends."""


_NODE = re.compile(r"/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*/?")


def has_control_characters(text: str) -> bool:
    """Returns whether a text holds control characters other than tab and line ends, or surrogates."""
    return _CONTROL.search(text) is not None


def parse_json(text: str) -> Any:
    """Returns what a JSON text says; a number that is not finite, or a whole one of more than 18 digits, becomes None.

    Raises:
        ValueError: If it is no JSON, too long, or nested too deeply.
    """
    if len(text) > MAX_JSON_LENGTH:
        raise ValueError(f"{len(text)} characters")
    try:
        return json.loads(text, parse_int=_parse_int, parse_float=_parse_float, parse_constant=lambda _: None)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _parse_int(digits: str) -> int | None:
    return int(digits) if len(digits.lstrip("-")) <= _MAX_DIGITS else None


def _parse_float(digits: str) -> float | None:
    number = float(digits)
    return number if abs(number) <= MAX_NUMBER else None


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun: 1 segment, 2 segments."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def node_name(text: str) -> str:
    """Returns the name of a node as it was typed, without a slash at its end: topics are named behind it.

    Raises:
        PlannerError: INVALID_CONFIG if no node can have this name.
    """
    if _NODE.fullmatch(text) is None:
        message = f"no ROS node can be called {text[:80]!r}; give a full name such as /planner"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    return text.removesuffix("/")
