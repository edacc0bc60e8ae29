# SPDX-License-Identifier: Apache-2.0
"""The demo's tasks: the shipped file is what the families give, and other seeds are drawn."""

import pytest

from llm_planner.core.errors import PlannerError
from llm_planner.demo import task as module
from llm_planner.demo.goal_tests import is_achieved
from llm_planner.demo.goals import draw_goals
from llm_planner.demo.task import tasks_of
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.demo import DEFAULT_SEED, draw_tasks


def test_the_shipped_tasks_are_those_of_the_families():
    assert tasks_of(DEFAULT_SEED) == draw_tasks(DEFAULT_SEED)


@pytest.mark.parametrize("seed", [DEFAULT_SEED, 9])
def test_every_reference_plan_does_what_is_asked_in_both_worlds(seed):
    library = RobotLibrary()
    for task in tasks_of(seed).values():
        for placed in (task, task.embodied()):
            assert is_achieved(placed, task.plan, library.get(task.robot)) == (True, ""), task.instruction


def test_another_seed_needs_the_laboratory(monkeypatch):
    assert draw_goals(9)
    monkeypatch.setattr(module, "entry_points", lambda group: ())
    assert draw_goals(DEFAULT_SEED)
    with pytest.raises(PlannerError, match="make setup-dev"):
        draw_goals(9)
