# SPDX-License-Identifier: Apache-2.0
"""The tasks of the demo: data, because the families from which tasks are drawn belong to the laboratory."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from pydantic import TypeAdapter

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.skill import Value
from llm_planner.robots.world import World, WorldObject

DEFAULT_SEED = 484
"""Of the tasks that are shipped; the bundled model solves all of them."""
ENTRY_POINTS = "llm_planner.demo_tasks"
"""An installed package that draws the tasks of any seed names a function ``seed -> tasks by tag`` in this group."""


class Task(Protocol):
    """What a goal test needs to know of a task."""

    @property
    def plan(self) -> str:
        """A reference plan that succeeds."""
        ...

    @property
    def goal(self) -> tuple[str, ...]:
        """Name and parameters of the goal test."""
        ...

    @property
    def world(self) -> World:
        """The world in which a plan is executed: the same objects each time, untouched."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTask:
    """A task with all that is needed to set it, and to judge its outcome.

    Attributes:
        family: Name of the family from which it was drawn.
        robot: Name of the robot model.
        instruction: What is asked.
        scene: What the robot says it sees; may be empty.
        plan: A reference plan that succeeds.
        goal: Name and parameters of the goal test.
        objects: Of the kinematic world.
        answers: Of the kinematic world, to questions about pictures.
        placed: The objects with room between them, for robots with bodies.
        solid: What stands in physics for ``placed``.
    """

    family: str
    robot: str
    instruction: str
    scene: str
    plan: str
    goal: tuple[str, ...]
    objects: tuple[WorldObject, ...]
    answers: Mapping[str, Value]
    placed: tuple[WorldObject, ...]
    solid: tuple[WorldObject, ...]

    @property
    def world(self) -> World:
        """The world in which a plan is executed."""
        return World(self.objects, self.answers)

    def embodied(self) -> "DemoTask":
        """Returns the task for robots with bodies: its objects have room."""
        return replace(self, objects=self.placed)


_ADAPTER = TypeAdapter(dict[str, DemoTask])


def path_of(seed: int) -> Path:
    """Returns where the tasks of a seed are, if they are shipped."""
    return Path(__file__).with_name(f"seed_{seed}.json")


def tasks_of(seed: int) -> dict[str, DemoTask]:
    """Returns the tasks of a demo by the tag of their goal: shipped ones, or drawn where the laboratory is installed.

    Raises:
        PlannerError: INVALID_CONFIG for another seed than the shipped one without the laboratory.
    """
    path = path_of(seed)
    if path.is_file():
        return _ADAPTER.validate_json(path.read_text(encoding="utf-8"))
    for point in entry_points(group=ENTRY_POINTS):
        drawn: dict[str, DemoTask] = point.load()(seed)
        return drawn
    raise PlannerError(
        ErrorCode.INVALID_CONFIG,
        f"the tasks of seed {seed} are drawn by the laboratory: run `make setup-dev` in a checkout, or take --seed "
        f"{DEFAULT_SEED}",
    )


def write_tasks(tasks: Mapping[str, DemoTask], path: Path) -> None:
    """Writes the tasks of a seed."""
    path.write_bytes(_ADAPTER.dump_json(dict(tasks), indent=1, exclude_defaults=True) + b"\n")


def kind_of(identifier: str) -> str:
    """Returns the identifier without its number."""
    head, _, tail = identifier.rpartition("_")
    return head if head and tail.isdigit() else identifier
