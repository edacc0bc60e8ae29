# SPDX-License-Identifier: Apache-2.0
"""Sentences from templates: alternatives, slots, held-out variants, politeness and typing errors.

A template is plain text with ``(a|b|)`` alternatives (not nested) and ``{slot}`` places; each way to fill its
alternatives is a variant. Up to one variant in six, by hash, is held out: training never sees it, and evaluation uses
nothing else, as far as a family has some. A held-out variant is a new sentence of known words, with at most one pair
of neighbours that no variant for training of its family has (a model that is trained from nothing cannot know a word
that it never met).
"""

import itertools
import random
import re
import zlib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_ALTERNATIVES = re.compile(r"\(([^()]*)\)")
_WORD = re.compile(r"[a-z{}']+")
_TOKEN = re.compile(r"[a-z{}']+|[^a-z{}'\s]")
HELD_OUT_SHARE = 6
_NEW_PAIRS = 1

Groups = tuple[tuple[str, ...], ...]

_PREFIXES = (
    "",
    "",
    "",
    "",
    "",
    "please ",
    "please ",
    "could you ",
    "can you ",
    "hey, ",
    "robot, ",
    "now ",
    "i want you to ",
    "ok, ",
    "could you please ",
    "would you ",
    "i need you to ",
    "hi, ",
    "your task: ",
    "go ahead and ",
    "quickly ",
    "kindly ",
    "would you be so kind and ",
    "listen, ",
    "i'd like you to ",
    "right, ",
    "can you please ",
    "would you please ",
    "hey robot, ",
    "ok, please ",
    "now please ",
    "i would like you to ",
    "please, ",
    "hi, please ",
)
_SUFFIXES = (
    "",
    "",
    "",
    "",
    "",
    "",
    ".",
    ".",
    ".",
    " please",
    " please.",
    "!",
    ", thanks",
    " for me",
    ", please",
    " now.",
    ", thank you",
    " if you don't mind",
    " right away",
    ", would you?",
    " for me, please",
    " now, please",
    " right now",
    " now",
    " please!",
)
_JOINERS = (
    ", then ",
    " and then ",
    ", and then ",
    " then ",
    " and ",
    ", ",
    ". ",
    "; ",
    ". then ",
    ", after that ",
    ". after that, ",
    ". next, ",
    " and after that ",
    ". finally, ",
    ", afterwards ",
    ". once done, ",
    ". and then ",
    ", and after that ",
    "; then ",
    ". then, ",
    " and finally ",
    ", next ",
)


def read_templates(name: str) -> dict[str, Any]:
    """Returns a file of ``templates/``, every text in it as ``lines``."""

    def parsed(node: Any) -> Any:
        if isinstance(node, str):
            return lines(node)
        if isinstance(node, dict):
            return {key: parsed(value) for key, value in node.items()}
        return [parsed(value) for value in node] if isinstance(node, list) else node

    path = Path(__file__).with_name("templates") / f"{name}.yaml"
    return dict(parsed(yaml.safe_load(path.read_text(encoding="utf-8"))))


def lines(text: str) -> tuple[str, ...]:
    """Returns the lines of a text without indentation: one template each."""
    return tuple(filter(None, map(str.strip, text.splitlines())))


@cache
def split(templates: tuple[str, ...]) -> tuple[Groups, Groups]:
    """Returns the variants of templates, grouped by template: those for training, and the held-out ones."""
    groups = [list(dict.fromkeys(_variants(template))) for template in dict.fromkeys(templates)]
    variants = list(dict.fromkeys(variant for group in groups for variant in group))
    held_out = _held_out(variants)
    return (
        _nonempty([[variant for variant in group if variant not in held_out] for group in groups]),
        _nonempty([[variant for variant in group if variant in held_out] for group in groups]),
    )


def _held_out(variants: list[str]) -> set[str]:
    """Returns up to one variant in six: never the first (the plainest), none with new words or several new pairs."""
    candidates: set[str] = set()
    count = Counter(word for variant in variants for word in set(_WORD.findall(variant)))
    for variant in sorted(variants[1:], key=lambda text: zlib.crc32(text.encode())):
        words = set(_WORD.findall(variant))
        if len(candidates) < len(variants) / HELD_OUT_SHARE and words and all(count[word] > 1 for word in words):
            candidates.add(variant)
            count.subtract(words)
    known = {pair for variant in variants if variant not in candidates for pair in _pairs(variant)}
    return {variant for variant in candidates if len(_pairs(variant) - known) <= _NEW_PAIRS}


def _pairs(variant: str) -> set[tuple[str, str]]:
    """Returns the neighbouring words and marks, the beginning and the end included."""
    tokens = ["<", *_TOKEN.findall(variant), ">"]
    return set(itertools.pairwise(tokens))


def choose(rng: random.Random, templates: tuple[str, ...], *, held_out: bool, share: float = 1.0) -> str:
    """Returns one variant, its slots still empty.

    Args:
        rng: Source of chance.
        templates: Of a family.
        held_out: Draw from the held-out variants, as far as there are any.
        share: How often ``held_out`` is followed; the rest draws from the ones for training.
    """
    trained, unseen = split(templates)
    groups = unseen if held_out and unseen and rng.random() < share else trained
    return rng.choice(rng.choice(groups))


def choose_any(rng: random.Random, templates: tuple[str, ...]) -> str:
    """Returns one variant of all, its slots still empty: where safety matters, none is held out."""
    trained, unseen = split(templates)
    return rng.choice([variant for group in (*trained, *unseen) for variant in group])


def fill(variant: str, **slots: str) -> str:
    """Returns the variant with its slots filled and single spaces."""
    return " ".join(variant.format(**slots).split())


def _variants(template: str) -> list[str]:
    parts = _ALTERNATIVES.split(template)
    choices = [part.split("|") if index % 2 else [part] for index, part in enumerate(parts)]
    return ["".join(combination) for combination in itertools.product(*choices)]


def _nonempty(groups: list[list[str]]) -> Groups:
    return tuple(tuple(group) for group in groups if group)


def decorate(rng: random.Random, text: str, *, held_out: bool) -> str:
    """Returns the sentence with some politeness around it."""
    prefix = choose(rng, _PREFIXES, held_out=held_out, share=0.3)
    return prefix + text + choose(rng, _SUFFIXES, held_out=held_out, share=0.3)


def join(rng: random.Random, clauses: list[str], *, held_out: bool) -> str:
    """Returns several clauses as one sentence."""
    text = clauses[0]
    for clause in clauses[1:]:
        text += choose(rng, _JOINERS, held_out=held_out, share=0.3) + clause
    return text


def misspell(rng: random.Random, text: str, protected: frozenset[str]) -> str:
    """Returns the text with one typing error in a word that carries no name and no number, if there is such a word."""
    words = text.split(" ")
    places = [
        index
        for index, word in enumerate(words)
        if len(word) > 3 and word.isalpha() and not protected.intersection((word, word.lower()))
    ]
    if not places:
        return text
    index = rng.choice(places)
    word = words[index]
    place = rng.randrange(1, len(word) - 1)
    kind = rng.randrange(4)
    if kind == 0:
        word = word[:place] + word[place + 1 :]
    elif kind == 1:
        word = word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    elif kind == 2:
        word = word[:place] + word[place] + word[place:]
    else:
        word = word[:place] + rng.choice("abcdefghijklmnopqrstuvwxyz") + word[place + 1 :]
    words[index] = word
    return " ".join(words)


def recase(rng: random.Random, text: str) -> str:
    """Returns the text in one of the ways people write: lower case, Sentence case, rarely CAPITALS."""
    kind = rng.random()
    if kind < 0.5:
        return text
    return text[:1].upper() + text[1:] if kind < 0.95 else text.upper()
