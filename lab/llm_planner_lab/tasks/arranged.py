# SPDX-License-Identifier: Apache-2.0
"""Tasks whose objects have room: where bodies are solid, two objects cannot stand in one place, nor hide each other.

The kinematic world does not mind. In physics a task is arranged first: what stands in another object, or hides what the
scene lists, is moved to the nearest free place. The goal test judges the arranged task, reference plan included.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from llm_planner.robots.world import ObjectRole, WorldObject
from llm_planner_lab.tasks.sample import Task
from llm_planner_lab.tasks.scene import PlacedObject
from llm_planner_lab.tasks.worlds import build_world

THING_M = 0.15  # of the things in a drone's room
APART_M = 0.03  # between things
_TURNS_DEG = tuple(sign * step for step in range(0, 181, 3) for sign in ((1, -1) if step else (1,)))
_RANGES_M = {"tello": (0.0, 0.3, -0.3, 0.6, -0.6, 0.9, 1.2), "indy7": (0.0, 0.1, -0.1, 0.2, -0.2, 0.3)}
_LIMITS_M = {"tello": (0.8, 4.5), "indy7": (0.3, 0.62)}


def arranged(task: Task) -> Task:
    """Returns the task with its objects moved apart."""
    done: list[PlacedObject] = []
    fixed = [o for o in solid_objects(replace(task, objects=())) if o.role is not ObjectRole.AREA]
    for placed in sorted(task.objects, key=lambda o: not o.is_listed):
        done.append(next(_free_places(task, placed, done, fixed), placed))
    order = {placed.name: placed for placed in done}
    return replace(task, objects=tuple(order[placed.name] for placed in task.objects if placed.name in order))


def solid_objects(task: Task) -> list[WorldObject]:
    """Returns the objects of a task's world, those of a drone's room smaller than the kinematic ones."""
    objects = build_world(task).objects.values()
    if task.robot == "indy7":
        return list(objects)
    return [replace(thing, size_m=(THING_M, THING_M, THING_M)) for thing in objects]


def _free_places(
    task: Task, placed: PlacedObject, others: list[PlacedObject], fixed: list[WorldObject]
) -> Iterator[PlacedObject]:
    """Yields places for an object, the nearest first: at first those where nothing hides it, then all."""
    taken = [
        thing for thing in solid_objects(replace(task, objects=tuple(others))) if thing.role is not ObjectRole.AREA
    ]
    taken += [thing for thing in fixed if thing.name not in {other.name for other in taken}]
    for must_see in (True, False) if task.robot == "tello" else (False,):
        for candidate in _candidates(task.robot, placed):
            found = [o for o in solid_objects(replace(task, objects=(*others, candidate))) if o.name == placed.name]
            if not found:  # a standard area or container: stands where it always stands
                yield placed
                return
            (thing,) = found
            if any(_overlap(thing, other) for other in taken) or (must_see and _is_hidden(thing, taken)):
                continue
            yield candidate


def _candidates(robot: str, placed: PlacedObject) -> Iterator[PlacedObject]:
    range_m, bearing = math.hypot(placed.x_m, placed.y_m), math.atan2(placed.y_m, placed.x_m)
    low_m, high_m = _LIMITS_M[robot]
    widest_deg = 24 if robot == "tello" and placed.is_listed else 180
    steps = [(turn, more) for turn in _TURNS_DEG if abs(turn) <= widest_deg for more in _RANGES_M[robot]]
    for turn_deg, more_m in sorted(steps, key=lambda s: abs(s[0]) * range_m / 57.3 + abs(s[1])):
        way_m, turned = min(max(range_m + more_m, low_m), high_m), bearing + math.radians(turn_deg)
        is_in_view = not placed.is_listed or robot != "tello" or abs(math.degrees(turned)) <= 27.0
        if is_in_view:
            x, y = way_m * math.cos(turned), way_m * math.sin(turned)
            yield replace(placed, x_m=round(x, 3), y_m=round(y, 3)) if (turn_deg or more_m) else placed


def _overlap(one: WorldObject, other: WorldObject) -> bool:
    sides = zip(one.position_m, other.position_m, one.size_m, other.size_m, strict=True)
    return all(abs(p - q) < (a + b) / 2 + APART_M for p, q, a, b in sides)


def _is_hidden(thing: WorldObject, others: list[WorldObject]) -> bool:
    """Returns whether, seen from the start, an object stands before it or it before another one."""
    bearing, half = _seen_at(thing)
    return any(abs(math.remainder(bearing - b, 2 * math.pi)) < half + h for b, h in map(_seen_at, others))


def _seen_at(thing: WorldObject) -> tuple[float, float]:
    x, y, _ = thing.position_m
    return math.atan2(y, x), math.atan2(0.5 * max(thing.size_m[:2]), max(0.1, math.hypot(x, y)))
