# SPDX-License-Identifier: Apache-2.0
"""Task families: deterministic, printed canonically, held out properly, and solved by their own reference plans."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.demo.goal_tests import is_achieved
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks import drone, refusal
from llm_planner_lab.tasks.draft import Draft
from llm_planner_lab.tasks.sample import FAMILY_NAMES, Difficulty, is_within_limits, sample

ROBOTS = {name: RobotLibrary().get(name) for name in ("tello", "indy7")}
PAPER_TASKS = (
    "look_for", "check_or", "check_on", "find_under", "find_tool", "avoid_injury", "prevent_collision", "evade_animal",
    "stack", "clean_desk", "sort_food",
)  # fmt: skip


def test_the_eleven_tasks_of_the_paper_come_first():
    assert FAMILY_NAMES[:11] == PAPER_TASKS


@pytest.mark.parametrize("held_out", [False, True])
def test_the_same_seed_gives_the_same_tasks(held_out):
    one, two = ([sample(rng, held_out=held_out) for _ in range(200)] for rng in (random.Random(3), random.Random(3)))
    assert one == two
    assert one != [sample(random.Random(4), held_out=held_out) for _ in range(200)]


@pytest.mark.parametrize("family", FAMILY_NAMES)
@pytest.mark.parametrize("held_out", [False, True])
def test_reference_plans_pass_gate_and_goal_test(family, held_out):
    rng = random.Random(f"{family} {held_out}")
    for _ in range(25):
        task = sample(rng, Difficulty(max_objects=30), family=family, held_out=held_out)
        passed, reason = is_achieved(task, task.plan, ROBOTS[task.robot])
        assert passed, f"{reason}: {task}"


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from(FAMILY_NAMES))
def test_reference_plans_are_printed_canonically(seed, family):
    task = sample(random.Random(seed), family=family)
    assert to_text(parse(task.plan)) == task.plan


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from(FAMILY_NAMES))
def test_difficulty_limits_scenes(seed, family):
    task = sample(random.Random(seed), Difficulty(max_objects=5), family=family)
    assert sum(placed.is_listed for placed in task.objects) <= 12  # what the task itself needs may exceed the limit


def test_long_scenes_are_long():
    rng = random.Random(0)
    longest = max(len(sample(rng, family="goto").objects) for _ in range(300))
    assert longest > 100


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("mf(500);mf(400);", True),
        ("mf(500);mf(500);", False),
        ("g(cat);mf(500);", True),
        ("g(cat);g(dog);mf(100);", False),
        ("mf(900);g(cat);", True),
        ("md(50);md(50);", False),
        ("10{mu(20);}", False),
        ("ld();mf(20);", False),
        ("?iv(cat){ld();}", True),
    ],
)
def test_limits_are_those_of_the_gate(plan, expected):
    assert is_within_limits(plan) == expected


def test_what_is_too_far_is_worded_as_what_is_not():
    """So the number alone tells a flight from one that is refused."""
    draft = Draft(random.Random(0), "tello", held_out=False, has_scene=False)
    refusals = [refusal.drone(draft) for _ in range(3000)]
    texts = (
        [drone.move(draft).text for _ in range(3000)],
        [clause.text for clause in refusals if clause.names[:1] == ("far",)],
    )
    possible, too_far = (
        {re.sub("[0-9.]+ ?[a-z]+", "N", text) for text in each if re.search("[0-9]", text)} for each in texts
    )
    assert len(too_far & possible) > 0.8 * len(too_far) > 20


def test_common_numbers_are_never_held_out():
    rng = random.Random(0)
    plans = {sample(rng, family="move").plan for _ in range(4000)}
    assert {f"mf({number});" for number in range(50, 501, 50)} <= plans


def test_a_crowded_scene_has_at_least_the_number_of_objects():
    rng, difficulty = random.Random(0), Difficulty(max_objects=60, min_objects=40)
    sizes = [len(sample(rng, difficulty, family="goto").objects) for _ in range(60)]
    assert max(sizes) <= 60
    assert sum(size >= 35 for size in sizes) > 15  # names that are taken are left out; some tasks have no scene
    assert sum(size < 10 for size in sizes) > 5
