# SPDX-License-Identifier: Apache-2.0
"""``python -m llm_planner_lab.training.refusals [FILES]``: right plans that the checks of a planner would refuse.

Each sentence comes with the things of its plan in its scene, and its author's plan is held against its words as a
model's plan would be.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track

from llm_planner.core.errors import PlannerError
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.instruction.checks import instruction_checks
from llm_planner.planning.instruction.verdict import PlanCheck, Verdict
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.model import RobotModel
from llm_planner_lab.tasks.frames import ROBOTS, Frame, corpus, read_frames
from llm_planner_lab.tasks.sample import Task
from llm_planner_lab.tasks.spoken import literal


def refusals(
    frames: Iterable[Frame], robots: Mapping[str, RobotModel], *, seed: int = 0
) -> tuple[int, Mapping[str, Sequence[str]]]:
    """Returns how many plans were judged, and by name of the check, what it says of those that it would refuse.

    A plan that orders nothing, or that the gate refuses, is not judged.

    Args:
        frames: Sentences with right plans.
        robots: By name.
        seed: Of the scenes.
    """
    rng, num_judged = random.Random(seed), 0
    refused: dict[str, list[str]] = defaultdict(list)
    for frame in frames:
        task = literal(rng, frame, has_scene=True)
        if task.plan.startswith(("fail(", "unclear(")):
            continue
        gate = SafetyGate(robots[task.robot])
        try:
            statements = [(gate.admit(statement), to_text(statement)) for statement in parse(task.plan)]
        except PlannerError:
            continue
        num_judged += 1
        for check in instruction_checks(robots[task.robot], _request(frame, task), is_copying=True):
            is_refused = any(check.feed(*statement) is Verdict.CONTRADICTED for statement in statements)
            if is_refused or check.finish() is Verdict.CONTRADICTED:
                refused[_name(check)].append(f"{task.instruction} | {task.plan} | {check.problem}")
                break
    return num_judged, refused


def _request(frame: Frame, task: Task) -> PlanRequest:
    return task.request("refusals", Urgency.URGENT if frame.is_danger else Urgency.NORMAL)


def _name(check: PlanCheck) -> str:
    return type(check).__name__.removesuffix("Check").lower()


def main(
    files: Annotated[list[Path] | None, typer.Argument(help="Sentences (lab/corpus/README.md); default: all.")] = None,
    seed: Annotated[int, typer.Option(help="Of the scenes.")] = 0,
    examples: Annotated[int, typer.Option(min=0, help="How many to show of each check.")] = 3,
) -> None:
    """Counts the right plans that would be refused."""
    frames = [frame for path in files for frame in read_frames(path)] if files else corpus()
    library = RobotLibrary()
    num_judged, refused = refusals(track(frames), {name: library.get(name) for name in ROBOTS}, seed=seed)
    typer.echo(f"{sum(map(len, refused.values()))} of {num_judged:,} right plans would be refused")
    for name, sentences in sorted(refused.items()):
        typer.echo(f"{name}: {len(sentences)}")
        for sentence in sentences[:examples]:
            typer.echo(f"    {sentence}")


if __name__ == "__main__":
    typer.run(main)
