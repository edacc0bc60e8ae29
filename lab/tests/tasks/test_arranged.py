# SPDX-License-Identifier: Apache-2.0
"""Arranged tasks: nothing stands in anything else, and the reference plan still succeeds."""

import random
from dataclasses import replace

import pytest

from llm_planner.demo.goal_tests import is_achieved
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.world import ObjectRole
from llm_planner_lab.tasks.arranged import arranged, solid_objects
from llm_planner_lab.tasks.sample import FAMILY_NAMES, Difficulty, sample
from llm_planner_lab.tasks.scene import PlacedObject

LIBRARY = RobotLibrary()


def overlaps(objects):
    solid = [thing for thing in objects if thing.role is not ObjectRole.AREA]
    return [
        (one.name, two.name)
        for number, one in enumerate(solid)
        for two in solid[number + 1 :]
        if all(
            abs(p - q) < (a + b) / 2 - 1e-9
            for p, q, a, b in zip(one.position_m, two.position_m, one.size_m, two.size_m, strict=True)
        )
    ]


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_tasks_have_room_and_can_be_solved(family):
    for seed in range(6):
        task = sample(random.Random(f"{family}/{seed}"), Difficulty(max_objects=10), held_out=True, family=family)
        new = arranged(task)
        assert [placed.name for placed in new.objects] == [placed.name for placed in task.objects]
        assert not overlaps(solid_objects(new))
        passed, reason = is_achieved(new, new.plan, LIBRARY.get(new.robot))
        assert passed, reason


def test_what_stood_in_one_place_is_moved_as_little_as_it_takes():
    task = sample(random.Random(1), Difficulty(max_objects=10), held_out=True, family="goto")
    task = replace(task, objects=(PlacedObject("chair_1", 2.0, 0.0), PlacedObject("lamp_2", 2.0, 0.0)))
    one, two = arranged(task).objects
    assert (one.x_m, one.y_m) == (2.0, 0.0)
    assert 0.1 < abs(two.y_m) < 0.6
