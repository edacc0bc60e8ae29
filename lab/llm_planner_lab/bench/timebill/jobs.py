# SPDX-License-Identifier: Apache-2.0
"""What the sweep of TimeBill asks for: held-out tasks with long scenes, and how an answer is scored."""

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import BudgetScope, OverrunStrategy, PlanRequest
from llm_planner.demo.goal_tests import is_achieved
from llm_planner.demo.outcome import Executed, execute
from llm_planner.robots.library import RobotLibrary
from llm_planner.serving.prompt_encoder import PromptEncoder
from llm_planner_lab.bench.timebill.eviction import num_prompt_tokens
from llm_planner_lab.tasks.sample import Difficulty, Task, sample

LONG_SCENES = Difficulty(max_objects=500)
CLASSES = ((200, 400), (400, 600), (600, 900), (1000, 2000))
"""Prompt tokens with the whole scene, half-open: a class of requests shares its budget. The bundled model was trained
with 200 objects, which are some 750 tokens, at most."""
MAX_DRAWS = 20_000
FIRST_SEED = 100
"""Tasks of seeds 0 to 3 were in view when the rules of what is left out and evicted were made."""


def draw_task(rng: random.Random) -> Task:
    """Returns a task of any family, as often as in training."""
    return sample(rng, LONG_SCENES, held_out=True)


_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A task that is asked for.

    Attributes:
        name: Unique.
        class_index: Of ``classes``: by the length of its prompt.
        seed: With which it was drawn.
        num_prompt_tokens: With the whole scene.
    """

    name: str
    task: Task
    class_index: int
    seed: int
    num_prompt_tokens: int

    def request(self, name: str, max_tokens: int, budget_s: float | None, overrun: OverrunStrategy) -> PlanRequest:
        """Returns the request for the whole plan within a budget, of a robot that asks for one plan after another."""
        return replace(
            self.task.request(name),
            robot_id="robot",
            max_tokens=max_tokens,
            time_budget_s=budget_s,
            budget_scope=BudgetScope.WHOLE_PLAN,
            overrun=overrun,
        )


@dataclass(frozen=True, slots=True)
class Score:
    """How good an answer is: whether its execution does what was asked, and the share of right numbers in place.

    ``same_numbers`` is None where the reference plan has no number, and where they are no measure.
    """

    success: float
    same_numbers: float | None


def score(task: Task, plan: str | None, library: RobotLibrary) -> Score:
    """Returns the score of a plan, or of no answer (None), executed in the kinematic simulator."""
    wanted, got = _NUMBER.findall(task.plan), _NUMBER.findall(plan or "")
    same = sum(one == two for one, two in zip(wanted, got, strict=False)) / len(wanted) if wanted else None
    if plan is None:
        return Score(0.0, same)
    return Score(float(is_achieved(task, plan, library.get(task.robot))[0]), same)


def share_done(task: Task, plan: str | None, library: RobotLibrary) -> Score:
    """Returns how much of a long task a plan does, executed in the kinematic simulator: 1 if all, and nothing else.

    F1 of what was said and where things were brought, against what the reference plan says and brings. So an answer
    that is cut off is worth what it has, and one that leaves out things, or names wrong ones, is worth less.
    """
    if plan is None:
        return Score(0.0, None)
    model = library.get(task.robot)
    try:
        done, wanted = (_done(execute(task, one, model)) for one in (plan, task.plan))
    except PlannerError:
        return Score(0.0, None)
    num_both = sum((done & wanted).values())
    return Score(2.0 * num_both / (sum(done.values()) + sum(wanted.values())) if num_both else 0.0, None)


def _done(executed: Executed) -> Counter[tuple[str, str | None]]:
    moved = {
        (name, thing.support) for name, thing in executed.world.objects.items() if thing != executed.start.objects[name]
    }
    said = (("said", text.replace("_", " ")) for text in executed.said)  # names are spoken as words, as in service
    return Counter([*said, *moved])


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Which tasks are drawn.

    Attributes:
        num_seeds: Independent draws.
        first_seed: Of the first one.
        per_class: Tasks of each class and seed.
        classes: Half-open ranges of prompt tokens.
        max_tokens: N_max of every request.
        draw: Draws a task.
        score: Scores an answer.
    """

    num_seeds: int = 3
    first_seed: int = FIRST_SEED
    per_class: int = 6
    classes: tuple[tuple[int, int], ...] = CLASSES
    max_tokens: int = 256
    draw: Callable[[random.Random], Task] = draw_task
    score: Callable[[Task, str | None, RobotLibrary], Score] = score


def draw_jobs(workload: Workload, encoder: PromptEncoder, library: RobotLibrary) -> list[Job]:
    """Returns the jobs of all seeds, in the order in which they come.

    Jobs are chosen by their prompts alone, never by what is to be answered.

    Raises:
        PlannerError: INVALID_CONFIG if tasks of this length are too rare for this model's tokenizer.
    """
    seeds = range(workload.first_seed, workload.first_seed + workload.num_seeds)
    return [job for seed in seeds for job in _draw(workload, seed, encoder, library)]


def _draw(workload: Workload, seed: int, encoder: PromptEncoder, library: RobotLibrary) -> list[Job]:
    rng, missing = random.Random(seed), [workload.per_class] * len(workload.classes)
    jobs: list[Job] = []
    for _ in range(MAX_DRAWS):
        if not any(missing):
            rng.shuffle(jobs)
            return jobs
        task = workload.draw(rng)
        if not task.scene:
            continue
        num_tokens = num_prompt_tokens(task, encoder, library)
        for index, (low, high) in enumerate(workload.classes):
            if low <= num_tokens < high and missing[index]:
                missing[index] -= 1
                name = f"s{seed}-{len(jobs)}"
                jobs.append(Job(name=name, task=task, class_index=index, seed=seed, num_prompt_tokens=num_tokens))
    raise PlannerError(
        ErrorCode.INVALID_CONFIG, f"tasks with prompts of {workload.classes} tokens are too rare; ask for fewer"
    )
