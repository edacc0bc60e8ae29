# SPDX-License-Identifier: Apache-2.0
"""What KV eviction gives and takes, by ratio: the time of a decode step, and plans that succeed when executed.

``python -m llm_planner_lab.bench.timebill.eviction --model DIR``. Success is that of ``training.evaluate``: held-out
tasks, the planner's own serving path, the goal tests of ``tasks``; here on scenes that fill hundreds of tokens.
"""

import json
import random
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table

from llm_planner.checkpoints import build_prompt_encoder
from llm_planner.core.config import SchedulerConfig
from llm_planner.core.interfaces import BackendInfo
from llm_planner.core.request import PlanRequest
from llm_planner.core.step import SchedulerOutput
from llm_planner.demo.goal_tests import is_achieved
from llm_planner.engine.backend import TorchBackend
from llm_planner.engine.eviction import eviction_method_names
from llm_planner.robots.library import RobotLibrary
from llm_planner.scheduling.eviction import decide_eviction
from llm_planner.scheduling.generation import Generation
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.preparation import Prepared
from llm_planner.serving.prompt_encoder import PromptEncoder
from llm_planner_lab.bench.eviction_time import StepTime, time_steps
from llm_planner_lab.bench.timebill.preparers import WholeScenePreparer
from llm_planner_lab.simulation.serving import serve_all
from llm_planner_lab.tasks.sample import FAMILY_NAMES, Difficulty, Task, sample

LONG_SCENES = Difficulty(max_objects=200)
MAX_DRAWS = 200  # per task: families without a scene never give a long prompt
ANY, NEEDS_SCENE = "any", "scene"
_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How plans fare.

    Attributes:
        tasks: ``any``, or ``scene``: the plan must name something that the instruction does not.
        removed: Share of the prompts' KV that was removed: protected tokens stay, whatever the ratio.
        success: Share of tasks whose executed plan passes the goal test.
        same_numbers: Share of tasks whose plan has the numbers of the reference plan, in its order.
        num_tasks: How many.
        mean_prompt_tokens: Their length.
    """

    tasks: str
    method: str
    eviction_ratio: float
    removed: float
    success: float
    same_numbers: float
    num_tasks: int
    mean_prompt_tokens: float


class FixedRatio(Scheduler):
    """Evicts the same share of every generation's prompt: the fixed alpha that TimeBill compares with.

    Attributes:
        num_prompt_tokens: Of all generations.
        num_evicted_tokens: Of all generations, counted when they are evicted.
    """

    def __init__(self, config: SchedulerConfig, info: BackendInfo, eviction_ratio: float) -> None:
        super().__init__(config, make_policy(config.policy), info)
        self._info = info
        self._eviction_ratio = eviction_ratio
        self.num_prompt_tokens = self.num_evicted_tokens = 0

    def add(self, generation: Generation) -> None:
        """Puts a new generation in line, to be evicted after its prefill."""
        decide_eviction(generation, self._eviction_ratio, self._info)
        self.num_prompt_tokens += generation.num_prompt_tokens
        super().add(generation)

    def schedule(self, now_s: float) -> SchedulerOutput:
        """Returns the next step."""
        scheduled = super().schedule(now_s)
        self.num_evicted_tokens += sum(scheduled.evict.values())
        return scheduled


class _EvictablePreparer(WholeScenePreparer):
    """Every request is shown all of its scene, and may be evicted, as if it had a time budget."""

    def prepare(self, request: PlanRequest) -> Prepared:
        return super().prepare(replace(request, time_budget_s=1.0))


def score(model: Path, method: str, eviction_ratio: float, kind: str, tasks: Sequence[Task]) -> Score:
    """Returns how tasks fare with a fixed ratio."""
    library, encoder = RobotLibrary(), build_prompt_encoder(model)
    backend = TorchBackend(model, eviction_method=method)
    scheduler = FixedRatio(SchedulerConfig(policy="fcfs", max_num_seqs=8), backend.info, eviction_ratio)
    preparer = _EvictablePreparer(
        backend=backend, tokenizer=backend.tokenizer, library=library, style=encoder.style, markup=encoder.markup
    )
    loop = PlannerLoop(backend=backend, scheduler=scheduler, preparer=preparer, do_clients_report=False)
    results = serve_all(loop, [task.request(str(index)) for index, task in enumerate(tasks)])
    loop.close()
    pairs = list(zip(tasks, results, strict=True))
    good = [not r.error_code and is_achieved(t, r.plan, library.get(t.robot))[0] for t, r in pairs]
    numbers = [_NUMBER.findall(task.plan) == _NUMBER.findall(result.plan) for task, result in pairs]
    return Score(
        tasks=kind,
        method=method,
        eviction_ratio=eviction_ratio,
        removed=scheduler.num_evicted_tokens / scheduler.num_prompt_tokens,
        success=statistics.mean(good),
        same_numbers=statistics.mean(numbers),
        num_tasks=len(tasks),
        mean_prompt_tokens=scheduler.num_prompt_tokens / len(tasks),
    )


def num_prompt_tokens(task: Task, encoder: PromptEncoder, library: RobotLibrary) -> int:
    """Returns the length of a task's prompt."""
    prompt = encoder.encode(library.get(task.robot), task.instruction, task.scene)
    return len(prompt.static_ids) + len(prompt.dynamic_ids)


def needs_scene(task: Task) -> bool:
    """Returns whether the reference plan names an object that the instruction does not."""
    spoken, planned = task.instruction.lower().replace(" ", "_"), frozenset(_NAME.findall(task.plan))
    return any(placed.name in planned and placed.name not in spoken for placed in task.objects)


def long_tasks(model: Path, *, kind: str, num_tasks: int, min_tokens: int, max_tokens: int, seed: int) -> list[Task]:
    """Returns held-out tasks of a kind whose prompts have ``min_tokens`` to ``max_tokens``, families taking turns."""
    library, encoder, rng = RobotLibrary(), build_prompt_encoder(model), random.Random(seed)

    def draw() -> Iterator[Task]:
        for _ in range(MAX_DRAWS * num_tasks):
            for family in FAMILY_NAMES:
                task = sample(rng, LONG_SCENES, held_out=True, family=family)
                if not task.scene or (kind == NEEDS_SCENE and not needs_scene(task)):
                    continue
                if min_tokens <= num_prompt_tokens(task, encoder, library) <= max_tokens:
                    yield task

    tasks = [task for task, _ in zip(draw(), range(num_tasks), strict=False)]
    if len(tasks) < num_tasks:
        raise RuntimeError(f"only {len(tasks)} tasks have prompts of {min_tokens} to {max_tokens} tokens")
    return tasks


def main(  # noqa: PLR0913, PLR0917 (one argument per option)
    model: Annotated[Path, typer.Option(help="Hugging Face checkpoint directory.")],
    method: Annotated[list[str] | None, typer.Option(help="Eviction methods; by default all.")] = None,
    ratio: Annotated[list[float], typer.Option(help="Eviction ratios, 0 to 1.")] = [0.0, 0.25, 0.5, 0.75, 0.95],  # noqa: B006
    prompt_tokens: Annotated[list[int], typer.Option(help="Prompts whose steps are timed.")] = [500, 1000, 2000],  # noqa: B006
    batch: Annotated[list[int], typer.Option(help="Sequences in a step.")] = [1, 8],  # noqa: B006
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of timing.")] = 7,
    num_tasks: Annotated[int, typer.Option(min=0, help="Tasks of each kind to plan and execute; 0 for none.")] = 100,
    min_tokens: Annotated[int, typer.Option(min=1, help="Shortest prompt of a task.")] = 500,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest prompt of a task.")] = 2000,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the tasks.")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the figures here.")] = None,
) -> None:
    """Times decode steps and counts successful plans against the eviction ratio."""
    torch.set_num_threads(threads)
    methods = method or list(eviction_method_names())
    times = [
        row
        for length in prompt_tokens
        for size in batch
        for row in time_steps(model, methods[0], prompt_tokens=length, num_seqs=size, ratios=ratio, rounds=rounds)
    ]
    _print(f"Decode steps, {model.name}, {methods[0]}, {threads} threads", times)
    scores: list[Score] = []
    if num_tasks:
        limits = {"num_tasks": num_tasks, "min_tokens": min_tokens, "max_tokens": max_tokens}
        for kind in (ANY, NEEDS_SCENE):
            tasks = long_tasks(model, kind=kind, seed=seed, **limits)
            scores += [score(model, name, value, kind, tasks) for name in methods for value in ratio]
        _print(f"Plans, {model.name}, executed", scores)
    if json_file:
        figures = {"model": model.name, "threads": threads, "seed": seed, "torch": torch.__version__}
        rows = {"steps": [asdict(row) for row in times], "scores": [asdict(row) for row in scores]}
        json_file.write_text(json.dumps(figures | rows, indent=2) + "\n", encoding="utf-8")


def _print(title: str, rows: Sequence[StepTime] | Sequence[Score]) -> None:
    values = [asdict(row) for row in rows]
    table = Table(*values[0], title=title)
    for row in values:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console().print(table)


command = typer.Typer(add_completion=False)
command.command()(main)

if __name__ == "__main__":
    command()
