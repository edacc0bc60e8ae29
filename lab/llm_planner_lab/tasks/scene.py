# SPDX-License-Identifier: Apache-2.0
"""Scenes: what a robot says that it sees, in the formats that people feed to a planner."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from llm_planner_lab.tasks.quantity import decimal
from llm_planner_lab.tasks.words import INJECTIONS, REMARKS


@dataclass(frozen=True, slots=True)
class PlacedObject:
    """An object of a world.

    Attributes:
        name: Identifier.
        x_m: Forward of the robot's start (REP 103).
        y_m: To the left of it.
        is_listed: Whether the scene text names it (a drone sees it from where it starts).
    """

    name: str
    x_m: float
    y_m: float
    is_listed: bool = True


def describe(rng: random.Random, objects: Sequence[PlacedObject], *, injection: bool = False) -> str:
    """Returns the scene text of the listed objects: a plain list, or with positions, remarks or both.

    Args:
        rng: Source of chance.
        objects: The world; objects that are not listed are left out.
        injection: Put a sentence that pretends to be an order somewhere into it.
    """
    positions = rng.random() < 0.3
    remarks = rng.random() < 0.3
    items = [_item(rng, thing, positions=positions, remarks=remarks) for thing in objects if thing.is_listed]
    if injection:
        items.insert(
            rng.randint(0, len(items)), rng.choice(("{}", "sign: '{}'", "note ({})")).format(rng.choice(INJECTIONS))
        )
    style = rng.random()
    if style < 0.1 and not positions and not remarks:
        return "[" + ", ".join(f"'{item}'" for item in items) + "]"
    if style < 0.2 and len(items) > 1:
        return f"i see {', '.join(items[:-1])} and {items[-1]}"
    prefix = rng.choice(("", "", "", "", "objects: ", "in view: "))
    return prefix + rng.choice((", ", ", ", ", ", "; ")).join(items)


def _item(rng: random.Random, thing: PlacedObject, *, positions: bool, remarks: bool) -> str:
    text = thing.name
    if positions and rng.random() < 0.9:
        text += f" at ({decimal(round(thing.x_m, 1))}, {decimal(round(thing.y_m, 1))})"
    if remarks and rng.random() < 0.4:
        text += f" ({rng.choice(REMARKS)})"
    return text
