# SPDX-License-Identifier: Apache-2.0
"""Inspections, inventories and tidying: tasks whose answers are long, and need facts from anywhere in a long scene.

A drone names what is asked for, an arm brings it somewhere, one thing after the other in the order of the scene. That
is known by the name of its kind, by a state that stands before it, by both, or by what it is (fruit). Whoever
reads half of the scene gives half of the answer.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from llm_planner_lab.tasks.arm import put_plan
from llm_planner_lab.tasks.sample import Task
from llm_planner_lab.tasks.scene import PlacedObject
from llm_planner_lab.tasks.sentence import choose, fill, read_templates
from llm_planner_lab.tasks.words import FRUITS, THINGS, VEGETABLES

TEMPLATES = read_templates("inventory")
STATES = ("broken", "wet", "dirty", "rusty", "empty", "locked", "new", "tilted")
PLACES = ("bin", "tray", "basket", "crate", "box", "shelf")
_KINDS = tuple(
    sorted({word for word in THINGS if word.isalpha() and not word.endswith("s")} - {*PLACES, *FRUITS, *VEGETABLES})
)
_FOOD = {"fruit": FRUITS, "vegetables": VEGETABLES}
_FIRST_KIND = 0.25  # of the things are of the first kind, and more
_TRIES = 50  # for each thing
_KINDS_PER_SCENE = (6, 16)
_BEARING, _RANGE_M = math.radians(35), (0.35, 0.65)  # within an arm's reach
MAX_CALLS = 56
"""Of a plan: some 500 tokens."""


@dataclass(frozen=True, slots=True, order=True)
class _Thing:
    state: str
    kind: str
    number: int

    @property
    def name(self) -> str:
        parts = (self.state, self.kind, str(self.number))
        return "_".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class _Wish:
    """What is asked for, in words, and which things they mean."""

    text: str
    means: Callable[[_Thing], bool]


def sample_inventory(rng: random.Random, num_things: int, num_calls: int, *, held_out: bool = False) -> Task:
    """Returns a task with about ``num_things`` things in its scene and ``num_calls`` calls in its plan.

    Args:
        rng: Source of chance; the same state gives the same task.
        num_things: In the scene; no more of them are asked for than there can be of a kind.
        num_calls: A name takes one, a thing that is brought somewhere takes two.
        held_out: Draw sentences that training never sees.
    """
    by, robot = rng.choice(("kind", "state", "both", "food")), rng.choice(("tello", "indy7"))
    num_asked = max(1, num_calls // (1 if robot == "tello" else 2))
    kinds, food, state = (
        rng.sample(_KINDS, rng.randint(*_KINDS_PER_SCENE)),
        rng.choice(tuple(_FOOD)),
        rng.choice(STATES),
    )
    if by == "food":
        kinds += [word for pool in _FOOD.values() for word in rng.sample(pool, rng.randint(4, 9))]
    kind = kinds[0]
    wish = {
        "kind": _Wish(f"every {kind}", lambda thing: thing.kind == kind),
        "state": _Wish(f"everything that is {state}", lambda thing: thing.state == state),
        "both": _Wish(f"every {state} {kind}", lambda thing: (thing.kind, thing.state) == (kind, state)),
        "food": _Wish(f"all the {food}", lambda thing: thing.kind in _FOOD[food]),
    }[by]
    things = _things(rng, kinds, state, wish, {True: num_asked, False: max(0, num_things - num_asked)})
    names = [thing.name for thing in things]
    asked = [thing.name for thing in things if wish.means(thing)]
    place = rng.choice(PLACES)
    template = choose(rng, TEMPLATES["say" if robot == "tello" else "put"], held_out=held_out)
    if robot == "tello":
        plan = "".join(f"l('{name}');" for name in asked)
    else:
        plan = "".join(put_plan(name, place) for name in asked)
        names.insert(rng.randint(0, len(names)), place)
    return Task(
        family=f"inventory_{by}",
        robot=robot,
        instruction=fill(template, x=wish.text, y=place),
        scene=", ".join(names),
        plan=plan,
        objects=tuple(_placed(rng, name) for name in names),
        goal=("same_outcome",),
    )


def _things(
    rng: random.Random, kinds: Sequence[str], state: str, wish: _Wish, wanted: Mapping[bool, int]
) -> list[_Thing]:
    """Returns things in random order: so many that a wish means, and so many others, or as many as are soon found.

    The state that is asked for, and the first kind, are more frequent than others: much is nearly what is meant.
    """
    found: dict[bool, set[_Thing]] = {True: set(), False: set()}
    for _ in range(_TRIES * sum(wanted.values())):
        kind = kinds[0] if rng.random() < _FIRST_KIND else rng.choice(kinds)
        thing = _Thing(rng.choice(("", "", "", state, rng.choice(STATES))), kind, rng.randint(1, 99))
        is_meant = wish.means(thing)
        if len(found[is_meant]) < wanted[is_meant]:
            found[is_meant].add(thing)
        elif all(len(found[one]) == wanted[one] for one in found):
            break
    things = sorted([*found[True], *found[False]])
    rng.shuffle(things)
    return things


def _placed(rng: random.Random, name: str) -> PlacedObject:
    """Returns a thing somewhere on the table of an arm, or in view of a drone."""
    bearing, range_m = rng.uniform(-_BEARING, _BEARING), rng.uniform(*_RANGE_M)
    return PlacedObject(name, round(range_m * math.cos(bearing), 2), round(range_m * math.sin(bearing), 2))
