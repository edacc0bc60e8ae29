# SPDX-License-Identifier: Apache-2.0
"""Measures a model by execution: held-out tasks, the planner's own serving path, the goal tests of ``tasks``."""

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from llm_planner.assembly import build_library, build_loop
from llm_planner.core.config import EngineConfig, PlannerConfig, SchedulerConfig
from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import PlanResult, Urgency
from llm_planner.demo.goal_tests import is_achieved
from llm_planner.serving.loop import PlannerLoop
from llm_planner_lab.simulation.serving import serve_all
from llm_planner_lab.tasks.sample import FAMILY_NAMES, Difficulty, Task, sample

HELD_OUT_DIFFICULTY = Difficulty(max_objects=40)
STANDS_STILL = frozenset({ErrorCode.NOT_ACHIEVED, ErrorCode.NOT_UNDERSTOOD})
"""How a goal ends whose plan says why it cannot; right where it cannot."""
MAX_EXAMPLES = 5  # failures kept per family


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A task that a model got wrong."""

    instruction: str
    scene: str
    expected: str
    plan: str
    reason: str


@dataclass(slots=True, kw_only=True)
class FamilyScore:
    """How a model does on one family.

    Attributes:
        num_tasks: Tried.
        num_achieved: The executed plan passed the goal test.
        num_exact: The plan was the reference plan, letter by letter.
    """

    num_tasks: int = 0
    num_achieved: int = 0
    num_exact: int = 0
    failures: list[Failure] = field(default_factory=list)

    @property
    def success(self) -> float:
        """Share of tasks that were achieved."""
        return self.num_achieved / max(1, self.num_tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Scores by family, and what they were measured on."""

    model: str
    seed: int
    difficulty: Difficulty
    scores: dict[str, FamilyScore]

    @property
    def total(self) -> FamilyScore:
        """All families together."""
        scores = self.scores.values()
        return FamilyScore(
            num_tasks=sum(score.num_tasks for score in scores),
            num_achieved=sum(score.num_achieved for score in scores),
            num_exact=sum(score.num_exact for score in scores),
        )

    def to_json(self) -> str:
        """Returns everything as JSON."""
        return json.dumps(asdict(self), indent=1)


def evaluate(
    model: Path,
    *,
    per_family: int = 50,
    seed: int = 1,
    difficulty: Difficulty = HELD_OUT_DIFFICULTY,
    families: Sequence[str] = FAMILY_NAMES,
    threads: int = 1,
    held_out: bool = True,
) -> Evaluation:
    """Returns how many held-out tasks of each family a model solves.

    Plans are generated as in service: compact or instruct prompt, grammar, greedy decoding, parser, safety gate.

    Args:
        model: Checkpoint directory.
        per_family: Tasks of each family.
        seed: Of the tasks.
        difficulty: Of the tasks.
        families: Which ones.
        threads: CPU threads of the engine.
        held_out: As ``sample`` has it: variants of templates, words and combinations that it never draws for training.
    """
    rng = random.Random(seed)
    tasks = [sample(rng, difficulty, held_out=held_out, family=name) for name in families for _ in range(per_family)]
    config = PlannerConfig(
        engine=EngineConfig(model=str(model), dtype="float32", device="cpu", num_threads=threads),
        scheduler=SchedulerConfig(policy="fcfs", max_num_seqs=16),
    )
    robots = {name: build_library(config).get(name) for name in {task.robot for task in tasks}}
    loop = build_loop(config, do_clients_report=False)
    try:
        results = plan_all(loop, tasks)
    finally:
        loop.close()
    scores = {name: FamilyScore() for name in families}
    for task, result in zip(tasks, results, strict=True):
        passed, reason = is_achieved(task, written(result), robots[task.robot])
        stands = result.error_code in STANDS_STILL | {ErrorCode.NONE}
        _count(scores[task.family], task, result, passed=passed and stands, reason=reason)
    return Evaluation(model=model.name, seed=seed, difficulty=difficulty, scores=scores)


def written(result: PlanResult) -> str:
    """Returns the plan of a result as the model wrote it, with how it ended."""
    if result.error_code in STANDS_STILL:
        return result.plan + "fail('{}');".format(result.error_msg.replace("'", ""))
    return result.plan


def plan_all(loop: PlannerLoop, tasks: Sequence[Task]) -> list[PlanResult]:
    """Returns the result of each task, in order; what the robot must flee from is sent as URGENT, as robots do."""
    return serve_all(
        loop,
        [
            task.request(str(index), Urgency.URGENT if task.goal[0] == "fled" else Urgency.NORMAL)
            for index, task in enumerate(tasks)
        ],
    )


def _count(score: FamilyScore, task: Task, result: PlanResult, *, passed: bool, reason: str) -> None:
    score.num_tasks += 1
    score.num_achieved += passed
    score.num_exact += result.plan == task.plan
    if not passed and len(score.failures) < MAX_EXAMPLES:
        why = f"{result.error_msg} [{int(result.error_code)}]" if result.error_code else reason
        score.failures.append(
            Failure(
                instruction=task.instruction, scene=task.scene[:300], expected=task.plan, plan=result.plan, reason=why
            )
        )
