# SPDX-License-Identifier: Apache-2.0
"""Sentences that depend on their scene, about other things: so that they are understood, instead of known by heart.

Such a sentence has no slots, because what it says of a thing may only be true of that thing. But a word that it shares
with names of its scene is found there by its letters, whatever it is: "the empty can, I need the full one" may as well
be said of a wooden can and a blue one.
"""

import random
import re
from collections.abc import Callable
from dataclasses import replace

from llm_planner.planning.plurals import singular
from llm_planner.planning.safety.living import is_living
from llm_planner_lab.tasks.frames import OBJECT, Frame
from llm_planner_lab.tasks.words import COLOURS, THINGS

_QUALITIES = (
    *COLOURS,
    *("big", "small", "old", "new", "clean", "dirty", "empty", "full", "broken", "wooden", "metal", "plastic", "tall"),
    *("short", "round", "square", "heavy", "light", "open", "spare", "cracked", "rusty", "striped", "long", "thick"),
)
_KEPT = frozenset(
    (
        *("left", "right", "area", "table", "bin", "floor", "home", "place", "top", "front", "back"),
        *("me", "you", "it", "one", "two", "three", "four", "five", "six", "person", "man", "woman"),
    )
)

_WORD = re.compile(r"[A-Za-z]+")


def renamed(rng: random.Random, frame: Frame) -> Frame:
    """Returns a frame with other words in place of those that its sentence shares with its scene; itself if none."""
    if not frame.scene or OBJECT.search(frame.sentence):
        return frame
    said = {singular(word.lower()) for word in _WORD.findall(frame.sentence)}
    taken = said | {word for name in frame.scene for word in _WORD.findall(name)}
    heads = {_head(name) for name in frame.scene}
    others: dict[str, str] = {}
    for word in dict.fromkeys(word for name in frame.scene for word in _WORD.findall(name)):
        if singular(word) in said and word not in _KEPT and word not in others:
            pool = THINGS if word in heads else _QUALITIES
            others[word] = rng.choice([other for other in pool if other not in taken and not is_living(other)])
            taken.add(others[word])

    def change(match: re.Match[str]) -> str:
        word = match.group()
        lower = word.lower()
        if lower in others:
            other = others[lower]
        else:
            known = next((w for w in others if singular(w) == singular(lower) != lower), None)
            if known is None:
                return word
            other = _plural(others[known])
        return other.capitalize() if word[0].isupper() else other

    sentence = _with_articles(_WORD.sub(change, frame.sentence))
    scene = tuple(_WORD.sub(change, name) for name in frame.scene)
    return replace(frame, sentence=sentence, scene=scene, plan=_in_plan(frame.plan, change))


def _in_plan(plan: str, change: Callable[[re.Match[str]], str]) -> str:
    """Returns the plan with changed arguments; a word in front of a parenthesis is a skill."""
    return re.sub(r"[A-Za-z]+(?![A-Za-z]*\()", change, plan)


def _head(name: str) -> str:
    return next((word for word in reversed(_WORD.findall(name))), "")


def _plural(noun: str) -> str:
    """Returns the plural of a regular noun."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"


def _with_articles(sentence: str) -> str:
    return re.sub(
        r"\b(a)n?( +)(?=(\w))",
        lambda m: m[1] + ("n" if m[3].lower() in "aeiou" else "") + m[2],
        sentence,
        flags=re.IGNORECASE,
    )
