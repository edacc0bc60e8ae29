# SPDX-License-Identifier: Apache-2.0
"""How names and texts of a plan are spelled: as in the scene or the instruction, whatever a model made of it.

The bundled model's tokenizer drops spaces, so that "head light" and "headlight" are the same tokens to it: it copies
the letters of a name and guesses where its words end. Code reads that off the text. It reads amounts in plain figures
("60 s" for "one minute", ``quantities``), too, and copies them into what is to be said: people hear their own
words.

Any model copies what was said: "the mug" where the scene has ``blue_mug`` and no other one, "the old rag" where it has
``rag``. A robot that cannot look for another one has that name instead.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from llm_planner.language.syntax import Name, Statement, Text
from llm_planner.language.texts import mapped
from llm_planner.planning.instruction.names import COLOURS, bare_words, name_words
from llm_planner.planning.instruction.quantities import plain_pieces
from llm_planner.planning.safety.living import LIKENESSES
from llm_planner.planning.untrusted import ascii_letters, scene_names

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_MAX_LENGTH = 4096
_DETERMINERS = re.compile(r"(?:the|an?|my|your|our|his|her|its?|their|thi|that|these|those|and)?")
_SAYS_NOT_WHICH = re.compile(r"whole|entire|old|new|clean|dirty|wet|used|empty|full|spare|broken|own|nice")
"""What a thing is like, and does not tell it from another one that can be seen."""


class _Word(NamedTuple):
    letters: str
    start: int
    end: int


class Spelling:
    """Spells the names and texts of one plan.

    Args:
        instruction: As it came; untrusted.
        scene: Likewise. Its names are those that the robot knows, and come first.
        places: Names that the robot always knows.
        can_search: Whether it may look for what the scene does not have.
    """

    def __init__(
        self, instruction: str, scene: str = "", places: Iterable[str] = (), *, can_search: bool = True
    ) -> None:
        self._instruction = instruction[:_MAX_LENGTH]
        self._words = [*_words(self._instruction, 0)]
        self._read_words = [*_read_words(self._instruction)]
        self._known = frozenset((*places, *scene_names(scene)))
        self._by_letters = {_letters(name): name for name in sorted(self._known)}
        self._seen = frozenset() if can_search else self._known

    def apply(self, statement: Statement) -> Statement:
        """Returns the statement with those names and texts respelled whose letters the scene or the instruction has."""
        return mapped(statement, self._respelled)

    def _respelled(self, node: object) -> object:
        match node:
            case Name(name):
                spelled = self._name(name)
                return Text(spelled) if spelled[0].isdigit() else Name(spelled)
            case Text(text):
                return Text(self._text(text))
            case _:
                return node

    def _name(self, name: str) -> str:
        letters = _letters(name)
        if letters in self._by_letters:
            return name if name in self._known else self._by_letters[letters]
        spellings = ["_".join(word.letters for word in words) for words in _occurrences(letters, self._words)]
        names = [spelling for spelling in spellings if not spelling[0].isdigit()]
        return self._as_seen(name if name in names else next(iter(names), name))

    def _as_seen(self, name: str) -> str:
        """Returns what the scene calls a thing: ``blue_mug`` for "the mug", if only one is in view and may be meant."""
        words = name_words(name)
        kin = [seen for seen in self._seen if words and name_words(seen)[-1:] == words[-1:]]
        if len(kin) != 1:
            return name
        seen, said = name_words(kin[0]), bare_words(self._instruction)
        before = [word for word, what in pairwise(("", *said)) if what == words[-1]]
        others, more = {*words} - {*seen}, {*seen} - {*words}
        if others:  # "the old rag", and not "the old rag and the new rag"
            is_meant = not more and len(before) == 1 and all(map(_SAYS_NOT_WHICH.fullmatch, others))
        else:
            is_meant = all(word in seen or _DETERMINERS.fullmatch(word) for word in before)
        is_meant &= LIKENESSES.isdisjoint(more) and not any(map(_DETERMINERS.fullmatch, more))  # his_mug
        numbers = {*re.findall(r"\d+", name)} - {*re.findall(r"\d+", kin[0])}
        elsewhere = {word for each in self._seen for word in name_words(each)}
        return kin[0] if is_meant and not numbers and COLOURS.intersection(said) <= elsewhere else name

    def _text(self, text: str) -> str:
        if text in self._instruction:  # with its punctuation
            return text
        for known in (self._words, self._read_words):
            for words in _occurrences(_letters(text), known):
                return self._instruction[words[0].start : words[-1].end]
        return text


def _words(text: str, offset: int) -> Iterator[_Word]:
    """Yields the words of a part of an instruction that begins at ``offset``."""
    for match in _WORD.finditer(text):
        if letters := _letters(match.group()):
            yield _Word(letters, offset + match.start(), offset + match.end())


def _read_words(instruction: str) -> Iterator[_Word]:
    """Yields the words that the bundled model reads; those of an amount stand for all of its words."""
    for place, (piece, start, end) in enumerate(plain_pieces(instruction)):
        is_amount = place % 2 == 1
        for word in _words(piece, start):
            yield _Word(word.letters, start, end) if is_amount else word


def _occurrences(letters: str, words: Sequence[_Word]) -> Iterator[Sequence[_Word]]:
    """Yields the runs of words that have these letters."""
    for start in range(len(words)):
        rest = letters
        for end in range(start, len(words)):
            if not rest.startswith(words[end].letters):
                break
            rest = rest[len(words[end].letters) :]
            if not rest:
                yield words[start : end + 1]


def _letters(text: str) -> str:
    return "".join(re.findall(r"[a-z0-9]+", ascii_letters(text).lower()))
