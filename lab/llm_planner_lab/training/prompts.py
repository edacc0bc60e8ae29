# SPDX-License-Identifier: Apache-2.0
"""The text that the model is trained on: what the planner asks at run time."""

import re
from dataclasses import replace
from functools import cache

from llm_planner.language.texts import QUOTED
from llm_planner.planning.instruction.quantities import with_plain_amounts
from llm_planner.planning.instruction.shown_scene import shown_scene
from llm_planner.planning.prompt import compact_plan, compact_prompt
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.model import RobotModel
from llm_planner_lab.tasks.sample import Task


def task_prompt(task: Task) -> str:
    """Returns the compact prompt of a task, static and dynamic part together."""
    prompt = compact_prompt(task.robot, task.instruction, task.scene)
    return prompt.static + prompt.dynamic


def written_plan(plan: str, task: Task) -> str:
    """Returns a plan as the model is to write it: in texts, amounts as the prompt has them, which it can copy."""
    read = task_prompt(task).lower()

    def as_read(match: re.Match[str]) -> str:
        plain = with_plain_amounts(match[0])
        return plain if plain[1:-1].replace("\\", "").lower() in read else match[0]

    return compact_plan(QUOTED.sub(as_read, plan))


_NAME = re.compile(r"[a-z][a-z0-9_]*")


def as_shown(task: Task) -> Task:
    """Returns the task with what a planner shows of its scene; the task itself if its plan needs more than that."""
    if not task.scene:
        return task
    scene = shown_scene(task.scene, task.instruction, _robot(task.robot))
    needed = {thing.name for thing in task.objects if thing.is_listed}.intersection(_NAME.findall(task.plan))
    return replace(task, scene=scene) if needed.issubset(_NAME.findall(scene)) else task


@cache
def _robot(name: str) -> RobotModel:
    return RobotLibrary().get(name)
