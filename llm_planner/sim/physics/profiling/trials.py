# SPDX-License-Identifier: Apache-2.0
"""What is tried: calls of skills in worlds where they have something to do."""

import itertools
import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from llm_planner.core.skill import SkillCall, Value
from llm_planner.robots.effect import (
    Effect,
    Grasp,
    Gripper,
    Home,
    Land,
    MoveTool,
    Place,
    Push,
    Scan,
    TakeOff,
    Translate,
    Turn,
)
from llm_planner.robots.model import Pose, RobotKind, RobotModel, Skill
from llm_planner.robots.world import ObjectRole, WorldObject

NUM_POINTS = 8
"""Arguments on the grid of a skill with a number, spread evenly in the square root: short ways matter most."""
_TABLE = WorldObject(
    name="table", position_m=(0.45, 0.0, 0.0), size_m=(0.6, 1.3, 0.0), role=ObjectRole.AREA, is_fixed=True
)
_CUBE_M = (0.05, 0.05, 0.05)
_APART_M = 0.12
_LOW_M = (0.08, 0.15)
"""Heights of the tool behind a grasp, a placing or a way to a thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One call in a world.

    Attributes:
        skill: Its name.
        pose: Where the robot begins; the model's start pose if None.
        before: Calls that bring about what it needs; not timed.
        length: Of the way, in metres or degrees, if the argument tells.
    """

    skill: str
    call: SkillCall
    objects: tuple[WorldObject, ...] = ()
    pose: Pose | None = None
    before: tuple[SkillCall, ...] = ()
    length: float | None = None


def is_tried(skill: Skill, robot: RobotKind) -> bool:
    """Returns whether physics says how long a skill takes: a look, a word or a pause takes what its model says.

    So does a drone's flight home: as that to a thing, it takes as long as the way is far, which no argument says.
    """
    return isinstance(skill.effect, _MOVING) and not (isinstance(skill.effect, Home) and robot is RobotKind.DRONE)


def groups(model: RobotModel, names: Iterable[str]) -> list[list[Skill]]:
    """Returns some of a robot's skills; those that share a duration model, and do the same, together.

    Flights in all directions are the same, turns either way, and searches whatever they look for.
    """
    wanted = set(names)
    together: dict[str, list[Skill]] = {}
    for skill in model.skills.values():
        if skill.name in wanted:
            is_any_way = isinstance(skill.effect, Translate | Turn | Scan)
            does = type(skill.effect).__name__ if is_any_way else repr(skill.effect)
            together.setdefault(f"{does} {skill.duration}", []).append(skill)
    return list(together.values())


def trials(model: RobotModel, rng: random.Random, *, num_calls: int, held_out: bool) -> Iterator[Trial]:
    """Yields the trials of all skills of a robot that physics times.

    Args:
        model: Of the robot.
        rng: Source of arguments that are not on the grid, of places and headings.
        num_calls: Of each group of skills that share a duration model, at least: they take turns.
        held_out: Whether arguments are drawn from the whole range instead of from the grid.
    """
    for group in groups(model, (skill.name for skill in model.skills.values() if is_tried(skill, model.kind))):
        num_rounds = -(-num_calls // (len(group) * NUM_POINTS))
        for skill in group:
            for index in range(NUM_POINTS * num_rounds):
                yield _trial(model, skill, _number(skill, None if held_out else index % NUM_POINTS, rng), rng)


MOST_DRAWS = 100  # of an argument between the points of the grid


def grid(low: float, high: float) -> list[float]:
    """Returns the arguments that are tried, whole numbers."""
    a, b = math.sqrt(low), math.sqrt(high)
    return [float(round((a + (b - a) * index / (NUM_POINTS - 1)) ** 2)) for index in range(NUM_POINTS)]


def _number(skill: Skill, index: int | None, rng: random.Random) -> float | None:
    argument = skill.number
    if argument is None or argument.minimum is None or argument.maximum is None:
        return None
    points = grid(argument.minimum, argument.maximum)
    if index is not None:
        return points[index]
    number = points[0]
    for _ in range(MOST_DRAWS):  # in a narrow range every whole number is a point: then the last one drawn
        number = float(round(rng.uniform(math.sqrt(points[0]), math.sqrt(points[-1])) ** 2))
        if number not in points:
            break
    return number


def _trial(model: RobotModel, skill: Skill, number: float | None, rng: random.Random) -> Trial:
    match skill.effect:
        case Translate() as effect:
            return _flight(model, skill, effect, number or 0.0, rng)
        case Turn():
            call = SkillCall(skill.name, (number or 0.0,))
            return Trial(skill=skill.name, call=call, pose=_heading(model, rng), length=number)
        case TakeOff():
            return Trial(skill=skill.name, call=SkillCall(skill.name), pose=Pose(z_m=0.0))
        case Land():
            pose = Pose(z_m=rng.uniform(0.5, 2.5), yaw_deg=rng.uniform(-180.0, 180.0))
            return Trial(skill=skill.name, call=SkillCall(skill.name), pose=pose)
        case Scan():
            return _search(model, skill, rng)
        case _:
            return _table_work(model, skill, rng)


def _flight(model: RobotModel, skill: Skill, effect: Translate, number: float, rng: random.Random) -> Trial:
    """Returns a flight that stays inside the fence, into any direction of the wind."""
    length_m, yaw_deg = number * effect.unit_m, rng.uniform(-180.0, 180.0)
    fence = model.geofence
    assert fence is not None
    low_m, high_m = fence.z_m
    middle_m, up_m = (low_m + high_m) / 2.0, effect.axis[2] * length_m
    if abs(up_m) > high_m - low_m - 0.1:
        length_m = high_m - low_m - 0.1
        up_m = math.copysign(length_m, up_m)
    ahead = math.atan2(effect.axis[1], effect.axis[0]) + math.radians(yaw_deg)
    level_m = length_m * math.hypot(effect.axis[0], effect.axis[1])
    pose = Pose(
        x_m=-math.cos(ahead) * level_m / 2.0,
        y_m=-math.sin(ahead) * level_m / 2.0,
        z_m=middle_m - up_m / 2.0,
        yaw_deg=yaw_deg,
    )
    call = SkillCall(skill.name, (round(length_m / effect.unit_m, 3),))
    return Trial(skill=skill.name, call=call, pose=pose, length=length_m)


def _heading(model: RobotModel, rng: random.Random) -> Pose:
    return Pose(z_m=model.start.z_m, yaw_deg=rng.uniform(-180.0, 180.0))


def _search(model: RobotModel, skill: Skill, rng: random.Random) -> Trial:
    """Returns a search for something that stands anywhere around."""
    angle, distance_m = rng.uniform(-math.pi, math.pi), rng.uniform(1.0, 4.5)
    at = (distance_m * math.cos(angle), distance_m * math.sin(angle), model.start.z_m)
    thing = WorldObject(name="target", kind="target", position_m=at, size_m=(0.3, 0.3, 0.3))
    return Trial(skill=skill.name, call=SkillCall(skill.name, ("target",)), objects=(thing,), pose=model.start)


def _table_work(model: RobotModel, skill: Skill, rng: random.Random) -> Trial:
    """Returns a call on a table with two cubes that lie anywhere within reach.

    The arm begins in its start pose, as with the first call of a plan, or low above some other place, as behind a call.
    It goes home from such a place only, and places from where it has grasped.
    """
    one, two, elsewhere = _places(model, rng)
    is_at_start = isinstance(skill.effect, Place | Gripper) or (
        not isinstance(skill.effect, Home) and rng.random() < 0.5
    )
    pose = None if is_at_start else replace(model.start, x_m=elsewhere[0], y_m=elsewhere[1], z_m=rng.uniform(*_LOW_M))
    objects = (
        _TABLE,
        WorldObject(name="one", position_m=(*one, _CUBE_M[2] / 2.0), size_m=_CUBE_M),
        WorldObject(name="two", position_m=(*two, _CUBE_M[2] / 2.0), size_m=_CUBE_M),
    )
    names: tuple[Value, ...] = ("one", "two")[: len(skill.arguments)]
    call = SkillCall(skill.name, names)
    return Trial(skill=skill.name, call=call, objects=objects, pose=pose, before=_preparation(model, skill.effect))


def _preparation(model: RobotModel, effect: Effect) -> tuple[SkillCall, ...]:
    grasp = next((skill.name for skill in model.skills.values() if isinstance(skill.effect, Grasp)), None)
    return (SkillCall(grasp, ("one",)),) if isinstance(effect, Place) and grasp is not None else ()


def _places(model: RobotModel, rng: random.Random) -> list[tuple[float, float]]:
    """Returns three places within reach, none near another."""
    space = model.workspace
    assert space is not None
    while True:
        places = [(rng.uniform(0.2, 0.7), rng.uniform(-0.55, 0.55)) for _ in range(3)]
        is_reachable = all(space.reach_m[0] + 0.05 < math.hypot(*p) < space.reach_m[1] - 0.08 for p in places)
        if is_reachable and all(math.dist(a, b) > _APART_M for a, b in itertools.combinations(places, 2)):
            return places


_MOVING = (Translate, Turn, TakeOff, Land, Scan, Grasp, Place, Push, MoveTool, Home, Gripper)
