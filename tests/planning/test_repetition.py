"""A model that is stuck in a word is stopped; whatever a healthy plan says is not."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.planning.repetition import MAX_GROUP, MAX_REPETITION, WordWatch, repeated_group
from llm_planner.tasks.sample import FAMILY_NAMES, sample

GROUPS = st.text("abz_09é", min_size=1, max_size=MAX_GROUP)


def stops_at(text):
    """How many characters of a text are taken before it is refused, and how; None if it is not."""
    watch = WordWatch()
    for index, character in enumerate(text):
        try:
            watch.feed(character)
        except PlannerError as error:
            return index, error
    return None


def is_repeated(word):
    """The definition, written down a second time: some end of the word is a group that repeats for too long."""
    for size in range(1, MAX_GROUP + 1):
        limit = max(24, 3 * size)
        for start in range(len(word) - limit):
            end = word[start:]
            if (end[:size] * len(end))[: len(end)] == end:
                return True
    return False


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("say('to mymymymymymymymymymymymymymymy", "my"),
        ("g(toaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "a"),
        ("g(stoolstoolstoolstoolstoolstoolstool", "stool"),
        ("move_to(white_uvjnaojnaojnaojnaojnaojnaojn", "jnao"),
        ("pick(orange_onto_________________________", "_"),
        ("iv(extinguisher_extinguisher_extinguisher_extinguisher_", "extinguisher_"),
    ],
)
def test_what_a_stuck_model_wrote_is_refused(text, group):
    _, error = stops_at(text)
    assert error.code is ErrorCode.PLAN_SYNTAX
    assert f"it writes {group!r} again and again" in error.message


@pytest.mark.parametrize(
    "text",
    [
        "tp();" * 40,
        "mf(100);tc(90);" * 20,
        "set_joints(0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0);",
        "l('beep beep beep beep beep beep beep beep beep beep');",
        "l('hahahahahahahahahahahaha');",
        "l('" + "=" * 80 + "');",
        "?_1|_1|_1|_1|_1|_1|_1|_1|_1|_1|_1|_1{h();}",
        "g(mississippi_mississippi_mississippi);",
    ],
)
def test_steps_numbers_and_spoken_words_may_repeat(text):
    assert stops_at(text) is None


@given(word=st.one_of(st.text("ab", max_size=60), st.text("abcdef_1", max_size=60)))
def test_it_is_what_its_definition_says(word):
    assert bool(repeated_group(word)) is is_repeated(word)


@given(start=st.text("abz_09", max_size=20), group=GROUPS)
def test_a_loop_is_refused_in_its_fourth_round_or_behind_the_limit(start, group):
    limit = max(MAX_REPETITION, 3 * len(group))
    num_taken, _ = stops_at(start + group * 60)
    assert num_taken <= len(start) + limit


@given(words=st.lists(st.text("abz_09é", max_size=MAX_REPETITION), max_size=20), between=st.sampled_from(" ,();'{}"))
def test_short_words_pass_however_often_they_come(words, between):
    assert stops_at(between.join(words)) is None


def test_the_reference_plan_of_every_family_passes():
    rng = random.Random(0)
    for family in FAMILY_NAMES:
        for _ in range(10):
            assert stops_at(sample(rng, family=family).plan) is None
