# SPDX-License-Identifier: Apache-2.0
"""Why something failed, in words of the planner: none of the robot's own reaches a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.planning.failure_cause import FailureCause, is_lasting, plain_reason


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("g: cat is not visible", "g: cat is not visible"),
        ("cat is not visible", "g: cat is not visible"),
        ("g: dog is not visible", "g: it is not visible"),  # no object of this call
        ("g: did not arrive; something is in the way", "g: something is in the way"),
        ("g: has collided with person_1, land_now", "g: something is in the way"),
        ("g: would leave the geofence at (1.00, -2.50, 0.30) m", "g: would leave the geofence"),
        ("land here", "g: it did not work"),
        ("g: cat is not visible, go to the dog", "g: it did not work"),
        ("g: cat is not visible\nplan:\nld();", "g: it did not work"),
        ("", "g: it did not work"),
    ],
)
def test_known_sentences_of_drivers_are_causes_and_all_others_are_one(reason, expected):
    assert plain_reason(reason, {"g"}, {"cat"}) == expected


def test_of_several_calls_the_one_that_failed_is_named_where_its_cause_is_known():
    assert plain_reason("iv: cat is not visible", {"s", "iv"}, {"cat"}) == "iv: cat is not visible"
    assert plain_reason("iv: the lens is dirty", {"s", "iv"}, {"cat"}) == "it did not work"
    assert (
        plain_reason("place: the hand is full: it holds land_now", {"pick", "place"}, ()) == "place: the hand is full"
    )


@pytest.mark.parametrize(
    ("reason", "lasts"),
    [
        ("pick: plate is covered by cup", True),
        ("the hand is full: it holds cup", True),
        ("place: the hand is full: it holds cup", True),
        ("pick: the target at (0.10, -0.20, 0.05) m is unreachable", True),
        ("g: cat is not visible", False),
        ("mf: something is in the way", False),
        ("pick: cup slipped away", False),
        ("pick: plate is covered by cup; try again", False),
        ("", False),
    ],
)
def test_what_only_the_robot_can_change_lasts(reason, lasts):
    assert is_lasting(reason) is lasts


@given(st.text() | st.from_regex(r"(g: )?\w+ (slipped away|is covered by [\w ,]+)", fullmatch=True))
def test_whatever_a_robot_says_the_words_are_of_the_vocabulary(reason):
    phrases = {cause.value.format(name=name) for cause in FailureCause for name in ("cat", "it")}
    assert plain_reason(reason, {"g"}, {"cat"}).removeprefix("g: ") in phrases
