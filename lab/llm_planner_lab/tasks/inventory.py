# SPDX-License-Identifier: Apache-2.0
"""Inspections, inventories and tidying: tasks whose answers are long, and need facts from anywhere in a long scene.

A scene goes from place to place ("rack_7, crate_14, cup_2, rack_3, lamp_5"): what follows a place is there. One half of
the tasks is about one or two places: a drone flies there and names what is there, an arm moves over them and brings it
somewhere, one thing after the other. No name says where a thing is, so that whoever picks entries of the scene by their
names finds the place and loses what is there. The other half is about one or two kinds of things, wherever they are
("all 12 cups"): their names tell which entries it takes. The instruction says how many things there are, as stock
records do, so that the length of an answer can be known.
"""

import math
import random
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from itertools import islice

from llm_planner.planning.plurals import singular
from llm_planner_lab.tasks.arm import put_plan
from llm_planner_lab.tasks.renamed import plural
from llm_planner_lab.tasks.sample import Task
from llm_planner_lab.tasks.scene import PlacedObject
from llm_planner_lab.tasks.sentence import choose, fill, read_templates
from llm_planner_lab.tasks.words import THINGS

TEMPLATES = read_templates("inventory")
PLACES = ("bin", "tray", "basket", "crate", "box")
SPOTS = ("rack", "shelf", "bay", "cabinet", "drawer", "row")
_KINDS = tuple(sorted({word for word in THINGS if word.isalpha()} - {*PLACES, *SPOTS}))
_IRREGULAR = ("child", "knife", "man", "mouse", "person", "potato", "scarf", "sheep", "tomato", "woman")
_COUNTABLE = tuple(
    kind for kind in _KINDS if kind not in _IRREGULAR and singular(plural(kind)) == kind == singular(kind)
)
_FEWEST_KINDS = 60  # of a scene: it is a store, not a pile of one thing
_SPREAD = {"tello": (math.radians(1), (4.0, 4.1)), "indy7": (math.radians(35), (0.35, 0.65))}
"""Bearing and range in m: a drone still sees one place from the other; an arm reaches all."""
_SHARE_OF_PLACES = 0.5  # of the tasks
_SHARES = (0.6, 0.4)  # of those with one place or kind, and with two
_THINGS_OF_PLACE = (4, 24)  # where it is not asked for
_MIN_CALLS = 8
MAX_CALLS = 56
"""Of a plan: some 500 tokens."""
THINGS_SEEN = (150, 580)
"""In a long scene: some 1,000 to 3,500 tokens."""


def sample_inventory(rng: random.Random, num_things: int, num_calls: int, *, held_out: bool = False) -> Task:
    """Returns a task with about ``num_things`` things in its scene and ``num_calls`` calls in its plan.

    Args:
        rng: Source of chance; the same state gives the same task.
        num_things: In the scene, places included.
        num_calls: A place takes one, a name one, a thing that is brought somewhere two.
        held_out: Draw sentences that training never sees.
    """
    robot, place = rng.choice(("tello", "indy7")), rng.choice(PLACES)
    num_meant, calls_of_one = rng.choices((1, 2), _SHARES)[0], 1 if robot == "tello" else 2
    is_of_places = rng.random() < _SHARE_OF_PLACES
    num_asked = max(num_meant, (num_calls - is_of_places * num_meant) // calls_of_one)
    sizes = [num_asked] if num_meant == 1 else _split(rng, num_asked)
    store = (_of_places if is_of_places else _of_kinds)(rng, sizes, num_things)
    if robot == "tello":
        plan = "".join(
            (f"g('{one}');" if is_of_places else "") + "".join(f"l('{name}');" for name in names)
            for one, names in store.meant.items()
        )
    else:
        plan = "".join(
            (f"move_to({one});" if is_of_places else "") + "".join(put_plan(name, place) for name in names)
            for one, names in store.meant.items()
        )
    scene = store.scene if robot == "tello" else (place, *store.scene)
    template = choose(rng, TEMPLATES["say" if robot == "tello" else "put"], held_out=held_out)
    words = _words_for_place if is_of_places else _words_for_kind
    return Task(
        family=f"inventory_{'places' if is_of_places else 'kinds'}_{num_meant}",
        robot=robot,
        instruction=fill(template, x=" and ".join(map(words, store.meant, sizes)), y=place),
        scene=", ".join(scene),
        plan=plan,
        objects=tuple(_placed(rng, name, *_SPREAD[robot]) for name in scene),
        goal=("same_outcome",),
    )


@dataclass(frozen=True, slots=True)
class _Store:
    """The scene of a task, and the names of it that are meant, by the place or kind that is asked for."""

    scene: Seq[str]
    meant: Mapping[str, Seq[str]]


def _of_places(rng: random.Random, sizes: Seq[int], num_things: int) -> _Store:
    """Returns a store and its first places, with as many things on them as ``sizes`` says."""
    all_sizes, mean = list(sizes), sum(sizes) / len(sizes)
    while sum(all_sizes) + len(all_sizes) < num_things:  # other places have as much on them, give or take
        all_sizes.append(max(1, round(mean * rng.uniform(0.3, 1.7))))
    kinds = rng.sample(_KINDS, rng.randint(_FEWEST_KINDS, len(_KINDS)))
    contents = _filled(rng, all_sizes, _things(rng, kinds, sum(all_sizes)))
    return _Store(_in_any_order(rng, contents), dict(list(contents.items())[: len(sizes)]))


def _of_kinds(rng: random.Random, sizes: Seq[int], num_things: int) -> _Store:
    """Returns a store and its things of some kinds, as many as ``sizes`` says, wherever they are."""
    asked = rng.sample(_COUNTABLE, len(sizes))
    others = [kind for kind in rng.sample(_KINDS, rng.randint(_FEWEST_KINDS, len(_KINDS))) if kind not in asked]
    names = [name for kind, size in zip(asked, sizes, strict=True) for name in _things(rng, [kind], size)]
    of_place = rng.randint(*_THINGS_OF_PLACE)
    num_others = max(0, num_things - len(names) - num_things // (of_place + 1))
    names += _things(rng, others, num_others)
    rng.shuffle(names)
    full, rest = divmod(len(names), of_place)
    scene = _in_any_order(rng, _filled(rng, [of_place] * full + [rest] * (rest > 0), names))
    return _Store(scene, {kind: [name for name in scene if name.rpartition("_")[0] == kind] for kind in asked})


def _filled(rng: random.Random, sizes: Seq[int], things: Seq[str]) -> dict[str, list[str]]:
    """Returns places with so many of the things on them."""
    spot, left = rng.choice(SPOTS), iter(things)
    numbers = rng.sample(range(1, 2 * len(sizes) + 10), len(sizes))
    return {f"{spot}_{number}": list(islice(left, size)) for number, size in zip(numbers, sizes, strict=True)}


def _in_any_order(rng: random.Random, contents: Mapping[str, Seq[str]]) -> list[str]:
    order = rng.sample(list(contents), len(contents))
    return [name for one in order for name in (one, *contents[one])]


def long_inventory(rng: random.Random, *, held_out: bool = False) -> Task:
    """Returns a task with a prompt of some 1,000 to 3,500 tokens and a plan of some 64 to 512."""
    num_calls = round(math.exp(rng.uniform(math.log(_MIN_CALLS), math.log(MAX_CALLS))))
    return sample_inventory(rng, rng.randint(*THINGS_SEEN), num_calls, held_out=held_out)


def _words_for_place(spot: str, count: int) -> str:
    """Returns how an instruction calls what is at a place; how many there should be, stock records say."""
    said = spot.replace("_", " ")
    return f"all {count} things on {said}" if count > 1 else f"the one thing on {said}"


def _words_for_kind(kind: str, count: int) -> str:
    return f"all {count} {plural(kind)}" if count > 1 else f"the one {kind}"


def _split(rng: random.Random, count: int) -> list[int]:
    first = rng.randint(1, count - 1)
    return [first, count - first]


def _things(rng: random.Random, kinds: Seq[str], count: int) -> list[str]:
    """Returns different names."""
    numbers = range(1, 100 if count < 60 * len(kinds) else 1000)
    names = [f"{kind}_{number}" for kind in kinds for number in numbers]
    return rng.sample(names, count)


def _placed(rng: random.Random, name: str, most_bearing: float, ranges_m: tuple[float, float]) -> PlacedObject:
    bearing, range_m = rng.uniform(-most_bearing, most_bearing), rng.uniform(*ranges_m)
    return PlacedObject(name, round(range_m * math.cos(bearing), 2), round(range_m * math.sin(bearing), 2))
