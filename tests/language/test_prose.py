# SPDX-License-Identifier: Apache-2.0
"""Answers in words, cut while they are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.language.prose import (
    MAX_PIECE_CHARACTERS,
    ProseSplitter,
    ProseUnit,
    harmless,
    reading_time,
    split_prose,
)


def has_words(text):
    return any(map(str.isalnum, text))


def last_word_end(text):
    """What is no word, a line of question marks, say, goes with the piece before it or behind it."""
    return max((index + 1 for index, character in enumerate(text) if character.isalnum()), default=0)


prose = st.text(st.sampled_from("ab1 .!?\"')\n\u3002\u4f60e,-"), max_size=200) | st.text(max_size=200)

STORY = (
    "Once, Dr. A. Fox waited 3.5 days. She called: \u201cCome!\u201d Nobody came...\n\nThen, e.g. at 8 p.m. on Monday, "
    "a drone landed.\nIt said:\n1. Hello.\n2. Goodbye!"
)


def test_sentences():
    assert [piece.strip() for piece in split_prose(STORY, ProseUnit.SENTENCE)] == [
        "Once, Dr. A. Fox waited 3.5 days.",
        "She called: \u201cCome!\u201d",
        "Nobody came...",
        "Then, e.g. at 8 p.m.",  # the price of not knowing what follows
        "on Monday, a drone landed.",
        "It said:",
        "1. Hello.",
        "2. Goodbye!",
    ]


def test_paragraphs():
    first, second = split_prose(STORY, ProseUnit.PARAGRAPH)
    assert first.endswith("Nobody came...\n\n")
    assert second.startswith("Then,")


def test_languages_that_put_no_space_behind_a_sentence():
    assert split_prose("\u4f60\u597d\u3002\u518d\u89c1\uff01", ProseUnit.SENTENCE) == (
        "\u4f60\u597d\u3002",
        "\u518d\u89c1\uff01",
    )


@pytest.mark.parametrize("unit", ProseUnit)
@given(text=prose)
def test_the_pieces_are_the_text_and_each_holds_words(unit, text):
    pieces = split_prose(text, unit)
    joined = "".join(pieces)
    assert text.startswith(joined)
    assert not has_words(text[len(joined) :])
    assert all(map(has_words, pieces))


@given(text=prose)
def test_a_paragraph_is_made_of_whole_sentences(text):
    def ends(unit):
        pieces = split_prose(text, unit)
        return [last_word_end("".join(pieces[: i + 1])) for i in range(len(pieces))]

    assert set(ends(ProseUnit.PARAGRAPH)[:-1]) <= set(ends(ProseUnit.SENTENCE))


@pytest.mark.parametrize("unit", ProseUnit)
def test_what_never_ends_is_cut_at_a_space(unit):
    pieces = split_prose("word " * 3000, unit)
    assert len(pieces) > 3
    assert all(len(piece) <= MAX_PIECE_CHARACTERS + 5 and piece.endswith(" ") for piece in pieces[:-1])
    assert set(map(len, split_prose("a" * 6 * MAX_PIECE_CHARACTERS, unit))) == {2 * MAX_PIECE_CHARACTERS}


def test_nothing_to_read_is_nothing():
    assert split_prose(" \n...\n\n!", ProseUnit.SENTENCE) == ()
    assert ProseSplitter(ProseUnit.PARAGRAPH).finish() is None


def test_three_hundred_words_take_a_minute():
    duration = reading_time("word " * 300)
    assert duration.min_s == duration.p50_s == duration.p90_s == 60


def test_only_what_can_be_shown_passes():
    assert "".join(map(harmless, "a\x1b[31m\u202eb\x00\n\t\ud800\u200b\u00e9")) == "a[31mb\n\t\u00e9"
