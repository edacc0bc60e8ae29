# SPDX-License-Identifier: Apache-2.0
"""Draws the demo's tasks, which no template is trained with; the product carries those of the default seed as a file.

python -m llm_planner_lab.tasks.demo     # writes that file again
"""

import random

from llm_planner.demo.goals import PROGRAMME
from llm_planner.demo.task import DEFAULT_SEED, DemoTask, path_of, write_tasks
from llm_planner.language.parser import parse
from llm_planner.robots.duration import expected_duration
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.arranged import arranged, solid_objects
from llm_planner_lab.tasks.sample import Difficulty, Task, sample
from llm_planner_lab.tasks.worlds import build_world

_SHORTEST_S, _LONGEST_S = 6.0, 24.0
_SUPERSEDED_SHORTEST_S = 12.0  # the goal that the emergency meets must still run then
_QUICK = frozenset({"avoid_injury", "evade_animal", "cannot"})


def draw_tasks(seed: int) -> dict[str, DemoTask]:
    """Returns the task of every goal by its tag: wordings and combinations of names that are held out."""
    tasks: dict[str, DemoTask] = {}
    for robot, programme in PROGRAMME.items():
        for number, (family, _urgency, _at_s) in enumerate(programme):
            rng = random.Random(f"{seed}/{robot}/{number}")
            is_superseded = number + 1 < len(programme) and programme[number + 1][2] > 0
            task = _draw(rng, family, shortest_s=_SUPERSEDED_SHORTEST_S if is_superseded else _SHORTEST_S)
            tasks[f"{robot}/{number}"] = demo_task(task)
    return tasks


def demo_task(task: Task) -> DemoTask:
    """Returns a task with its worlds written out."""
    placed, world = arranged(task), build_world(task)
    return DemoTask(
        family=task.family,
        robot=task.robot,
        instruction=task.instruction,
        scene=task.scene,
        plan=task.plan,
        goal=task.goal,
        objects=tuple(world.objects.values()),
        answers=world.answers,
        placed=tuple(build_world(placed).objects.values()),
        solid=tuple(solid_objects(placed)),
    )


def _draw(rng: random.Random, family: str, *, shortest_s: float) -> Task:
    """Returns a held-out task that takes a robot neither a moment nor minutes."""
    library = RobotLibrary()
    while True:
        task = sample(
            rng, Difficulty(max_clauses=3, max_objects=12, invented=0.0, noise=0.0), held_out=True, family=family
        )
        median_s = expected_duration(library.get(task.robot), parse(task.plan)).p50_s
        if family in _QUICK or shortest_s <= median_s <= _LONGEST_S:
            return task


if __name__ == "__main__":
    write_tasks(draw_tasks(DEFAULT_SEED), path_of(DEFAULT_SEED))
