# SPDX-License-Identifier: Apache-2.0
"""Control characters are those of Unicode, but for tab and line ends; JSON holds numbers that fit."""

import json
import math
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.text import MAX_JSON_LENGTH, has_control_characters, node_name, parse_json


def test_every_character_is_judged_as_unicode_does():
    def expected(character):
        return unicodedata.category(character) in {"Cc", "Cs"} and character not in "\t\n\r"

    assert all(has_control_characters(c) == expected(c) for c in map(chr, range(sys.maxunicode + 1)))


def test_one_of_them_anywhere_counts():
    assert has_control_characters("go to the\x00chair")
    assert not has_control_characters("go to\nthe\tchair")
    assert not has_control_characters("")


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 50_000, "", "x", '"' + "x" * MAX_JSON_LENGTH + '"'])
def test_what_is_no_json_of_ours_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"\w"):
        parse_json(text)


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 30, "1e999", "-1e31", "NaN", "Infinity", "-Infinity"])
def test_numbers_that_do_not_fit_are_none(number):
    assert parse_json(f'{{"a": {number}}}') == {"a": None}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.floats(-1e30, 1e30) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_other_json_is_read_as_it_is(value):
    assert parse_json(json.dumps(value)) == value


@given(st.floats())
def test_floats_stay_finite(number):
    read = parse_json(json.dumps(number))
    assert read is None or math.isfinite(read)


@pytest.mark.parametrize("text", ["planner", "/planner", "/site/planner", "/planner/"])
def test_the_name_of_a_node_has_no_slash_behind_it(text):
    assert f"{node_name(text)}/status" == f"{text.rstrip('/')}/status"
