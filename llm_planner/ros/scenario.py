# SPDX-License-Identifier: Apache-2.0
"""A scenario: which robot is told what, and when; read from YAML once, at the start of a robot node.

drone_1:
  - {at_s: 0.0, instruction: look for the chair, world: {objects: [{name: chair, position_m: [2.0, 0.0, 1.0]}]}}
  - {at_s: 8.0, instruction: a person comes from the left, urgency: URGENT}
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import BudgetScope, OverrunStrategy, Urgency
from llm_planner.documents import DocumentError, read_yaml, validated
from llm_planner.srv import Instruct

MAX_FILE_BYTES = 4_000_000  # what twenty robots are told in seven hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One instruction of a scenario.

    Attributes:
        at_s: When, in seconds after the planner became active.
        urgency: Name of an urgency.
        time_budget_s: Hard limit to what ``budget_scope`` says; 0 for none.
        overrun: Name of an overrun strategy.
        budget_scope: Name of what the budget covers.
        world: As in ``Instruct.world``; None to go on in the present one.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "allow_inf_nan": False}

    instruction: str
    at_s: float = 0.0
    scene: str = ""
    urgency: str = Urgency.NORMAL.name
    time_budget_s: float = 0.0
    overrun: str = OverrunStrategy.KILL.name
    budget_scope: str = BudgetScope.FIRST_SEGMENT.name
    world: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        named = (("urgency", Urgency), ("overrun", OverrunStrategy), ("budget_scope", BudgetScope))
        for name, kind in named:
            if (given := getattr(self, name)) not in kind.__members__:
                raise ValueError(f"{name} {given!r} is none of {', '.join(kind.__members__)}")

    @property
    def order(self) -> Instruct.Request:
        """The same as a request to the robot."""
        return Instruct.Request(
            instruction=self.instruction,
            scene=self.scene,
            urgency=Urgency[self.urgency].value,
            time_budget_s=self.time_budget_s,
            overrun=OverrunStrategy[self.overrun].value,
            budget_scope=BudgetScope[self.budget_scope].value,
            world=json.dumps(self.world) if self.world is not None else "",
            tag=f"scenario at {self.at_s:g} s",
        )


_ADAPTER = TypeAdapter(dict[str, list[Event]])


def load_scenario(path: Path, robot: str) -> list[Event]:
    """Returns what a robot is told in a scenario, in order of time; nothing if it does not occur there.

    Raises:
        PlannerError: INVALID_FILE, naming what is wrong with the file.
    """
    return sorted(_read(path).get(robot, []), key=lambda event: event.at_s)


def absent_robots(path: Path, started: Collection[str]) -> str:
    """Returns a line about the robots of a scenario that are not started and so not told; empty if there are none.

    Raises:
        PlannerError: As ``load_scenario``.
    """
    absent = [robot for robot in _read(path) if robot not in started]
    robots = ", ".join(started) or "none"
    return f"{path} tells robots that are not started: {', '.join(absent)}; started: {robots}" if absent else ""


def _read(path: Path) -> dict[str, list[Event]]:
    try:
        return validated(_ADAPTER, read_yaml(path, MAX_FILE_BYTES) or {})
    except DocumentError as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"{path} {error}") from error
