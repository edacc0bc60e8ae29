# SPDX-License-Identifier: Apache-2.0
"""Guesses: what the prompt says goes on, what earlier plans said there, and nothing that the grammar forbids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.engine import drafting
from llm_planner.engine.drafting import Drafter, PlanHabits
from llm_planner.engine.grammar import GrammarCompiler
from tests.engine.builders import VOCAB_SIZE, byte_level_tokenizer

OPEN, CLOSE, PICK, PLACE = 300, 301, 302, 303
RED, UNDERLINE, BOX, BLUE, CUP = 10, 11, 12, 13, 14
SCENE = (RED, UNDERLINE, BOX, 99, BLUE, UNDERLINE, CUP, 98)


def guesses(drafter, max_tokens=8, least_probability=0.0, matcher=None):
    return drafter.draft(matcher, max_tokens, least_probability)


def teach(habits, *plans, prompt=SCENE):
    for plan in plans:
        Drafter(prompt, habits).advance(plan)


def test_nothing_is_guessed_from_nothing():
    assert guesses(Drafter((), PlanHabits())) == ()
    assert guesses(Drafter(SCENE, PlanHabits())) == ()


def test_a_name_goes_on_as_in_the_prompt():
    drafter = Drafter(SCENE, PlanHabits())
    drafter.advance((PICK, OPEN, BLUE))
    assert guesses(drafter, 2) == (UNDERLINE, CUP)


def test_two_tokens_tell_more_than_one():
    drafter = Drafter(SCENE, PlanHabits(), (PICK, OPEN, RED, UNDERLINE))
    assert guesses(drafter, 1) == (BOX,)  # not the cup, which is the last to follow an underline


def test_between_names_a_plan_goes_on_as_others_did_with_other_names():
    habits = PlanHabits()
    teach(habits, (PICK, OPEN, BOX, CLOSE, PLACE, OPEN))
    drafter = Drafter((50, 97), habits, (PICK, OPEN, 50))
    assert guesses(drafter, 3) == (CLOSE, PLACE, OPEN)


def test_habits_of_the_words_of_a_plan_need_no_prompt():
    habits = PlanHabits()
    teach(habits, (PICK, OPEN, 77, CLOSE), prompt=())
    assert guesses(Drafter((), habits)) == (PICK, OPEN, 77, CLOSE)


def test_a_doubtful_guess_is_not_made():
    habits = PlanHabits()
    teach(habits, (PICK, OPEN), (PICK, OPEN), (PICK, CLOSE))
    drafter = Drafter((), habits)
    drafter.advance((PICK,))
    assert guesses(drafter, 8, 0.5) == (OPEN,)  # 2 of 3
    assert guesses(Drafter((), habits, (PICK,)), 8, 0.8) == ()


def test_guesses_that_were_wrong_are_trusted_less():
    habits = PlanHabits()
    before = habits.probability((1, False))
    for _ in range(5):
        drafter = Drafter(SCENE, habits)
        drafter.advance((BLUE,))
        assert guesses(drafter, 1, 0.0)[0] in {UNDERLINE, CLOSE}
        drafter.advance((CLOSE,))
    assert habits.probability((1, False)) < before


def test_what_it_brings_with_it_is_not_learned_again():
    habits = PlanHabits()
    drafter = Drafter(SCENE, habits, (PICK, OPEN, BLUE))
    assert guesses(drafter, 2) == (UNDERLINE, CUP)
    assert guesses(Drafter(SCENE, habits)) == ()


def test_habits_are_bounded(monkeypatch):
    monkeypatch.setattr(drafting, "_MAX_PATTERNS", 8)
    habits = PlanHabits()
    teach(habits, tuple(range(300, 340)), prompt=())
    assert len(habits._next) == 8
    assert habits.guess((338,)).token_id == 339
    assert habits.guess((300,)) is None


@pytest.fixture(scope="module")
def compiler():
    return GrammarCompiler(byte_level_tokenizer().backend_tokenizer.to_str(), VOCAB_SIZE, {2})


@given(
    prompt=st.lists(st.integers(3, VOCAB_SIZE - 9), max_size=30),
    plans=st.lists(st.lists(st.integers(3, VOCAB_SIZE - 9), max_size=12), max_size=3),
    num_tokens=st.integers(0, 8),
    least=st.floats(0.0, 1.0),
)
def test_a_draft_is_always_what_the_grammar_allows_and_leaves_it_where_it_was(
    compiler, prompt, plans, num_tokens, least
):
    matcher = compiler.matcher('start: ("mf(1" /[0-9]/ "0);" | "g(" /[a-z_]+/ ");")+\n')
    habits = PlanHabits()
    teach(habits, *plans, prompt=prompt)
    teach(habits, byte_level_tokenizer().encode("mf(130);g(box);", add_special_tokens=False), prompt=prompt)
    drafter = Drafter(prompt, habits)
    draft = guesses(drafter, num_tokens, least, matcher)
    assert len(draft) <= num_tokens
    assert matcher.forced_token() is None
    assert all(matcher.try_accept(token) for token in draft)
