# SPDX-License-Identifier: Apache-2.0
"""The entries of a scene, and which of them a task can spare: a long scene costs time that an urgent task has not.

A scene is free text, in practice a list: of objects in view, of things on a table. What the task does not speak of is
seldom needed for its plan. Query-aware pruning of a prompt before it is computed is known from LongLLMLingua
(arXiv 2310.06839, section 4.1), which asks a language model what matters. Deviation: here it is the likeness of words,
which costs a millisecond and needs no model.
"""

import itertools
import re
from collections.abc import Set as AbstractSet

from llm_planner.planning.plurals import singular
from llm_planner.planning.untrusted import ascii_letters

MAX_DROPPED_SHARE = 0.9
"""Of the scene's characters. Assumed: nine tenths cost no plan (docs/benchmarks/timebill.md), more was not measured."""

_ENTRY = re.compile(r"(?:\([^()\n]*\)|[^,;\n])+[,;\n]?\s*")
_HEADING = re.compile(r"(?:[^,;:\n]*:)+\s*")
_WORD = re.compile(r"[^\W\d_]+|\d+")
_LETTERS = re.compile(r"[a-z]{2,}")
_JOINING = frozenset(
    ["an", "and", "at", "by", "for", "in", "is", "it", "me", "my", "of", "on", "or", "the", "to", "with"]
)
"""Words that name nothing."""


def entries_of(scene: str) -> list[str]:
    """Returns the entries of a scene without what parts them, a heading left out; empty ones too."""
    return [scene[start:end].strip(" ,;\n") for start, end in _spans(scene)]


def droppable_entries(scene: str, instruction: str) -> list[tuple[int, int]]:
    """Returns half-open ranges of characters, one per entry of the scene, the one that the task needs least first.

    Entries end at commas, semicolons and line breaks outside of brackets. A heading ("objects:") is none. One that has
    a word of the task is needed: left out as well, it costs plans. Of equals, the last one is the first to go. Some
    scene is always left: a tenth of it, and the entry that the task needs most.

    Args:
        scene: Any text.
        instruction: What is to be done.
    """
    entries = _spans(scene)
    asked, said = trigrams(instruction), _names(instruction)
    likeness = [resemblance(scene[start:end], asked) for start, end in entries]
    order = sorted(range(len(entries)), key=lambda index: (likeness[index], -index))[:-1]
    spare = [entries[index] for index in order if said.isdisjoint(_names(scene[slice(*entries[index])]))]
    left = itertools.accumulate(end - start for start, end in spare)
    num_dropped = sum(1 for _ in itertools.takewhile(lambda size: size <= MAX_DROPPED_SHARE * len(scene), left))
    return spare[:num_dropped]


def _names(text: str) -> frozenset[str]:
    """Returns the words that may name something, in the singular."""
    return frozenset(map(singular, _LETTERS.findall(ascii_letters(text).lower()))) - _JOINING


def _spans(scene: str) -> list[tuple[int, int]]:
    """Returns half-open ranges of characters, one per entry with the separator behind it."""
    heading = _HEADING.match(scene)
    return [match.span() for match in _ENTRY.finditer(scene, heading.end() if heading else 0)]


def trigrams(text: str) -> frozenset[str]:
    """Returns the letters of its words in threes, with a space before and behind each word."""
    return frozenset().union(*map(_trigrams, _WORD.findall(text.lower())))


def resemblance(entry: str, asked: AbstractSet[str]) -> float:
    """Returns how much of one of its words occurs in a task, 0 to 1: letters in threes forgive typing errors.

    Args:
        entry: Of a scene.
        asked: The ``trigrams`` of the task.
    """
    words = [_trigrams(word) for word in _WORD.findall(entry.lower())]
    return max((len(word & asked) / len(word) for word in words), default=0.0)


def _trigrams(word: str) -> frozenset[str]:
    padded = f" {word} "
    return frozenset(padded[start : start + 3] for start in range(len(padded) - 2))
