# SPDX-License-Identifier: Apache-2.0
"""From a task to the kinematic world in which its plan is executed."""

import re
from collections import Counter
from dataclasses import replace

from llm_planner.demo.task import kind_of
from llm_planner.robots.world import HELD, ObjectRole, World, WorldObject
from llm_planner_lab.tasks.sample import Task
from llm_planner_lab.tasks.scene import PlacedObject
from llm_planner_lab.tasks.words import CONTAINERS, PURPOSES

EYE_LEVEL_M = 1.0  # where a drone flies when a goal starts
_THING_M = (0.05, 0.05, 0.05)
_DISTRACTOR_M = (0.01, 0.01, 0.01)
_CONTAINER_M = (0.12, 0.12, 0.1)
_AREA_M = (0.3, 0.2, 0.0)
_ANSWERS = {"": 4.0}
"""Every question about a picture is answered with a number, so that plans can compare it."""
_PLACED = re.compile(r"(pick|place|push)\(([^,()]+)(?:,([^()]+))?\)")
# Centres of areas and standard containers, on both sides of the objects and within reach.
_SIDES = {"left": (0.25, 0.52), "right": (0.25, -0.52)}
_STANDARD = {"bin": (0.1, 0.6), "tray": (0.1, -0.6)}


def build_world(task: Task) -> World:
    """Returns the world of a task: the same objects each time, untouched."""
    if task.robot == "indy7":
        return World(_table(task))
    return World((_room(placed) for placed in task.objects), _ANSWERS)


def _room(placed: PlacedObject) -> WorldObject:
    kind = kind_of(placed.name)
    tags = tuple(phrase for phrases, tools in PURPOSES if kind in tools for phrase in phrases)
    return WorldObject(
        name=placed.name,
        position_m=(placed.x_m, placed.y_m, EYE_LEVEL_M),
        size_m=(0.3, 0.3, 0.3),
        kind=kind,
        tags=tags,
    )


def _table(task: Task) -> list[WorldObject]:
    objects = [
        WorldObject(
            name="table", position_m=(0.45, 0.0, 0.0), size_m=(0.6, 1.3, 0.0), role=ObjectRole.AREA, is_fixed=True
        )
    ]
    objects += [_area(f"{side}_area", centre) for side, centre in _SIDES.items()]
    asked = task.plan.replace(",", "(").replace(")", "(").split("(")
    taken = {thing.name for thing in objects}
    holding, held = _holding_many(task), _held_at_the_start(task.plan)
    for placed in task.objects:
        if placed.name not in taken:
            taken.add(placed.name)
            thing = _on_table(placed, is_asked=placed.name in asked, holds_many=placed.name in holding)
            objects.append(replace(thing, support=HELD) if placed.name == held else thing)
    objects += [_container(name, centre) for name, centre in _STANDARD.items() if name not in taken]
    return objects


def _holding_many(task: Task) -> frozenset[str]:
    """Returns the names of what has to hold more than one thing."""
    sorted_into = [pair.partition(">")[2] for pair in task.goal[1:]] if task.goal[0] == "sorted" else []
    placed_on = Counter(place for kind, _, place in _PLACED.findall(task.plan) if kind == "place")
    return frozenset(sorted_into) | {name for name, count in placed_on.items() if count > 1}


def _held_at_the_start(plan: str) -> str:
    """Returns the name of what the plan puts down without having picked it up; empty if there is none."""
    first = _PLACED.search(plan)
    return first[2] if first and first[1] == "place" else ""


def _on_table(placed: PlacedObject, *, is_asked: bool, holds_many: bool) -> WorldObject:
    kind = kind_of(placed.name).rpartition("_")[2]
    if placed.name.endswith("_area"):
        return _area(placed.name, _SIDES["right" if placed.name.startswith("vegetable") else "left"])
    if holds_many or kind in CONTAINERS or kind == "bin":
        return _container(placed.name, _STANDARD.get(placed.name, (placed.x_m, placed.y_m)))
    size = _THING_M if is_asked else _DISTRACTOR_M
    return WorldObject(
        name=placed.name, position_m=(placed.x_m, placed.y_m, size[2] / 2), size_m=size, kind=kind_of(placed.name)
    )


def _area(name: str, centre: tuple[float, float]) -> WorldObject:
    return WorldObject(name=name, position_m=(*centre, 0.0), size_m=_AREA_M, role=ObjectRole.AREA, is_fixed=True)


def _container(name: str, centre: tuple[float, float]) -> WorldObject:
    return WorldObject(
        name=name,
        position_m=(*centre, _CONTAINER_M[2] / 2),
        size_m=_CONTAINER_M,
        kind=kind_of(name),
        role=ObjectRole.CONTAINER,
    )
