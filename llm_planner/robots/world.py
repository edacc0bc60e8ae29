# SPDX-License-Identifier: Apache-2.0
"""The world that kinematic robots live in: named objects, areas and containers, what lies on what."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from llm_planner.core.skill import Value
from llm_planner.robots.driver import SkillFailedError

HELD = "(held)"  # support of an object in a gripper
GAP_M = 0.01  # between objects that a robot puts side by side
MOST_STEPS = 50  # from the middle of an area, that a free place is looked for


class ObjectRole(Enum):
    """What an object is good for."""

    THING = "thing"  # lies on things and areas; things can be put on it
    CONTAINER = "container"  # things can be put into it
    AREA = "area"  # a part of the table, or the whole: not an object that could be seen or moved


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldObject:
    """Something with a name, at the time 0 of its world.

    Attributes:
        position_m: Of its centre; of an area, the centre of the surface.
        size_m: Length along x, y and z. An area's height is 0.
        kind: What it is (``cat``); perception also finds objects by kind.
        tags: What else it is: each a word or phrase ("tool for cutting paper"), for descriptions.
        support: Name of what it lies on or in; None for the bare table or floor, ``HELD`` in a gripper.
        is_fixed: Whether it cannot be grasped or pushed. Areas are always fixed.
        velocity_m_per_s: Of a moving thing.
        moves_for_s: For how long it moves, from time 0.
    """

    name: str
    position_m: tuple[float, float, float]
    size_m: tuple[float, float, float] = (0.05, 0.05, 0.05)
    kind: str = ""
    tags: tuple[str, ...] = ()
    role: ObjectRole = ObjectRole.THING
    support: str | None = None
    is_fixed: bool = False
    velocity_m_per_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    moves_for_s: float = math.inf

    def position_at(self, now_s: float) -> tuple[float, float, float]:
        """Returns the centre at a time."""
        time_s = min(max(now_s, 0.0), self.moves_for_s)
        x, y, z = (p + v * time_s if v else p for p, v in zip(self.position_m, self.velocity_m_per_s, strict=True))
        return x, y, z

    @property
    def top_m(self) -> float:
        """Height of its upper side."""
        return self.position_m[2] + self.size_m[2] / 2

    def matches(self, description: str) -> bool:
        """Returns True if the description contains all words of the kind, of a tag, or of the name (without number)."""
        wanted = _words(description)
        return any(words and words <= wanted for words in map(_words, (self.kind, self.name, *self.tags)))


class World:
    """Objects by name; changed only by the skills of a driver.

    Args:
        objects: Of different names.
        answers: Key phrase -> what a robot that probes a question with these words is told.
    """

    def __init__(self, objects: Iterable[WorldObject] = (), answers: Mapping[str, Value] | None = None) -> None:
        self.objects = {o.name: o for o in objects}
        self.answers = dict(answers or {})

    def find(self, name: str) -> tuple[WorldObject, ...]:
        """Returns the object of that name, else all of that kind; spaces and case do not matter."""
        key = _key(name)
        exact = self.objects.get(name) or next((o for n, o in self.objects.items() if _key(n) == key), None)
        return (exact,) if exact else tuple(o for o in self.objects.values() if o.kind and _key(o.kind) == key)

    def one(self, name: str) -> WorldObject:
        """Returns the object or area that a name stands for.

        Raises:
            SkillFailedError: If there is none, or more than one.
        """
        found = self.find(name)
        if not found:
            raise SkillFailedError(f"{name} is not visible")
        if len(found) > 1:
            raise SkillFailedError(f"{name} is ambiguous: {', '.join(o.name for o in found)}")
        return found[0]

    def described(self, description: str) -> Iterator[WorldObject]:
        """Yields the objects that a description fits."""
        return (o for o in self.objects.values() if o.role is not ObjectRole.AREA and o.matches(description))

    def answer(self, question: str) -> Value | None:
        """Returns the answer to a question, if there is one."""
        asked = _words(question)
        return next((value for key, value in self.answers.items() if _words(key) <= asked), None)

    def on_top_of(self, name: str) -> tuple[str, ...]:
        """Returns the names of what lies directly on or in something."""
        return tuple(o.name for o in self.objects.values() if o.support == name)

    def is_on(self, name: str, place: str) -> bool:
        """Returns True if an object lies on or in a place, directly or stacked, or stands within an area."""
        target, support, visited = self.objects[place], self.objects[name].support, {name}
        while support is not None and support not in visited:
            if support == place:
                return True
            if support == HELD:
                return False
            visited.add(support)
            support = self.objects[support].support if support in self.objects else None
        is_inside = any(self.objects[n].role is ObjectRole.CONTAINER for n in visited - {name} if n in self.objects)
        return (
            name != place
            and target.role is ObjectRole.AREA
            and not is_inside
            and self._is_within(self.objects[name], target)
        )

    def move(self, name: str, position_m: tuple[float, float, float], support: str | None) -> None:
        """Puts an object somewhere."""
        self.objects[name] = replace(self.objects[name], position_m=position_m, support=support)

    def spot(self, name: str, area: WorldObject) -> tuple[float, float, float]:
        """Returns the centre of a free place for an object in an area: the middle, or else the nearest to it.

        In an area that is many times as large as the object, only places near its middle are looked at.

        Raises:
            SkillFailedError: If there is no free place.
        """
        thing = self.objects[name]
        length, width = (max(0.0, (a - o) / 2) for a, o in zip(area.size_m[:2], thing.size_m[:2], strict=True))
        step = max(thing.size_m[0], thing.size_m[1]) + GAP_M
        steps_x, steps_y = (int(min(half / step, MOST_STEPS)) for half in (length, width))
        grid = ((ix * step, iy * step) for ix in range(-steps_x, steps_x + 1) for iy in range(-steps_y, steps_y + 1))
        z = area.position_m[2] + thing.size_m[2] / 2
        for dx, dy in sorted(grid, key=lambda d: (math.hypot(*d), d)):
            position = (area.position_m[0] + dx, area.position_m[1] + dy, z)
            if self.is_free(name, position):
                return position
        raise SkillFailedError(f"there is no room in {area.name}")

    def is_free(self, name: str, position_m: tuple[float, float, float]) -> bool:
        """Returns True if an object put there would touch no other, areas aside."""
        others = (o for o in self.objects.values() if o.name != name and o.role is not ObjectRole.AREA)
        return not any(_overlaps(position_m, self.objects[name], other) for other in others)

    def _is_within(self, thing: WorldObject, area: WorldObject) -> bool:
        offsets = zip(thing.position_m[:2], area.position_m[:2], area.size_m[:2], strict=True)
        return all(abs(p - c) <= size / 2 + 1e-9 for p, c, size in offsets)


def _overlaps(position_m: tuple[float, float, float], thing: WorldObject, other: WorldObject) -> bool:
    axes = zip(position_m[:2], other.position_m[:2], thing.size_m[:2], other.size_m[:2], strict=True)
    return all(abs(p - q) < (a + b) / 2 for p, q, a, b in axes)


def _key(name: str) -> str:
    """Returns what is the same of two spellings of a name; of one without any letter or digit, the name itself."""
    return "_".join(re.findall(r"[^\W_]+", name.casefold())) or name


def _words(text: str) -> frozenset[str]:
    """Returns the words of a text without plural endings and numbers."""
    words = re.findall(r"[^\W\d_]+", text.casefold())
    return frozenset(w[:-1] if w.endswith("s") and not w.endswith("ss") and len(w) > 3 else w for w in words)
