# SPDX-License-Identifier: Apache-2.0
"""Where words of a plan are divided: as in the scene or the instruction, whatever a model made of it.

The bundled model's tokenizer drops spaces, so that "head light" and "headlight" are the same tokens to it: it copies
the letters of a name and guesses where its words end. Code reads that off the text.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from llm_planner.language.syntax import Name, Statement, Text
from llm_planner.language.texts import mapped
from llm_planner.planning.untrusted import ascii_letters, plain_scene

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_MAX_LENGTH = 4096


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
    """

    def __init__(self, instruction: str, scene: str = "", places: Iterable[str] = ()) -> None:
        self._instruction = instruction[:_MAX_LENGTH]
        words = (_Word(_letters(m.group()), m.start(), m.end()) for m in _WORD.finditer(self._instruction))
        self._words = [word for word in words if word.letters]
        seen = (entry.partition(" ")[0] for entry in plain_scene(scene).split(", "))
        self._known = frozenset(filter(None, (*places, *seen)))
        self._by_letters = {_letters(name): name for name in sorted(self._known)}

    def apply(self, statement: Statement) -> Statement:
        """Returns the statement with those names and texts respelled whose letters the scene or the instruction has."""
        return mapped(statement, self._respelled)

    def _respelled(self, node: object) -> object:
        match node:
            case Name(name):
                return Name(self._name(name))
            case Text(text):
                return Text(self._text(text))
            case _:
                return node

    def _name(self, name: str) -> str:
        letters = _letters(name)
        if name in self._known or letters in self._by_letters:
            return name if name in self._known else self._by_letters[letters]
        spellings = ["_".join(word.letters for word in words) for words in self._occurrences(letters)]
        names = [spelling for spelling in spellings if not spelling[0].isdigit()]
        return name if name in names else next(iter(names), name)

    def _text(self, text: str) -> str:
        if text in self._instruction:  # with its punctuation
            return text
        said = (self._instruction[words[0].start : words[-1].end] for words in self._occurrences(_letters(text)))
        return next(said, text)

    def _occurrences(self, letters: str) -> Iterator[list[_Word]]:
        """Yields the runs of words in the instruction that have these letters."""
        for start in range(len(self._words)):
            rest = letters
            for end in range(start, len(self._words)):
                if not rest.startswith(self._words[end].letters) or not rest:
                    break
                rest = rest[len(self._words[end].letters) :]
                if not rest:
                    yield self._words[start : end + 1]


def _letters(text: str) -> str:
    return "".join(re.findall(r"[a-z0-9]+", ascii_letters(text).lower()))
