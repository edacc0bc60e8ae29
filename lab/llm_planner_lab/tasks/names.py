# SPDX-License-Identifier: Apache-2.0
"""Names to copy: real words, invented words, colours in front, numbers behind."""

import random
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from llm_planner_lab.tasks.words import COLOURS, HELD_OUT_THINGS, MATERIALS, THINGS

_CONSONANTS = "bcdfghjklmnpqrstvwxyz"
_VOWELS = "aeiou"
HELD_OUT_SHARE = 8  # one combination of names and numbers in eight is never drawn for training


@dataclass(frozen=True, slots=True)
class NamedThing:
    """How an object is written and how people say it.

    Attributes:
        identifier: As plans and scenes write it, ``red_box_2``.
        kind: Without the number, ``red_box``.
        spoken: As the instruction says it, ``red box``.
    """

    identifier: str
    kind: str
    spoken: str


def invented_word(rng: random.Random) -> str:
    """Returns a word that means nothing, 3 to 9 letters."""
    return "".join(
        rng.choice(_CONSONANTS if (index + rng.randint(0, 1)) % 2 else _VOWELS) for index in range(rng.randint(3, 9))
    )


def word(rng: random.Random, pool: tuple[str, ...] = THINGS, *, held_out: bool, invented: float = 0.5) -> str:
    """Returns one noun: invented with the given probability, else from the pool (or from the held-out words)."""
    if rng.random() < invented:
        return invented_word(rng)
    if held_out and pool is THINGS and rng.random() < 0.5:
        return rng.choice(HELD_OUT_THINGS)
    return rng.choice(pool)


def thing(
    rng: random.Random,
    pool: tuple[str, ...] = THINGS,
    *,
    held_out: bool,
    invented: float = 0.5,
    in_scene: bool = False,
    plain: bool = False,
) -> NamedThing:
    """Returns a name. Only an object that a scene lists may be spoken of without its number.

    Args:
        rng: Source of chance.
        pool: Real words to draw from.
        held_out: Whether held-out real words may appear.
        invented: Probability of an invented word.
        in_scene: Whether the scene will list it.
        plain: Neither colour nor number.
    """
    kind = word(rng, pool, held_out=held_out, invented=invented)
    kind_of = rng.random()
    if not plain and kind_of < 0.2 and "_" not in kind:
        kind = f"{rng.choice(COLOURS if rng.random() < 0.7 else MATERIALS)}_{kind}"
    identifier = kind
    if not plain and rng.random() < (0.4 if in_scene else 0.12):
        identifier = f"{kind}_{rng.randint(1, 9) if rng.random() < 0.8 else rng.randint(10, 99)}"
    said = kind if in_scene and rng.random() < 0.6 else identifier
    return NamedThing(identifier, kind, said if rng.random() < 0.25 else said.replace("_", " "))


def is_held_out(names: Iterable[str]) -> bool:
    """True if no template is trained with these names and numbers together (by hash; no names are never held out)."""
    combination = "|".join(names)
    return bool(combination) and zlib.crc32(combination.encode()) % HELD_OUT_SHARE == 0
