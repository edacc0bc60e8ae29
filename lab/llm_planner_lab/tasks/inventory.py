# SPDX-License-Identifier: Apache-2.0
"""Inspections, inventories and tidying: tasks whose answers are long, and need facts from anywhere in a long scene.

A scene goes from place to place ("rack_7, crate_14, cup_2, rack_3, lamp_5"): what follows a place is there. A drone
flies to one or two of them and names what is there, an arm moves over them and brings it somewhere, one thing after the
other. No name says where a thing is, so that whoever picks entries of the scene by their names finds the place and
loses what is there. The instruction says how many things there are, as stock records do, so that the length of an
answer can be known.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from llm_planner.planning.safety.living import is_living
from llm_planner_lab.tasks.arm import put_plan
from llm_planner_lab.tasks.sample import Task
from llm_planner_lab.tasks.scene import PlacedObject
from llm_planner_lab.tasks.sentence import choose, fill, read_templates
from llm_planner_lab.tasks.words import THINGS

TEMPLATES = read_templates("inventory")
PLACES = ("bin", "tray", "basket", "crate", "box")
SPOTS = ("rack", "shelf", "bay", "cabinet", "drawer", "row")
_KINDS = tuple(sorted({word for word in THINGS if word.isalpha() and not is_living(word)} - {*PLACES, *SPOTS}))
_FEWEST_KINDS = 60  # of a scene: it is a store, not a pile of one thing
_SPREAD = {"tello": (math.radians(1), (4.0, 4.1)), "indy7": (math.radians(35), (0.35, 0.65))}
"""Bearing and range in m: a drone still sees one place from the other; an arm reaches all."""
_SHARES = (0.6, 0.4)  # of tasks with one place and with two
_MIN_CALLS = 8
MAX_CALLS = 56
"""Of a plan: some 500 tokens."""
THINGS_SEEN = (150, 580)
"""In a long scene: some 1,000 to 3,500 tokens."""


@dataclass(frozen=True, slots=True)
class _Store:
    """A scene, the things that are at each of its places, and where an arm puts them."""

    robot: str
    container: str
    contents: dict[str, list[str]]
    objects: tuple[PlacedObject, ...]

    def ask(self, rng: random.Random, meant: Sequence[str], *, held_out: bool) -> Task:
        """Returns the task to deal with all that is at ``meant``, one place after the other."""
        if self.robot == "tello":
            said, go_to, deal_with = "say", "g('{}');", "l('{}');".format
        else:
            said, go_to, deal_with = "put", "move_to({});", partial(put_plan, y=self.container)
        template = choose(rng, TEMPLATES[said], held_out=held_out)
        return Task(
            family=f"inventory_{len(meant)}",
            robot=self.robot,
            instruction=fill(
                template, x=" and ".join(_words(place, len(self.contents[place])) for place in meant), y=self.container
            ),
            scene=", ".join(thing.name for thing in self.objects),
            plan="".join(go_to.format(place) + "".join(map(deal_with, self.contents[place])) for place in meant),
            objects=self.objects,
            goal=("same_outcome",),
        )


def sample_inventory(rng: random.Random, num_things: int, num_calls: int, *, held_out: bool = False) -> Task:
    """Returns a task with about ``num_things`` things in its scene and ``num_calls`` calls in its plan.

    Args:
        rng: Source of chance; the same state gives the same task.
        num_things: In the scene, places included.
        num_calls: A place takes one, a name one, a thing that is brought somewhere two.
        held_out: Draw sentences that training never sees.
    """
    return sample_inventories(rng, num_things, num_calls, 1, held_out=held_out)[0]


def sample_inventories(
    rng: random.Random, num_things: int, num_calls: int, num_tasks: int, *, held_out: bool = False
) -> list[Task]:
    """Returns the same and further tasks in the same scene, ``num_tasks`` in all or as many as it has places.

    The further ones ask for what is at places of about the same size, so that their plans are about as long.
    """
    robot, spot = rng.choice(("tello", "indy7")), rng.choice(SPOTS)
    num_meant, calls_of_one = _num_meant(rng), 1 if robot == "tello" else 2
    num_asked = max(num_meant, (num_calls - num_meant) // calls_of_one)
    sizes = [num_asked] if num_meant == 1 else _split(rng, num_asked)
    while sum(sizes) + len(sizes) < num_things:  # other places have as much on them, give or take
        sizes.append(max(1, round(num_asked / num_meant * rng.uniform(0.3, 1.7))))
    numbers = rng.sample(range(1, 2 * len(sizes) + 10), len(sizes))
    kinds = rng.sample(_KINDS, rng.randint(_FEWEST_KINDS, len(_KINDS)))
    things = iter(_things(rng, kinds, sum(sizes)))
    contents = {
        f"{spot}_{number}": [next(things) for _ in range(size)] for number, size in zip(numbers, sizes, strict=True)
    }
    places, container = list(contents), rng.choice(PLACES)
    order = rng.sample(places, len(places))
    names = [*([container] if robot == "indy7" else []), *(name for one in order for name in (one, *contents[one]))]
    objects = tuple(_placed(rng, name, *_SPREAD[robot]) for name in names)
    store = _Store(robot, container, contents, objects)
    meant = [places[:num_meant]]
    while len(meant) < min(num_tasks, len(places)):
        meant.append(rng.sample(places, min(_num_meant(rng), len(places))))
    return [store.ask(rng, some, held_out=held_out) for some in meant]


def long_inventory(rng: random.Random, *, held_out: bool = False) -> Task:
    """Returns a task with a prompt of some 1,000 to 3,500 tokens and a plan of some 64 to 512."""
    num_calls = round(math.exp(rng.uniform(math.log(_MIN_CALLS), math.log(MAX_CALLS))))
    return sample_inventory(rng, rng.randint(*THINGS_SEEN), num_calls, held_out=held_out)


def _words(spot: str, count: int) -> str:
    """Returns how an instruction calls what is at a place; how many there should be, stock records say."""
    said = spot.replace("_", " ")
    return f"all {count} things on {said}" if count > 1 else f"the one thing on {said}"


def _num_meant(rng: random.Random) -> int:
    return rng.choices((1, 2), _SHARES)[0]


def _split(rng: random.Random, count: int) -> list[int]:
    first = rng.randint(1, count - 1)
    return [first, count - first]


def _things(rng: random.Random, kinds: Sequence[str], count: int) -> list[str]:
    """Returns different names."""
    numbers = range(1, 100 if count < 60 * len(kinds) else 1000)
    names = [f"{kind}_{number}" for kind in kinds for number in numbers]
    return rng.sample(names, count)


def _placed(rng: random.Random, name: str, most_bearing: float, ranges_m: tuple[float, float]) -> PlacedObject:
    bearing, range_m = rng.uniform(-most_bearing, most_bearing), rng.uniform(*ranges_m)
    return PlacedObject(name, round(range_m * math.cos(bearing), 2), round(range_m * math.sin(bearing), 2))
