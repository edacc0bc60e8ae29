# SPDX-License-Identifier: Apache-2.0
"""A task while it is being written: names that do not clash, objects with places, what the scene will list."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from llm_planner.demo.task import kind_of
from llm_planner_lab.tasks.names import NamedThing, thing
from llm_planner_lab.tasks.scene import PlacedObject
from llm_planner_lab.tasks.sentence import choose, choose_any, fill
from llm_planner_lab.tasks.words import THINGS

_PLACING_TRIES = 12


@dataclass(frozen=True, slots=True)
class Clause:
    """One thing to do.

    Attributes:
        text: How the instruction says it.
        plan: Reference plan in canonical MiniSpec.
        names: Names and numbers that are copied from the instruction, for the held-out split.
        goal: Name of the goal test (``llm_planner.demo.goal_tests``) and its parameters.
    """

    text: str
    plan: str
    names: tuple[str, ...] = ()
    goal: tuple[str, ...] = ("same_outcome",)


@dataclass(slots=True)
class Draft:
    """What the clauses of one task share.

    Attributes:
        rng: Source of chance.
        robot: Name of the robot model.
        held_out: Use held-out variants of templates, and words.
        has_scene: Whether the request brings a scene.
        first: True while nothing has moved: what the scene lists can be approached at once.
        invented: Share of invented words.
        is_crowded: Whether the scene may list objects that the task does not ask for.
        objects: The world so far.
    """

    rng: random.Random
    robot: str
    held_out: bool
    has_scene: bool
    first: bool = True
    invented: float = 0.5
    is_crowded: bool = True
    objects: list[PlacedObject] = field(default_factory=list)
    reserved: set[str] = field(default_factory=set)

    def say(self, templates: tuple[str, ...], **slots: str) -> str:
        """Returns one variant of a clause."""
        return fill(choose(self.rng, templates, held_out=self.held_out), **slots)

    def say_any(self, templates: tuple[str, ...], **slots: str) -> str:
        """Returns one variant of a clause for which training holds out none."""
        return fill(choose_any(self.rng, templates), **slots)

    def fresh(self, make: Callable[[], NamedThing]) -> NamedThing:
        """Returns a name whose kind is not used in this task yet."""
        while True:
            name = make()
            if self.reserve(name.kind):
                return name

    def reserve(self, kind: str) -> bool:
        """Marks a kind as spoken of; False if it, or its head noun, already is."""
        tail = kind.rpartition("_")[2]
        taken = {kind, tail} & self.reserved
        if not taken:
            self.reserved.add(kind)
        return not taken

    def visible(self, pool: tuple[str, ...] = THINGS) -> NamedThing:
        """Returns a new object that the scene lists."""
        name = self.fresh(lambda: thing(self.rng, pool, held_out=self.held_out, invented=self.invented, in_scene=True))
        self.put(name.identifier)
        return name

    def unlisted(self, pool: tuple[str, ...] = THINGS, *, exists: float = 0.8) -> NamedThing:
        """Returns a new name that the scene does not list; the object may be elsewhere in the world, or nowhere."""
        name = self.fresh(lambda: thing(self.rng, pool, held_out=self.held_out, invented=self.invented))
        if self.rng.random() < exists:
            self.put(name.identifier, is_listed=False)
        return name

    def some(self, pool: tuple[str, ...] = THINGS, *, exists: float = 0.8) -> tuple[NamedThing, bool]:
        """Returns a new name, and whether the scene lists it."""
        if self.has_scene and self.rng.random() < 0.65:
            return self.visible(pool), True
        return self.unlisted(pool, exists=exists), False

    def put(self, identifier: str, *, is_listed: bool = True, near: PlacedObject | None = None) -> PlacedObject:
        """Adds an object to the world: in view if listed, behind the robot or to its side if not."""
        if near is not None:
            placed = PlacedObject(identifier, near.x_m, near.y_m, is_listed)
        elif self.robot == "indy7":
            placed = self._on_table(identifier, is_listed=is_listed)
        else:
            placed = self._around(identifier, is_listed=is_listed)
        self.objects.append(placed)
        return placed

    def _around(self, identifier: str, *, is_listed: bool) -> PlacedObject:
        bearing_deg = self.rng.uniform(-22, 22) if is_listed else self.rng.uniform(45, 315)
        range_m = self.rng.uniform(1.0, 3.0)
        bearing = math.radians(bearing_deg)
        return PlacedObject(
            identifier, round(range_m * math.cos(bearing), 1), round(range_m * math.sin(bearing), 1), is_listed
        )

    def _on_table(self, identifier: str, *, is_listed: bool) -> PlacedObject:
        """Returns an object where no other stands, as long as such a place is found: else nothing fits next to it."""
        taken = {(placed.x_m, placed.y_m) for placed in self.objects}
        for _ in range(_PLACING_TRIES):
            bearing = math.radians(self.rng.uniform(-35, 35))
            range_m = self.rng.uniform(0.35, 0.65)
            x_m, y_m = round(range_m * math.cos(bearing), 1), round(range_m * math.sin(bearing), 1)
            if (x_m, y_m) not in taken:
                break
        return PlacedObject(identifier, x_m, y_m, is_listed)

    def distract(self, count: int) -> None:
        """Adds ``count`` listed objects that the task does not ask for, and shuffles the world."""
        heads = {kind.rpartition("_")[2] for kind in self.reserved}
        invented = self.invented if count <= 30 else 0.15
        while count > 0:
            name = thing(self.rng, held_out=self.held_out, invented=invented, in_scene=True)
            count -= 1
            kind = kind_of(name.identifier)
            if kind in self.reserved or ("_" not in kind and kind in heads) or kind.rpartition("_")[2] in self.reserved:
                continue
            if any(placed.name == name.identifier for placed in self.objects):
                continue
            self.put(name.identifier)
        self.rng.shuffle(self.objects)
