# SPDX-License-Identifier: Apache-2.0
"""The benchmark of replanning: what goes wrong in it, and how it counts."""

import random
from dataclasses import replace

import pytest

from llm_planner.language.parser import parse
from llm_planner.robots.interpreter import run_plan
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.bench.replanning.benchmark import DIFFICULTY, Score, total
from llm_planner_lab.bench.replanning.field import Attempt
from llm_planner_lab.bench.replanning.injected_faults import KINDS
from llm_planner_lab.tasks.sample import Task, sample

LIBRARY = RobotLibrary()


def draw(kind: str, family: str, seed: int = 0):
    """Returns an injected fault with the reference plan in the place of a model's."""
    rng = random.Random(seed)
    while True:
        task = sample(rng, DIFFICULTY, held_out=True, family=family)
        fault = KINDS[kind][0](task, task.plan, LIBRARY.get(task.robot), rng)
        if fault is not None:
            return fault


@pytest.mark.parametrize(("kind", "family"), [(kind, family) for kind in KINDS for family in KINDS[kind][1]])
def test_a_fault_comes_again_and_the_same(kind: str, family: str):
    fault = draw(kind, family)
    outcomes = [run_plan(parse(fault.task.plan), fault.make_driver()) for _ in range(2)]
    assert outcomes[0] == outcomes[1]
    if kind == "blocked":
        assert not outcomes[0].is_success
        assert "something is in the way" in outcomes[0].reason
        driver = fault.make_driver()
        run_plan(parse(fault.task.plan), driver)
        assert driver.world.objects.keys() == fault.make_driver().world.objects.keys()


def test_what_has_moved_stands_behind_the_robot_and_what_is_gone_is_nowhere():
    moved, gone = draw("moved", "goto"), draw("gone", "goto")
    (name,) = moved.task.goal[1:]
    placed = next(p for p in moved.task.objects if p.name == name)
    x, y, _ = moved.make_driver().world.objects[name].position_m
    assert (x, y) == (-placed.x_m, -placed.y_m)
    assert gone.task.goal[1] not in gone.make_driver().world.objects


def test_who_has_nothing_to_move_or_to_miss_meets_no_fault():
    task = Task(
        family="say", robot="tello", instruction="", scene="", plan="l('hi');", objects=(), goal=("same_outcome",)
    )
    model, rng = LIBRARY.get("tello"), random.Random(0)
    assert all(make(task, task.plan, model, rng) is None for make, _ in KINDS.values())
    assert KINDS["blocked"][0](replace(task, plan="no_skill();"), "no_skill();", model, rng) is None


def test_scores_count_only_failures_that_were_answered():
    attempt = Attempt()
    attempt.fail(1.0, 100)
    attempt.go_on(1.5, 140)
    attempt.go_on(9.0, 900)  # a later segment answers nothing
    attempt.fail(3.0, 150)
    score = Score()
    score.add([attempt], is_achieved=True)
    assert score.row() == {
        "num_tasks": 1,
        "num_achieved": 1,
        "num_failures_answered": 1,
        "mean_tokens": 40,
        "median_ms": 500,
    }
    whole = total([score, Score()])
    assert (whole.num_tasks, whole.seconds) == (1, [0.5])
    assert Score().row()["mean_tokens"] is None
