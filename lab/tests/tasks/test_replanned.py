# SPDX-License-Identifier: Apache-2.0
"""Tasks on whose way something fails: what is to be done behind that still achieves them."""

import random

import pytest

from llm_planner.language.parser import parse
from llm_planner.robots.interpreter import run_plan
from llm_planner.robots.library import RobotLibrary
from llm_planner.sim.kinematics import KinematicDriver
from llm_planner_lab.tasks.replanned import Replanned, sample_replanned
from llm_planner_lab.tasks.sample import Difficulty
from llm_planner_lab.tasks.worlds import build_world

LIBRARY = RobotLibrary()
EASY = Difficulty(max_clauses=3, max_objects=6, noise=0.0)


def draw(seed: int, count: int = 300) -> list[Replanned]:
    rng = random.Random(seed)
    return [sample_replanned(rng, EASY) for _ in range(count)]


def read(replanned: Replanned) -> str:
    return replanned.turns[-1][1]


def test_the_same_seed_gives_the_same():
    assert draw(1, 20) == draw(1, 20) != draw(2, 20)


def test_every_plan_is_one_and_every_turn_says_what_failed():
    for replanned in draw(3):
        parse(replanned.plan)
        written = "".join(text for text, _ in replanned.turns)
        for _, text in replanned.turns:
            assert text.startswith("\nfailed: ")
            assert text.endswith("\nplan:\n")
            statement = text.removeprefix("\nfailed: ").partition(" ")[0].rstrip()  # up to a space in a text, if any
            assert statement.removesuffix(";") in written


def test_what_is_gone_is_searched_for_and_what_is_in_the_way_is_tried_again():
    lost = [one for one in draw(4) if "\ngone: " in read(one)]
    assert lost
    assert all(one.plan.startswith("s(" + read(one).partition("gone: ")[2].partition("\n")[0]) for one in lost)
    blocked = [one for one in draw(5) if len(one.turns) == 1 and "in the way" in read(one) and "{" not in one.task.plan]
    assert blocked
    for one in blocked:
        assert one.task.plan.endswith(one.plan)
        assert read(one).removeprefix("\nfailed: ").startswith(one.plan.partition(";")[0])


def test_what_the_gripper_has_lost_is_picked_up_again():
    dropped = [one for one in draw(6, 600) if "nothing is held" in read(one)]
    assert dropped
    for one in dropped:
        thing = read(one).partition("so ")[2].partition(" cannot")[0]
        assert one.plan.startswith(f"pick({thing});place({thing},")


@pytest.mark.parametrize("robot", ["tello", "indy7"])
def test_the_way_behind_a_call_that_was_blocked_ends_where_the_whole_plan_does(robot: str):
    """The call that failed has done nothing: so what was done before it and what is left come to the same."""
    model = LIBRARY.get(robot)
    alike = [
        one
        for one in draw(7)
        if one.task.robot == robot and len(one.turns) == 1 and "in the way" in read(one) and "{" not in one.task.plan
    ]
    assert alike
    for one in alike[:20]:
        whole = KinematicDriver(model, build_world(one.task), random.Random(0))
        parts = KinematicDriver(model, build_world(one.task), random.Random(0))
        before = one.task.plan.removesuffix(one.plan)
        outcomes = [run_plan(parse(one.task.plan), whole).is_success]
        outcomes += [run_plan(parse(text), parts).is_success for text in (before, one.plan) if text]
        assert all(outcomes)
        assert whole.state.pose == parts.state.pose
        assert whole.world.objects == parts.world.objects
