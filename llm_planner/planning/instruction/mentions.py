# SPDX-License-Identifier: Apache-2.0
"""Where an instruction names things of its scene."""

import re
from collections.abc import Collection

from llm_planner.planning.instruction.names import bare_words

_NO_NAMES = frozenset(
    {"left", "right", "top", "bottom", "front", "back", "side", "of", "in", "on", "with", "the", "one"}
)
"""Words of names that do not say which thing is meant, if they stand alone."""
MARK = re.compile(r"([,;:.!?()\u2013\u2014]|\s-+\s)")
"""What parts the clauses of an instruction; ``split`` yields clauses and marks by turns."""


def marked(instruction: str, names: Collection[str]) -> tuple[str, list[frozenset[str]]]:
    """Returns the words of an instruction with a number for each thing that they name, and the names that each may be.

    "Put the red cup on the tray" is ``"put the @0 on the @1 ;"``, with ``[{"red_cup"}, {"tray"}]``. "The cup" may be
    ``red_cup`` as well as ``blue_cup``; what is called so exactly is meant before others.

    Args:
        instruction: As it came; untrusted.
        names: Of things and places.
    """
    words_of = {name: bare_words(name) for name in names}
    having: dict[str, set[str]] = {}
    for name, words in words_of.items():
        for word in words:
            having.setdefault(word, set()).add(name)
    mentions: list[frozenset[str]] = []
    text: list[str] = []
    for clause in MARK.split(instruction[:4096]):
        words = bare_words(clause)
        if not words and clause.strip():
            text.append("," if clause == "," else ";")
        start = 0
        while start < len(words):
            end, found = start, having.get(words[start], set())
            while end < len(words) and (both := found & having.get(words[end], set())):
                end, found = end + 1, both
            said = words[start:end]
            exact = {name for name in found if [w for w in words_of[name] if not w.isdigit()] == said}
            exact = {name for name in found if words_of[name] == said} or exact
            if exact or (found and not _NO_NAMES.issuperset(word for word in said if not word.isdigit())):
                text.append(f"@{len(mentions)}")
                mentions.append(frozenset(exact or found))
            else:
                end = start + 1
                text.append(words[start])
            start = end
    return f"{' '.join(text)} ;", mentions
