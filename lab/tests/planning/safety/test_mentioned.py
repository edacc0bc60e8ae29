# SPDX-License-Identifier: Apache-2.0
"""Names that neither the scene nor the task mentions."""

import random

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.language.parser import parse
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.planning.safety.mentioned import Mentioned
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.sample import sample

LIBRARY = RobotLibrary()


@pytest.mark.parametrize("name", ["red_box", "red box", "Red_Box_2", "boxes", "cups", "cup", "'bin'", "2"])
def test_a_name_may_be_spelled_in_many_ways(name):
    assert Mentioned(["red_box, bin", "put the cups away"]).knows(name)


@pytest.mark.parametrize("name", ["tray", "blue_box", "cupboard"])
def test_a_name_that_was_not_mentioned_is_not_known(name):
    assert not Mentioned(["red_box, bin", "put the cups away"]).knows(name)


@pytest.mark.parametrize("plan", ["pick(tray);", "place(red_box,tray);", "?iv(tray){home();}", "pick('the tray');"])
def test_the_gate_refuses_a_name_that_was_not_mentioned(plan):
    gate = SafetyGate(LIBRARY.get("indy7"), mentioned=Mentioned(["red_box, bin"]))
    with pytest.raises(PlannerError, match=r"'.*tray'") as refused:
        gate.admit(parse(plan)[0])
    assert refused.value.code is ErrorCode.UNKNOWN_OBJECT


def test_what_only_the_robot_knows_is_left_to_it():
    gate = SafetyGate(LIBRARY.get("tello"), mentioned=Mentioned(["chair"]))
    for statement in parse("_1=p('what is edible?');g(_1);g(p('which chair?'));"):
        gate.admit(statement)


@pytest.mark.parametrize("seed", range(150))
def test_no_plan_of_the_generator_is_refused(seed):
    task = sample(random.Random(seed), held_out=seed % 2 == 1)
    if task.scene:
        gate = SafetyGate(LIBRARY.get(task.robot), mentioned=Mentioned([task.scene, task.instruction]))
        for statement in parse(task.plan):
            gate.admit(statement)
