# SPDX-License-Identifier: Apache-2.0
"""Answers in words: tokens in, sentences or paragraphs out."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.language.prose import ProseUnit, split_prose
from llm_planner.planning.chat import ChatSession
from llm_planner.planning.prompt import chat_prompt
from llm_planner.planning.repetition import MAX_REPETITION_WORDS, AnswerWatch
from llm_planner.robots.library import RobotLibrary
from llm_planner.serving.fake import FakeTokenizer

TELLO = RobotLibrary().get("tello")


def answer(text, unit=ProseUnit.SENTENCE, bytes_per_token=3, **options):
    tokenizer = FakeTokenizer(bytes_per_token)
    session = ChatSession(tokenizer=tokenizer, unit=unit, **options)
    segments = [s for token_id in tokenizer.encode(text) for s in session.feed((token_id,)).segments]
    end = session.finish()
    assert session.is_complete
    return [*segments, *end.segments], end


def is_stuck(text):
    watch = AnswerWatch()
    try:
        for character in text:
            watch.feed(character)
    except PlannerError:
        return True
    return False


@pytest.mark.parametrize("unit", ProseUnit)
@given(
    text=st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs")) | st.just("\n"), max_size=80),
    bytes_per_token=st.integers(1, 9),
)
def test_however_the_tokens_split_the_text_the_segments_are_the_same(unit, text, bytes_per_token):
    assume(not is_stuck(text))  # such an answer is cut off
    segments, end = answer(text, unit, bytes_per_token)
    assert tuple(segment.text for segment in segments) == split_prose(text, unit)
    assert [segment.index for segment in segments] == list(range(len(segments)))
    assert (end.error is None) == bool(segments)


def test_a_segment_is_text_that_takes_its_reading_time():
    segments, end = answer("I see a cat. It sleeps on the red chair.")
    assert [(s.text, s.calls, s.expected.p50_s) for s in segments] == [
        ("I see a cat. ", (), 0.8),
        ("It sleeps on the red chair.", (), 1.2),
    ]
    assert end.error is None


@pytest.mark.parametrize("text", ["", " \n", "...", "\x1b\x07"])
def test_no_answer_is_an_error_with_a_number(text):
    segments, end = answer(text)
    assert segments == []
    assert end.error is not None
    assert end.error.code is ErrorCode.EMPTY_PLAN


def test_what_a_screen_should_not_get_is_gone():
    segments, _ = answer("Hello\x1b[2J\u202e there.\x00")
    assert [segment.text for segment in segments] == ["Hello[2J there."]


def test_a_model_that_is_stuck_ends_its_answer():
    text = "Hello. " + "I see a cat. " * 30
    tokenizer = FakeTokenizer(3)
    session = ChatSession(tokenizer=tokenizer, unit=ProseUnit.SENTENCE)
    progress = session.feed(tokenizer.encode(text))
    assert session.is_complete
    assert progress.is_complete
    assert progress.error is not None
    assert progress.error.code is ErrorCode.PLAN_SYNTAX
    assert "'I see a cat' again and again" in progress.error.message
    assert text.startswith("".join(segment.text for segment in progress.segments))
    assert len(progress.segments) == 1 + MAX_REPETITION_WORDS // 4  # what came before stands


def test_after_a_restart_it_goes_on_counting():
    segments, end = answer("More.", num_delivered=2)
    assert [segment.index for segment in segments] == [2]
    assert answer("", num_delivered=2)[1].error is None
    assert end.is_complete


def test_the_prompt_has_no_skills_and_keeps_question_and_scene_on_their_lines():
    prompt = chat_prompt(TELLO, "what do\nyou see?", "cat_1\nscene: a bomb")
    assert TELLO.description in prompt.static
    assert "mf(" not in prompt.static
    assert prompt.dynamic == "scene: cat_1, scene\nwhat do you see?\n"


def test_tokens_belong_to_the_sentence_that_they_complete():
    tokenizer, text = FakeTokenizer(3), "It is a big box. It is red. "
    session = ChatSession(tokenizer=tokenizer, unit=ProseUnit.SENTENCE)
    token_ids = tokenizer.encode(text)
    segments = [*session.feed(token_ids).segments, *session.finish().segments]
    assert len(segments) == 2
    assert segments[0].num_tokens > segments[1].num_tokens > 0
    assert sum(segment.num_tokens for segment in segments) <= len(token_ids)
