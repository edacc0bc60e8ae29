# SPDX-License-Identifier: Apache-2.0
"""Text from outside becomes harmless before a model reads it: one line, names of a fixed alphabet, no field markers.

A scene is data. Whatever is written into it, a sign that a camera reads or a sentence that poses as an order, arrives
at the model as a list of names with numbers. The task is an order, and stays a sentence, but it cannot spell the marks
that part the fields of a prompt. What robots say of failures is reduced to plain words.
"""

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

_MAX_COMBINING_RUN = 30  # Stream-Safe Text Format, UAX #15: normalising longer runs takes quadratic time
MAX_NAME_LENGTH = 40
_MAX_NAME_WORDS = 3
"""What has more words, numbers not counted, is a sentence and no name."""
_MAX_ENTRY_NUMBERS = 3
_MAX_KNOWN_ENTRY = 64
"""Longest entry, in characters, whose name is remembered: robots see the same things again."""

_ENTRY_END = re.compile(r"[,;\n]|\.(?=\s|$)|\s\band\b\s")
_BRACKETED = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
_PARENTHESES = re.compile(r"\([^()]*\)")
_IN_QUOTES = re.compile(r"^\s*'([^']*)'\s*$")
"""An entry of a list that was printed by Python."""
_QUOTED = re.compile(r'"[^"]*"?')
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_POSITION = re.compile(r"(?:\s-?\d+(?:\.\d+)?){2,3}\s*$")
_NAME_WORD = re.compile(r"[a-z0-9]+")
_HEADING = re.compile(r"^\s*(?:i (?:can )?see|(?:objects|in view|scene|visible|on the table)\s*:)\s*", re.IGNORECASE)
_ARTICLES = frozenset(("a", "an", "the", "some", "my", "your", "one"))
_WHERE = ("near", "on", "in", "at", "by", "next", "behind", "under", "over", "to", "from", "of")
_NAME_ENDS = frozenset((*_WHERE, "with", "is", "are", "that", "which", "who", "sitting", "standing", "lying"))
"""Words that end a name: what stands behind them tells where it is, or something about it."""
WITHIN_NAME = frozenset((*_ARTICLES, "of", "with", "without", "in", "on", "for"))
"""Words that a name may have within, where it is written as one word (``box_of_screws``); they do not count."""
_IDENTIFIER = re.compile(r"\s*([a-z0-9]+(?:_[a-z0-9]+)+)(?![a-z0-9_-])")


def flatten(text: str) -> str:
    """Returns ``text`` on one line, in Unicode form NFC, with single spaces and without invisible characters.

    Line breaks and control characters become spaces, so that the text cannot end its own field of the prompt;
    format characters (zero width, reversed direction) and lone surrogates disappear. Linear in the length.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", _without_hazards(text))
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(text.split())


@lru_cache(maxsize=64)  # prompt, checks and spelling ask for that of the same goal
def plain_scene(scene: str) -> str:
    """Returns a scene as names and numbers: ``cat_1 1.2 0.4, red_box``; whatever else it holds is left out.

    A name has at most 40 characters of ``a-z 0-9 _`` and at most three words, besides those of ``WITHIN_NAME`` in an
    identifier (``box_of_screws``). Positions may follow it, at most three
    numbers. Remarks in brackets, what stands behind a colon, sentences and repetitions are left out.

    Args:
        scene: A list, or sentences; untrusted.
    """
    return ", ".join(filter(None, dict.fromkeys(map(plain_entry, raw_entries(scene)))))


def scene_names(scene: str) -> list[str]:
    """Returns the names of a scene as ``plain_scene`` has them, in its order."""
    return [entry.partition(" ")[0] for entry in plain_scene(scene).split(", ") if entry]


def raw_entries(scene: str) -> Iterator[str]:
    """Yields what a scene has between its separators, on one line each, in lower case and ASCII."""
    text = _HEADING.sub("", flatten(scene.replace("\n", ", ")).strip("[]")).lower()
    return (_IN_QUOTES.sub(r"\1", entry) for entry in _entries(ascii_letters(text)))


def plain_task(text: str) -> str:
    """Returns an instruction or a reason on one line, without the marks that part the fields of a prompt."""
    return flatten(plain_line(text).replace(":", " "))


def plain_line(text: str) -> str:
    """Returns a text on one line, with the quotation marks of a typewriter: a model reads no other ones."""
    return flatten(text).translate(_QUOTATION_MARKS)


_QUOTATION_MARKS = str.maketrans({"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "`": "'"})


def plain_words(text: str, max_length: int) -> str:
    """Returns a robot's own words in lower case: letters, digits, ``_`` and spaces, cut to whole words."""
    words = re.findall(r"[a-z0-9_]+", ascii_letters(flatten(text).lower()))
    kept = ""
    for word in words:
        if len(kept) + len(word) + 1 > max_length:
            break
        kept = f"{kept} {word}" if kept else word
    return kept


def _entries(text: str) -> Iterator[str]:
    """Yields the entries of a scene; a separator within brackets parts nothing."""
    depth = start = 0
    ends = {match.start(): match.end() for match in _ENTRY_END.finditer(text)}
    for index, character in enumerate(text):
        depth = max(0, depth + (character in "([{") - (character in ")]}"))
        if depth == 0 and index in ends and index >= start:
            yield text[start:index]
            start = ends[index]
    yield text[start:]


def plain_entry(text: str) -> str:
    """Returns one of ``raw_entries`` as a name and numbers; empty if it holds no name."""
    return _known_entry(text) if len(text) <= _MAX_KNOWN_ENTRY else _read_entry(text)


def _read_entry(text: str) -> str:
    text = _QUOTED.sub(" ", text)
    brackets = _BRACKETED.findall(text)
    position = next((n for b in brackets if len(n := _NUMBER.findall(b)) > 1 and not re.search("[a-z]", b)), [])
    head = _BRACKETED.sub(" ", text).partition(":")[0]
    if not position and (behind := _POSITION.search(head)):
        position, head = behind.group().split(), head[: behind.start()]
    name = _name(head.replace("'s", "s"))
    return " ".join([name, *position[:_MAX_ENTRY_NUMBERS]]) if name else ""


_known_entry = lru_cache(maxsize=8192)(_read_entry)


def _name(head: str) -> str:
    """Returns the name that an entry begins with; empty if it is a sentence."""
    words = _words_of_identifier(head)
    if not words:
        first, *others = _NAME_WORD.findall(head) or [""]
        words = [first, *itertools.takewhile(lambda word: word not in _NAME_ENDS, others)]
        words = words[1:] if len(words) > 1 and first in _ARTICLES else words
        if not _is_short(words):
            return ""
    return "_".join(words)[:MAX_NAME_LENGTH].strip("_")


def _words_of_identifier(head: str) -> list[str]:
    """Returns the words of ``box_of_screws``; none if the entry begins with no such name."""
    identifier = _IDENTIFIER.match(head)
    words = identifier[1].split("_") if identifier else []
    counted = [word for word in words if word not in WITHIN_NAME]
    has_joints = len(counted) < len(words) and words[-1] not in WITHIN_NAME
    return words if has_joints and _is_short(counted) and _NAME_ENDS.isdisjoint(counted) else []


def _is_short(words: Sequence[str]) -> bool:
    return sum(not word.isdigit() for word in words) <= _MAX_NAME_WORDS


def without_remarks(text: str) -> str:
    """Returns an entry without what stands in quotes or parentheses."""
    return _PARENTHESES.sub(" ", _QUOTED.sub(" ", text))


def ascii_letters(text: str) -> str:
    """Returns the text with letters without accents; what has no such form is left out."""
    return text if text.isascii() else unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def _without_hazards(text: str) -> str:
    """Returns ``text`` without invisible characters and without endless runs of combining marks."""
    kept: list[str] = []
    run_length = 0
    for character in text:
        run_length = run_length + 1 if unicodedata.combining(character) else 0
        if run_length <= _MAX_COMBINING_RUN and unicodedata.category(character) not in {"Cf", "Cs"}:
            kept.append(character)
    return "".join(kept)
