# SPDX-License-Identifier: Apache-2.0
"""Long lists: the plan names what is asked for, all of it, in the order of the scene."""

import random
import re

import pytest

from llm_planner.demo.goal_tests import is_achieved
from llm_planner.planning.plurals import singular
from llm_planner.planning.shown_scene import shown_scene
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.inventory import MAX_CALLS, SPOTS, TEMPLATES, long_inventory, sample_inventory
from llm_planner_lab.tasks.sentence import split

LIBRARY = RobotLibrary()
COUNT = re.compile(r"\b(?:all (\d+)|the one) ([a-z]+)")
TASKS = [sample_inventory(random.Random(seed), 120, 14) for seed in range(60)]
OF_PLACES = [task for task in TASKS if "places" in task.family]
OF_KINDS = [task for task in TASKS if "kinds" in task.family]


def at_places(task):
    """Returns the names at the places that the instruction says, read from its words and the scene."""
    contents, at = {}, ""
    for name in task.scene.split(", "):
        if name.rpartition("_")[0] in SPOTS:
            at = name
            contents[at] = []
        elif at:
            contents[at].append(name)
    return [name for place in places(task) for name in contents[place]]


def of_kinds(task):
    """Returns the names of the kinds that the instruction says."""
    names = task.scene.split(", ")
    return [name for _, kind in COUNT.findall(task.instruction) for name in names if matches(name, kind)]


def matches(name, kind):
    return singular(kind) == name.rpartition("_")[0]


def places(task):
    return [found.replace(" ", "_") for found in re.findall(rf"(?:{'|'.join(SPOTS)}) \d+", task.instruction)]


def argument(call):
    return call[call.index("(") + 1 : -1].strip("'")


def named(task):
    return [argument(call) for call in task.plan.split(";") if call.startswith(("l(", "pick("))]


def visited(task):
    return [argument(call) for call in task.plan.split(";") if call.startswith(("g(", "move_to("))]


def test_half_of_them_are_about_places_and_half_about_kinds():
    assert {task.family for task in TASKS} == {f"inventory_{of}_{n}" for of in ("places", "kinds") for n in (1, 2)}
    assert {task.robot for task in OF_PLACES} == {task.robot for task in OF_KINDS} == {"tello", "indy7"}
    assert 20 < len(OF_PLACES) < 40


@pytest.mark.parametrize("asked", [at_places, of_kinds])
def test_everything_that_is_asked_for_and_nothing_else_is_dealt_with_in_order(asked):
    for task in OF_PLACES if asked is at_places else OF_KINDS:
        assert named(task) == asked(task)
        assert visited(task) == places(task)
        counts = [int(count or 1) for count, _ in COUNT.findall(task.instruction)]
        assert len(counts) == int(task.family[-1])
        assert sum(counts) == len(asked(task))
        assert 1 <= len(named(task)) <= 14


@pytest.mark.parametrize("task", TASKS[:12], ids=lambda task: task.instruction)
def test_the_reference_plan_succeeds_and_a_shorter_one_does_not(task):
    model = LIBRARY.get(task.robot)
    assert is_achieved(task, task.plan, model) == (True, "")
    shorter = task.plan.replace(task.plan[task.plan.rindex("l('" if task.robot == "tello" else "pick(") :], "")
    assert not is_achieved(task, shorter, model)[0]


def test_the_length_of_scene_and_plan_is_what_was_asked_for():
    tasks = [sample_inventory(random.Random(seed), 400, 40) for seed in range(12)]
    assert all(390 <= len(task.objects) <= 470 for task in tasks)
    assert {task.plan.count(";") for task in tasks} <= {39, 40}


def test_long_ones_are_long_and_so_are_their_answers():
    tasks = [long_inventory(random.Random(seed)) for seed in range(40)]
    assert all(len(task.objects) >= 150 for task in tasks)
    assert all(7 <= task.plan.count(";") <= MAX_CALLS for task in tasks)


def test_a_planner_shows_all_of_a_scene_whose_places_are_asked_for():
    for task in OF_PLACES:
        shown = shown_scene(task.scene, task.instruction, LIBRARY.get(task.robot))
        assert shown == task.scene


def test_and_of_kinds_what_is_named_in_most_sentences():
    few = 0
    for task in OF_KINDS:
        shown = shown_scene(task.scene, task.instruction, LIBRARY.get(task.robot)).split(", ")
        assert set(named(task)) <= set(shown)
        few += len(shown) <= len(named(task)) + 1
    assert few > 0.7 * len(OF_KINDS)


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
