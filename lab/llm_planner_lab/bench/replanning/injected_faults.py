# SPDX-License-Identifier: Apache-2.0
"""What goes wrong on the way: tasks in worlds that are not, or do not stay, as the plan took them to be."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from llm_planner.core.errors import PlannerError
from llm_planner.demo.outcome import execute
from llm_planner.robots.model import RobotModel
from llm_planner.robots.world import World
from llm_planner.sim.kinematics import KinematicDriver
from llm_planner_lab.tasks.sample import Task
from llm_planner_lab.tasks.worlds import build_world

_MOVING = {
    "tello": frozenset({"g", "a", "o", "s", "mf", "mb", "ml", "mr", "mu", "md", "tc", "tu"}),
    "indy7": frozenset({"pick", "place", "push", "move_to"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFault:
    """One task, and what goes wrong with it.

    Attributes:
        kind: ``blocked``, ``moved`` or ``gone``.
        make_driver: Makes the robot in the world where it goes wrong; the same each time.
    """

    kind: str
    task: Task
    make_driver: Callable[[], KinematicDriver]


def blocked(task: Task, plan: str, model: RobotModel, rng: random.Random) -> InjectedFault | None:
    """Returns a task of whose plan one call that moves fails, once: something is in the way for a while."""
    try:
        calls = [done.call.name for done in execute(task, plan, model).outcome.calls]
    except PlannerError:
        return None
    places = [index for index, name in enumerate(calls) if name in _MOVING[task.robot]]
    if not places:
        return None
    index = rng.choice(places)
    failures = {(calls[index], calls[: index + 1].count(calls[index])): "something is in the way"}
    return InjectedFault(
        kind="blocked",
        task=task,
        make_driver=lambda: KinematicDriver(model, build_world(task), random.Random(0), failures=failures),
    )


def moved(task: Task, _plan: str, model: RobotModel, _rng: random.Random) -> InjectedFault | None:
    """Returns a drone's task whose object stands on the other side, behind the robot, once it sets out."""
    names = _targets(task)
    if not names:
        return None

    def make_driver() -> KinematicDriver:
        world = build_world(task)
        for name in names:
            thing = world.objects[name]
            x, y, z = thing.position_m
            world.objects[name] = replace(thing, position_m=(-x, -y, z))
        return KinematicDriver(model, world, random.Random(0))

    return InjectedFault(kind="moved", task=task, make_driver=make_driver)


def gone(task: Task, _plan: str, model: RobotModel, _rng: random.Random) -> InjectedFault | None:
    """Returns a drone's task whose object is not there any more: all that is left is to say so."""
    names = _targets(task)
    if not names:
        return None

    def make_driver() -> KinematicDriver:
        objects = build_world(task).objects.values()
        return KinematicDriver(model, World(thing for thing in objects if thing.name not in names), random.Random(0))

    return InjectedFault(kind="gone", task=task, make_driver=make_driver)


def _targets(task: Task) -> list[str]:
    """Returns the objects that a task is about, if the robot sees them from where it starts."""
    listed = {placed.name for placed in task.objects if placed.is_listed}
    return [name for name in task.goal[1:] if name in listed and task.scene]


KINDS: dict[str, tuple[Callable[[Task, str, RobotModel, random.Random], InjectedFault | None], tuple[str, ...]]] = {
    "blocked": (blocked, ("sequence", "arm_sequence", "goto", "arm_put", "stack", "clean_desk", "sort_food")),
    "moved": (moved, ("goto", "look_for", "look_at", "check_on")),
    "gone": (gone, ("goto", "look_for", "look_at")),
}
"""What goes wrong, and in which families of tasks."""
