# SPDX-License-Identifier: Apache-2.0
"""The rules for ids, texts and time budgets: ROS interfaces, admission and command line all use these."""

import re

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.text import has_control_characters

_ROBOT_ID = re.compile(r"[A-Za-z0-9_/-]{1,64}")
_CLIENT_ID = re.compile(r"[A-Za-z0-9_/-]{0,128}")
_GOAL_ID = re.compile(r"[0-9a-f]{32}")
MAX_NUMBER = 1e9
"""Largest number of seconds, metres, degrees or utility: what is computed with them stays finite."""
MAX_PLAN_TOKENS = 8192
"""Most tokens that a request may ask for; a model with a shorter context gives fewer."""


def require_robot_id(text: str) -> str:
    """Returns ``text`` if it is a valid name of a robot.

    Raises:
        PlannerError: INVALID_ROBOT_ID otherwise.
    """
    if _ROBOT_ID.fullmatch(text) is None:
        message = f"robot_id {text[:80]!r} is not a name: use 1 to 64 letters, digits, '_', '-' or '/'"
        raise PlannerError(ErrorCode.INVALID_ROBOT_ID, message)
    return text


def require_client_id(text: str) -> str:
    """Returns ``text`` if it is a valid name of a client, or empty.

    Raises:
        PlannerError: INVALID_ROBOT_ID otherwise.
    """
    if _CLIENT_ID.fullmatch(text) is None:
        message = f"client_id {text[:80]!r} is not a name: use at most 128 letters, digits, '_', '-' or '/'"
        raise PlannerError(ErrorCode.INVALID_ROBOT_ID, message)
    return text


def require_goal_id(text: str) -> str:
    """Returns ``text`` if it is a goal id.

    Raises:
        PlannerError: UNKNOWN_GOAL otherwise.
    """
    if _GOAL_ID.fullmatch(text) is None:
        message = f"{text[:80]!r} is no goal id: 32 lower-case hexadecimal digits"
        raise PlannerError(ErrorCode.UNKNOWN_GOAL, message)
    return text


def require_length(text: str, name: str, max_bytes: int) -> None:
    """Refuses a text that is too long even at one byte per character, before anything else of it is read.

    Raises:
        PlannerError: INSTRUCTION_TOO_LONG.
    """
    if len(text) > max_bytes:
        raise PlannerError(ErrorCode.INSTRUCTION_TOO_LONG, f"the {name} exceeds {max_bytes} bytes; shorten it")


def require_text(text: str, name: str, max_bytes: int) -> str:
    """Returns ``text`` if it is short enough, Unicode, and holds no control characters but tab and line ends.

    Raises:
        PlannerError: INSTRUCTION_TOO_LONG, INVALID_ENCODING.
    """
    require_length(text, name, max_bytes)
    try:
        num_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise PlannerError(ErrorCode.INVALID_ENCODING, f"the {name} is not valid Unicode: {error}") from error
    if num_bytes > max_bytes:
        raise PlannerError(ErrorCode.INSTRUCTION_TOO_LONG, f"the {name} exceeds {max_bytes} bytes; shorten it")
    require_printable(text, name)
    return text


def require_printable(text: str, name: str) -> None:
    """Refuses control characters other than tab and line ends, and surrogates.

    Raises:
        PlannerError: INVALID_ENCODING.
    """
    if has_control_characters(text):
        raise PlannerError(ErrorCode.INVALID_ENCODING, f"the {name} holds control characters; remove them")


def require_time_budget(budget_s: float | None) -> float | None:
    """Returns a time budget in seconds, None for none, if it can be one.

    Raises:
        PlannerError: INVALID_TIME_BUDGET.
    """
    if budget_s is not None and not 0 < budget_s <= MAX_NUMBER:
        message = f"time_budget_s is {budget_s}; give a positive number of seconds, or none"
        raise PlannerError(ErrorCode.INVALID_TIME_BUDGET, message)
    return budget_s


def require_max_tokens(max_tokens: object) -> int:
    """Returns the most tokens of a plan, if that is a number that a plan can have.

    Raises:
        PlannerError: INVALID_MAX_TOKENS.
    """
    if isinstance(max_tokens, int) and not isinstance(max_tokens, bool) and 1 <= max_tokens <= MAX_PLAN_TOKENS:
        return max_tokens
    message = f"max_tokens is {max_tokens!r:.40}; give a whole number from 1 to {MAX_PLAN_TOKENS}"
    raise PlannerError(ErrorCode.INVALID_MAX_TOKENS, message)
