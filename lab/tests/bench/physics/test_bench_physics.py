# SPDX-License-Identifier: Apache-2.0
"""Plans with bodies are judged as those without; the speed of a fleet is a positive number."""

import json
import random

import pytest

pytest.importorskip("mujoco")

from llm_planner.demo.embodied import as_left
from llm_planner.demo.goal_tests import judge
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.world import World, WorldObject
from llm_planner_lab.bench.physics.benchmark import measure_speed
from llm_planner_lab.bench.physics.execution import execute_with_body
from llm_planner_lab.reports import write_report
from llm_planner_lab.tasks.arranged import arranged
from llm_planner_lab.tasks.sample import Difficulty, sample

LIBRARY = RobotLibrary()


@pytest.mark.parametrize("family", ["move", "goto", "stack", "arm_push", "take_off"])
def test_a_reference_plan_succeeds_with_a_body_and_a_wrong_one_does_not(family):
    task = arranged(sample(random.Random(3), Difficulty(max_clauses=1, max_objects=5), held_out=True, family=family))
    model = LIBRARY.get(task.robot)
    passed, reason = judge(task, execute_with_body(task, task.plan, model), model)
    assert passed, reason
    wrong = "say('no');" if task.robot == "indy7" else "l('no');"
    assert not judge(task, execute_with_body(task, wrong, model), model)[0]


def test_what_was_not_moved_is_as_it_was():
    start = World(
        [WorldObject(name="cup", position_m=(0.5, 0.0, 0.025)), WorldObject(name="pen", position_m=(0.4, 0, 0))]
    )
    end = {
        "cup": WorldObject(name="cup", position_m=(0.501, 0.001, 0.0249)),
        "pen": WorldObject(name="pen", position_m=(0.4, 0.1, 0.0)),
    }
    left = as_left(end, start)
    assert left.objects["cup"] == start.objects["cup"]
    assert left.objects["pen"] == end["pen"]


def test_the_speed_of_a_fleet_and_the_page(tmp_path):
    speed = measure_speed(2, 1, 0.4)
    assert speed["virtual_s"] == pytest.approx(0.4, abs=0.021)
    assert speed["cpu_factor"] > 0
    family = {"family": "move", "tasks": 1, "kinematic": 1, "physical": 0}
    document = {
        "setup": {"tasks_per_family": 1, "commit": "abc"},
        "families": [family | {"failed": [{"seed": 0, "plan": "mf(1);", "reason": "fell"}]}],
        "speed": speed,
    }
    out, page = write_report("physics", document, tmp_path / "p.json", tmp_path / "p.md")
    assert json.loads(out.read_text())["speed"] == speed
    assert "| move | 1 of 1 | 0 of 1 |" in page.read_text()
    assert "- move: `mf(1);` fell" in page.read_text()
