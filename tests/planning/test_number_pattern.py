# SPDX-License-Identifier: Apache-2.0
"""Number ranges as regular expressions, against counting."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.planning.number_pattern import number_pattern


@given(st.integers(-2000, 2000), st.integers(0, 3000), st.data())
def test_whole_numbers_match_exactly_inside_the_range(low, width, data):
    pattern = re.compile(number_pattern(low, low + width, is_integer=True))
    near = st.one_of(st.integers(low - 12, low + 12), st.integers(low + width - 12, low + width + 12))
    for n in data.draw(st.lists(st.one_of(near, st.integers(-10_000, 10_000)), min_size=20, max_size=40)):
        assert bool(pattern.fullmatch(str(n))) == (low <= n <= low + width), n


@pytest.mark.parametrize(("low", "high"), [(20, 500), (1, 360), (0, 60), (1, 100), (-5, 5), (7, 7), (99, 1001)])
def test_every_whole_number_of_a_real_range(low, high):
    pattern = re.compile(number_pattern(low, high, is_integer=True))
    assert [n for n in range(-1100, 1100) if pattern.fullmatch(str(n))] == list(range(low, high + 1))


@given(st.integers(-300, 300), st.integers(1, 400), st.floats(-1000, 1000))
def test_decimals_match_exactly_inside_a_range_with_whole_limits(low, width, value):
    pattern = re.compile(number_pattern(low, low + width, is_integer=False))
    text = f"{round(value, 3) + 0.0:.3f}".rstrip("0").rstrip(".")
    if text != "-0":
        assert bool(pattern.fullmatch(text)) == (low <= float(text) <= low + width), text


@pytest.mark.parametrize("text", ["020", "20.", "20.0", "20.50", "+20", "1e2", " 20", "20.1234", "500.001", "19.999"])
def test_other_spellings_do_not_match(text):
    assert not re.fullmatch(number_pattern(20, 500, is_integer=False), text)


def test_fractional_limits_include_what_lies_between():
    pattern = re.compile(number_pattern(0.25, 1.5, is_integer=False))
    assert all(pattern.fullmatch(text) for text in ("0.25", "0.9", "1", "1.5"))
    assert not pattern.fullmatch("2")


def test_a_range_without_numbers_is_an_error():
    with pytest.raises(ValueError, match="no number"):
        number_pattern(0.2, 0.8, is_integer=True)
