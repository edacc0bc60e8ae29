# SPDX-License-Identifier: Apache-2.0
"""``python -m llm_planner_lab.training.refusals [FILES]``: right plans that the checks of a planner would refuse.

Each sentence comes with the things of its plan in its scene, and its author's plan is held against its words as a
model's plan would be.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.progress import track

from llm_planner.core.errors import PlannerError
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.skill import SkillCall
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


class Judged(NamedTuple):
    """A right plan, and what a check is told of it: the calls and the text of each statement."""

    task: Task
    request: PlanRequest
    statements: Sequence[tuple[Sequence[SkillCall], str]]

    def refused_by(self, checks: Iterable[PlanCheck]) -> PlanCheck | None:
        """Returns the first of fresh checks that would refuse it."""
        for check in checks:
            is_refused = any(check.feed(*statement) is Verdict.CONTRADICTED for statement in self.statements)
            if is_refused or check.finish() is Verdict.CONTRADICTED:
                return check
        return None


def judged(frames: Iterable[Frame], robots: Mapping[str, RobotModel], *, seed: int = 0) -> Iterator[Judged]:
    """Yields the plans that order something, and that the gate admits.

    Args:
        frames: Sentences with right plans.
        robots: By name.
        seed: Of the scenes.
    """
    rng = random.Random(seed)
    for frame in frames:
        task = literal(rng, frame, has_scene=True)
        if task.plan.startswith(("fail(", "unclear(")):
            continue
        gate = SafetyGate(robots[task.robot])
        try:
            statements = [(gate.admit(statement), to_text(statement)) for statement in parse(task.plan)]
        except PlannerError:
            continue
        yield Judged(task, _request(frame, task), statements)


def refusals(
    frames: Iterable[Frame], robots: Mapping[str, RobotModel], *, seed: int = 0
) -> tuple[int, Mapping[str, Sequence[str]]]:
    """Returns how many plans were judged, and by name of the check, what it says of those that it would refuse.

    Args:
        frames: Sentences with right plans.
        robots: By name.
        seed: Of the scenes.
    """
    num_judged = 0
    refused: dict[str, list[str]] = defaultdict(list)
    for plan in judged(frames, robots, seed=seed):
        num_judged += 1
        task, checks = plan.task, instruction_checks(robots[plan.task.robot], plan.request, is_copying=True)
        if (check := plan.refused_by(checks)) is not None:
            refused[_name(check)].append(f"{task.instruction} | {task.plan} | {check.problem}")
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
