# SPDX-License-Identifier: Apache-2.0
"""A model that is stuck in a word is stopped; whatever a healthy plan says is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.repetition import (
    MAX_GROUP,
    MAX_GROUP_WORDS,
    MAX_REPEATED_STEPS,
    MAX_REPETITION,
    MAX_REPETITION_SPOKEN,
    MAX_REPETITION_WORDS,
    AnswerWatch,
    StepWatch,
    TextWatch,
    WordWatch,
    repeated_group,
)

GROUPS = st.text("abz_09é", min_size=1, max_size=MAX_GROUP)


def stops_at(text, watch_type=WordWatch):
    """How many characters of a text are taken before it is refused, and how; None if it is not."""
    watch = watch_type()
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


SENTENCE = "I am a small drone, and I look for the red chair. "


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("Hello! " + "I am fine. " * 20, "I am fine"),
        ("no, " * 60, "no"),
        ("Let me see: " + SENTENCE * 6, "I am a small drone and I look for the red chair"),
        ("我很好。" * 60, "我很好"),
        ("Oh, it is a very" + "very" * 20, "very"),
    ],
)
def test_an_answer_that_goes_in_a_circle_is_stopped(text, group):
    _, error = stops_at(text, AnswerWatch)
    assert error.code is ErrorCode.PLAN_SYNTAX
    assert f"{group!r} again and again" in error.message


@pytest.mark.parametrize(
    "text",
    [
        SENTENCE * 3 + "Then I look again.",
        "Row, row, row your boat, gently down the stream. " * 3,
        "Sign here: " + "_" * 80 + ".\n" + "=" * 80,
        "".join(f"{i}. Look at chair_{i}.\n" for i in range(60)),
        "beep " * 40 + "!",
    ],
)
def test_what_people_say_twice_or_thrice_passes(text):
    assert stops_at(text, AnswerWatch) is None


@given(group=st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=MAX_GROUP_WORDS))
def test_a_circle_of_words_is_left_in_its_fourth_round_or_behind_the_limit(group):
    words = (group * 60)[: max(MAX_REPETITION_WORDS, 3 * len(group)) + 1]
    assert stops_at(" ".join(words) + " ", AnswerWatch) is not None


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("tk();l('lunch" + " lunch" * 40, "lunch"),
        ("?iv(cat)==False{say('it\\'s" + " is it" * 30, "is it"),
        ("say('ready" + " coming welcome" * 20, "coming welcome"),
        ("l(\"it's" + " is it" * 30, "is it"),
    ],
)
def test_a_text_that_goes_on_and_on_is_refused(text, group):
    index, error = stops_at(text, TextWatch)
    assert len(text[:index].split()) <= MAX_REPETITION_SPOKEN + 3
    assert error.code is ErrorCode.PLAN_SYNTAX
    assert sorted(error.message.split("'")[1].split()) == sorted(group.split())


@pytest.mark.parametrize(
    "text",
    [
        "l('" + "beep " * MAX_REPETITION_SPOKEN + "');",
        "l('beep beep beep');" * 40,
        "mf(100);tc(90);" * 40,
        "l('it\\'s');" + "pick(cup);place(cup,bin);" * 12,
        "l('a\\\\');" + "mf(100);" * 40,
        'l("it\'s on");' + "mf(20);mb(20);" * 14,
        "l('a \"b');" + "mf(20);mb(20);" * 14,
        "set(" + "0," * 60 + "0);",
    ],
)
def test_what_is_no_text_or_is_short_passes(text):
    assert stops_at(text, TextWatch) is None


def refused_step(plan):
    """Returns which statement is refused, and how; None if all are taken."""
    watch = StepWatch()
    for index, statement in enumerate(parse(plan)):
        try:
            watch.feed(to_text(statement))
        except PlannerError as error:
            return index, error
    return None


@pytest.mark.parametrize(
    ("before", "group"),
    [
        ("", "pick(cup);place(cup,bin);"),
        ("mf(100);", "g(chair);"),
        ("pick(a);place(a,b);", "pick(b);place(b,c);pick(c);place(c,d);pick(d);place(d,a);"),
        ("", "?iv(cat){g(cat);}s(cat);"),
    ],
)
def test_a_plan_that_does_the_same_to_the_same_things_is_refused(before, group):
    index, error = refused_step(before + group * 20)
    assert index == len(parse(before)) + len(parse(group)) + MAX_REPEATED_STEPS
    assert error.code is ErrorCode.PLAN_SYNTAX
    assert "again and again" in error.message


@given(order=st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_circles_need_no_period(order):
    plan = "".join(f"pick(box_{i});place(box_{i},bin);" for i in order)
    num_repeated = 2 * (len(order) - len(set(order)))
    assert (refused_step(plan) is not None) is (num_repeated > MAX_REPEATED_STEPS)


@pytest.mark.parametrize(
    "plan",
    [
        "mf(100);tc(90);" * 20,
        "tp();d(1);" * 20,
        "l('beep');" * 40,
        "g(chair);g(door);" * 7,
        "g(chair);tp();d(5);" * 13,
        "".join(f"pick(cup);place(cup,box_{i});" for i in range(12)),
        "".join(f"pick(box_{i});place(box_{i},bin);" for i in range(40)),
        "60{g(chair);g(door);}",
    ],
)
def test_a_patrol_a_square_and_a_long_list_pass(plan):
    assert refused_step(plan) is None
