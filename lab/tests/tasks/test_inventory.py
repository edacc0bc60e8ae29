# SPDX-License-Identifier: Apache-2.0
"""Long lists: the plan names what is asked for, all of it, in the order of the scene."""

import random
import re

import pytest

from llm_planner.demo.goal_tests import is_achieved
from llm_planner.planning.instruction.shown_scene import shown_scene
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.inventory import (
    MAX_CALLS,
    SPOTS,
    TEMPLATES,
    long_inventory,
    sample_inventories,
    sample_inventory,
)
from llm_planner_lab.tasks.sentence import split

LIBRARY = RobotLibrary()
COUNT = re.compile(r"(\w+) things? on")
TASKS = [sample_inventory(random.Random(seed), 120, 14) for seed in range(60)]


def asked(task):
    """Returns the names that the instruction means, read from its words and the scene."""
    contents, at = {}, ""
    for name in task.scene.split(", "):
        if name.rpartition("_")[0] in SPOTS:
            at = name
            contents[at] = []
        elif at:
            contents[at].append(name)
    assert len(places(task)) == int(task.family[-1])
    return [name for place in places(task) for name in contents[place]]


def places(task):
    return [found.replace(" ", "_") for found in re.findall(rf"(?:{'|'.join(SPOTS)}) \d+", task.instruction)]


def argument(call):
    return call[call.index("(") + 1 : -1].strip("'")


def named(task):
    return [argument(call) for call in task.plan.split(";") if call.startswith(("l(", "pick("))]


def visited(task):
    return [argument(call) for call in task.plan.split(";") if call.startswith(("g(", "move_to("))]


def test_everything_that_is_asked_for_and_nothing_else_is_dealt_with_in_order():
    assert {task.family for task in TASKS} == {"inventory_1", "inventory_2"}
    assert {task.robot for task in TASKS} == {"tello", "indy7"}
    for task in TASKS:
        assert named(task) == asked(task)
        assert visited(task) == places(task)
        assert sum(1 if number == "one" else int(number) for number in COUNT.findall(task.instruction)) == len(
            asked(task)
        )
        assert 1 <= len(named(task)) <= 13


@pytest.mark.parametrize("task", TASKS[:12], ids=lambda task: task.instruction)
def test_the_reference_plan_succeeds_and_a_shorter_one_does_not(task):
    model = LIBRARY.get(task.robot)
    assert is_achieved(task, task.plan, model) == (True, "")
    shorter = task.plan.replace(task.plan[task.plan.rindex("l('" if task.robot == "tello" else "pick(") :], "")
    assert not is_achieved(task, shorter, model)[0]


def test_further_tasks_ask_for_other_things_of_the_same_scene():
    for seed in range(10):
        tasks = sample_inventories(random.Random(seed), 120, 14, 6)
        assert len(tasks) == 6
        assert len({task.scene for task in tasks}) == 1
        assert len({task.plan for task in tasks}) > 3
        assert all(named(task) == asked(task) and visited(task) == places(task) for task in tasks)


def test_a_scene_with_few_places_has_few_tasks():
    assert len(sample_inventories(random.Random(0), 8, 9, 6)) < 6


def test_the_length_of_scene_and_plan_is_what_was_asked_for():
    tasks = [sample_inventory(random.Random(seed), 400, 40) for seed in range(12)]
    assert all(400 <= len(task.objects) <= 470 for task in tasks)
    assert {task.plan.count(";") for task in tasks} <= {39, 40}


def test_long_ones_are_long_and_so_are_their_answers():
    tasks = [long_inventory(random.Random(seed)) for seed in range(40)]
    assert all(len(task.objects) >= 150 for task in tasks)
    assert all(7 <= task.plan.count(";") <= MAX_CALLS for task in tasks)


def test_a_planner_shows_all_of_such_a_scene():
    for task in TASKS:
        shown = shown_scene(task.scene, task.instruction, LIBRARY.get(task.robot))
        assert shown == task.scene


def test_the_same_seed_gives_the_same_task():
    assert sample_inventory(random.Random(7), 50, 9) == sample_inventory(random.Random(7), 50, 9)


@pytest.mark.parametrize("held_out", [False, True])
def test_sentences_are_held_out(held_out):
    trained, unseen = (
        {
            variant.partition("{x}")[0]
            for of in ("say", "put")
            for group in split(TEMPLATES[of])[index]
            for variant in group
        }
        for index in (0, 1)
    )
    assert trained
    assert unseen
    own = unseen if held_out else trained
    for seed in range(100):
        instruction = sample_inventory(random.Random(seed), 4, 1, held_out=held_out).instruction
        assert any(instruction.startswith(beginning) for beginning in own)
