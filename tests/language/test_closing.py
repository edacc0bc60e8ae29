# SPDX-License-Identifier: Apache-2.0
"""Closing a plan in its midst: what remains is a plan, and a beginning of what the whole one does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.language.errors import PlanSyntaxError
from llm_planner.language.parser import IncrementalParser, parse
from llm_planner.language.printer import to_text
from llm_planner.language.syntax import If
from tests.language.test_parser import plans, soup


def leaves(plan, path=()):
    """Returns what a plan does, with the conditions that it hangs on: a loop is one thing to do."""
    found = []
    for index, statement in enumerate(plan):
        if isinstance(statement, If):
            found += leaves(statement.body, (*path, (index, statement.condition)))
        else:
            found.append((path, index, statement))
    return found


def closed(text):
    """Returns the plan that remains of a text."""
    parser = IncrementalParser()
    whole, last = parser.feed(text), parser.closed()
    return (*whole, *(() if last is None else (last,)))


@pytest.mark.parametrize(
    ("text", "remains"),
    [
        ("mf(100);tc(9", "mf(100);"),
        ("?iv(a){mf(100);mf(10", "?iv(a){mf(100);}"),  # no number is shortened
        ("?iv(a){mf(100)", "?iv(a){mf(100);}"),  # a call is whole at its parenthesis
        ("?iv(a){_1=ix(a", ""),
        ("?iv(a){", ""),
        ("?iv(a", ""),
        ("4{mf(50);tc(90);", ""),  # part of a loop is another motion
        ("tp();4{?iv(a){mf(50);", "tp();"),
        ("?iv(a){tp();4{mf(50);", "?iv(a){tp();}"),
        ("?iv(a){4{mf(50);}tp", "?iv(a){4{mf(50);}}"),
        ("?iv(a){tp();?iv(b){mf(1);?iv(c){", "?iv(a){tp();?iv(b){mf(1);}}"),
        ("?iv(a){?iv(b){mf(1);}", "?iv(a){?iv(b){mf(1);}}"),
        ("?iv(a){tp();->Tr", "?iv(a){tp();}"),
        ("?iv(a){tp();}", "?iv(a){tp();}"),
    ],
)
def test_examples(text, remains):
    assert to_text(closed(text)) == remains


@given(plans, st.integers(0, 400))
def test_what_remains_is_a_plan_that_does_what_the_whole_one_does_up_to_some_place(plan, length):
    text = to_text(plan)
    remains = closed(text[:length])
    assert parse(to_text(remains)) == remains
    done = leaves(remains)
    assert done == leaves(plan)[: len(done)]
    if length >= len(text):
        assert remains == plan


@given(plans, st.integers(0, 400))
def test_more_text_never_leaves_less(plan, length):
    text = to_text(plan)
    assert len(leaves(closed(text[:length]))) <= len(leaves(closed(text[: length + 1])))


@given(soup, st.integers(0, 60))
def test_looking_changes_nothing_and_hostile_text_is_never_closed(text, length):
    parser, watched = IncrementalParser(), IncrementalParser()
    try:
        expected = parser.feed(text) + parser.finish()
    except PlanSyntaxError:
        expected = None
    try:
        found = watched.feed(text[:length])
        watched.closed()
        assert found + watched.feed(text[length:]) + watched.finish() == expected
    except PlanSyntaxError:
        assert expected is None
        assert watched.closed() is None
