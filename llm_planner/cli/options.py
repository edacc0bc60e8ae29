# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

import time
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from llm_planner.core.request import BudgetScope
from llm_planner.core.text import node_name

COMPLETION_S = 1.0
"""How long robots are looked for while a shell waits for a completion."""


def complete_robot_model(incomplete: str) -> list[str]:
    """Returns the bundled robot models that begin so."""
    from llm_planner.robots.library import RobotLibrary

    return [name for name in RobotLibrary().names() if name.startswith(incomplete)]


def complete_policy(incomplete: str) -> list[str]:
    """Returns the scheduling policies that begin so."""
    from llm_planner.scheduling.policies import policy_names

    return [name for name in policy_names() if name.startswith(incomplete)]


def complete_robot(incomplete: str) -> list[str]:
    """Returns the running robots whose names begin so; looks until one is found."""
    from llm_planner.ros.graph import robot_nodes
    from llm_planner.ros.spinning import spinning

    until_s = time.monotonic() + COMPLETION_S
    found: set[str] = set()
    with spinning("llm_planner_completion") as node:
        while time.monotonic() < until_s and not found:
            time.sleep(COMPLETION_S / 10)
            found = robot_nodes(node)
    return sorted(name for robot in found if (name := robot.removeprefix("/")).startswith(incomplete))


def _note_json(context: typer.Context, value: bool) -> bool:
    """Notes for ``main`` whether the command prints JSON; where --json is a file, it does not."""
    context.ensure_object(dict)["json"] = value
    return value


class Overrun(Enum):
    """``core.request.OverrunStrategy``, as it is typed."""

    KILL = "kill"
    SKIP_NEXT = "skip-next"
    PARTIAL = "partial"


class Scope(Enum):
    """``core.request.BudgetScope``, as it is typed."""

    FIRST_SEGMENT = "first-segment"
    WHOLE_PLAN = "whole-plan"


OverrunOption = Annotated[
    Overrun,
    typer.Option(help="If the budget cannot be kept: end the goal, go on, or close the plan in time."),
]
ScopeOption = Annotated[
    Scope | None,
    typer.Option(
        help="What must be there within the budget: what lets the robot begin, or all; by default all with "
        "--overrun partial, else the first segment."
    ),
]
RobotOption = Annotated[
    str,
    typer.Option("--robot", "-r", help="Robot model, see `llm-planner robots`.", autocompletion=complete_robot_model),
]
PlannerOption = Annotated[str, typer.Option(callback=node_name, help="Full name of the planner node.")]
ModelsOption = Annotated[
    list[Path] | None,
    typer.Option("--models", help="Directory with robot models of your own, searched before the bundled ones."),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object instead of text.", callback=_note_json, is_eager=True),
]
ModelOption = Annotated[
    str | None, typer.Option("--model", "-m", help="Checkpoint directory, or the name of a bundled model.")
]
PolicyOption = Annotated[
    str | None, typer.Option("--policy", help="Scheduling policy.", autocompletion=complete_policy)
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML file with planner settings, see config/planner.yaml.")
]
BackendOption = Annotated[
    str | None, typer.Option("--backend", help="What runs the model: torch, vllm, openai (a server), or fake.")
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option("--base-url", help="With --backend openai: the server's address, e.g. http://127.0.0.1:8000/v1."),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything that is random.")]
ThreadsOption = Annotated[
    int, typer.Option("--threads", min=0, help="CPU threads of the engine; 0 leaves the choice to the planner.")
]


def budget_scope_of(given: Scope | None, overrun: Overrun) -> BudgetScope:
    """Returns what a budget covers: a plan that shall be closed in time is meant as a whole."""
    default = Scope.WHOLE_PLAN if overrun is Overrun.PARTIAL else Scope.FIRST_SEGMENT
    return BudgetScope[(given or default).name]
