# SPDX-License-Identifier: Apache-2.0
"""Ids, texts and time budgets: one rule each, and every way in asks it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.validation import (
    MAX_NUMBER,
    require_client_id,
    require_goal_id,
    require_max_tokens,
    require_robot_id,
    require_text,
    require_time_budget,
)
from tests.serving.builders import make_admission, make_request


def refusal(check, *arguments):
    try:
        check(*arguments)
    except PlannerError as error:
        return error.code
    return None


@pytest.mark.parametrize("text", ["", "a b", "x\n", "a" * 65, "robot;", "\u00e9"])
def test_what_is_no_name_of_a_robot(text):
    assert refusal(require_robot_id, text) is ErrorCode.INVALID_ROBOT_ID


def test_a_client_may_have_no_name_and_a_robot_may_not():
    assert require_client_id("") == ""
    assert refusal(require_client_id, "a" * 129) is ErrorCode.INVALID_ROBOT_ID
    assert refusal(require_robot_id, "") is ErrorCode.INVALID_ROBOT_ID


def test_a_goal_id_is_a_uuid_without_dashes():
    assert require_goal_id("0" * 32) == "0" * 32
    for text in ("0" * 31, "F" * 32, "0" * 32 + "\n"):
        assert refusal(require_goal_id, text) is ErrorCode.UNKNOWN_GOAL


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("go\tto\n", None),
        ("x" * 100, None),
        ("x" * 101, ErrorCode.INSTRUCTION_TOO_LONG),
        ("\u00e9" * 51, ErrorCode.INSTRUCTION_TOO_LONG),
        ("\x1b[2J", ErrorCode.INVALID_ENCODING),
        ("\ud800", ErrorCode.INVALID_ENCODING),
    ],
)
def test_a_text_is_short_printable_unicode(text, code):
    assert refusal(require_text, text, "scene", 100) is code


@pytest.mark.parametrize("budget_s", [0.0, -1.0, math.nan, math.inf, 2 * MAX_NUMBER])
def test_what_is_no_time_budget(budget_s):
    assert refusal(require_time_budget, budget_s) is ErrorCode.INVALID_TIME_BUDGET


def test_a_time_budget_or_none():
    assert require_time_budget(None) is None
    assert require_time_budget(0.2) == 0.2


@given(st.text(max_size=70))
def test_admission_asks_the_same_rules(text):
    admission = make_admission()
    found = refusal(admission.check, make_request(robot_id=text), {})
    assert found is refusal(require_robot_id, text)
    found = refusal(admission.check, make_request(plan=text), {})
    assert found is refusal(require_text, text, "plan", admission.config.max_instruction_bytes)


@pytest.mark.parametrize("number", [0, -1, 3.5, 3.0, math.nan, math.inf, 1e9, "5", None, True])
def test_what_is_no_number_of_tokens(number):
    assert refusal(require_max_tokens, number) is ErrorCode.INVALID_MAX_TOKENS
    assert require_max_tokens(3) == 3
