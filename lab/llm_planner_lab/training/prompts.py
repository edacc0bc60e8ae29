# SPDX-License-Identifier: Apache-2.0
"""The text that the model is trained on: exactly what the planner asks at run time."""

from llm_planner.planning.prompt import compact_prompt
from llm_planner_lab.tasks.sample import Task


def task_prompt(task: Task) -> str:
    """Returns the compact prompt of a task, static and dynamic part together."""
    prompt = compact_prompt(task.robot, task.instruction, task.scene)
    return prompt.static + prompt.dynamic
