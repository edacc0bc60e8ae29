# SPDX-License-Identifier: Apache-2.0
"""Answers in words: cut into sentences or paragraphs while they are written (TimelyLLM, section 7.4.2)."""

import re
import unicodedata
from enum import Enum

from llm_planner.core.segment import ExpectedDuration

READING_WORDS_PER_S = 300 / 60
"""How fast an adult reads (TimelyLLM, section 7.1)."""

MAX_PIECE_CHARACTERS = 2000
"""What has no end by then is cut at the next space, or, after as many characters again, anywhere."""

_SENTENCE_END = re.compile(r"""[.!?\u2026]["'\u2019\u201d)\]*_]*(?=\s)\s|[\u3002\uff01\uff1f]|\n""")
_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n")
_NO_END = re.compile(r"(?:^|\W)(?:[A-Z]|Mrs?|Ms|Dr|Prof|St|vs|etc|e\.g|i\.e|\d+)\.\s$")
"""A full stop behind an initial, a title, an abbreviation or the number of a list item ends no sentence."""


class ProseUnit(Enum):
    """What one segment of an answer is."""

    SENTENCE = "sentence"
    PARAGRAPH = "paragraph"


class ProseSplitter:
    """Cuts a text into sentences or paragraphs, whose concatenation it is; a paragraph is made of whole sentences.

    Each piece holds at least one word, and the white space behind it as far as it was there in time.
    """

    def __init__(self, unit: ProseUnit) -> None:
        self._end = _SENTENCE_END if unit is ProseUnit.SENTENCE else _PARAGRAPH_END
        self._is_sentence = unit is ProseUnit.SENTENCE
        self._text = ""
        self._has_words = False

    def feed(self, character: str) -> str | None:
        """Returns the piece that the next character completed."""
        self._text += character
        self._has_words = self._has_words or character.isalnum()
        can_end = character.isspace() or character in "\u3002\uff01\uff1f"
        if not self._has_words or not (can_end or len(self._text) >= 2 * MAX_PIECE_CHARACTERS):
            return None
        return self._take() if len(self._text) >= MAX_PIECE_CHARACTERS or self._is_ended() else None

    def finish(self) -> str | None:
        """Returns what is left at the end of the text, if there are words in it."""
        return self._take() if self._has_words else None

    def _is_ended(self) -> bool:
        tail = self._text[-16:]
        ends = [match.end() for match in self._end.finditer(tail)]
        if not ends or ends[-1] != len(tail):
            return False
        return not (self._is_sentence and _NO_END.search(tail))

    def _take(self) -> str:
        piece, self._text, self._has_words = self._text, "", False
        return piece


def split_prose(text: str, unit: ProseUnit) -> tuple[str, ...]:
    """Returns the pieces of a whole text."""
    splitter = ProseSplitter(unit)
    pieces = [piece for character in text if (piece := splitter.feed(character)) is not None]
    last = splitter.finish()
    return (*pieces, last) if last is not None else tuple(pieces)


def harmless(character: str) -> str:
    """Returns a character if it may reach a screen: no control or format characters, no surrogates; else nothing."""
    return character if character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Cs"} else ""


def reading_time(text: str) -> ExpectedDuration:
    """Returns how long a person reads ``text``: the execution model of a chat (TimelyLLM, section 7.1)."""
    time_s = len(text.split()) / READING_WORDS_PER_S
    return ExpectedDuration(min_s=time_s, p50_s=time_s, p90_s=time_s)
