# SPDX-License-Identifier: Apache-2.0
"""Orders that act at once: found however they are said, and in nothing else."""

import random

import pytest

from llm_planner.planning.stop_words import immediate_plan, is_stop
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.frames import corpus
from llm_planner_lab.tasks.spoken import literal

ROBOTS = {name: RobotLibrary().get(name) for name in ("tello", "indy7")}


@pytest.mark.parametrize(
    "order",
    [
        "stop",
        "STOP!!!",
        "please stop right now",
        "don't move",
        "Hold still.",
        "hold it!",
        "freeze",
        "whoa, whoa",
        "halt",
        "stay where you are",
        "don\u2019t you move",
        "stop it, robot",
        "emergency stop",
        "not an inch",
        "abort",
        "say, stop!",
        "I say stop!",
        "please, I say, stop",
        "keep still",
        "keep right there",
        "keep your position please",
        "stay",
        "no, keep... ah yes, stop",
        "stop " * 300,
        "stop, danger",
        "danger, stop now!",
        "abort the mission",
        "stop your motion",
        "please cease all movement",
        "cancel this task, please",
        "abort abort",
    ],
)
def test_a_stop_is_a_stop(order):
    assert immediate_plan(ROBOTS["tello"], order) == "h();"
    assert immediate_plan(ROBOTS["indy7"], order) == "stop();"


@pytest.mark.parametrize("order", ["let go", "let me go!", "Release it", "let go of my hand now", "drop it"])
def test_let_go_opens_the_gripper(order):
    assert immediate_plan(ROBOTS["indy7"], order) == "open();"
    assert immediate_plan(ROBOTS["tello"], order) == ""
    assert not is_stop(order)


@pytest.mark.parametrize("order", ["Stop! Let go of me!", "release me and stop right now"])
def test_a_stop_that_also_says_let_go_stops_a_robot_without_a_gripper(order):
    assert immediate_plan(ROBOTS["indy7"], order) == "open();"
    assert immediate_plan(ROBOTS["tello"], order) == "h();"
    assert is_stop(order)


@pytest.mark.parametrize(
    "task",
    [
        "stop at the door",
        "hold there 10 s",
        "don't move the cup",
        "stop and turn left",
        "wait",
        "hold the cup",
        "",
        "stand by for a minute",
        "go",
        "the stop sign",
        "let go of the cup and go home",
        "stop " * 3000,
        "danger",
        "start the mission",
        "stop the mission clock",
        "don't stop your motion",
        "don't stop",
        "say stop moving",
        'say "stop"',
        "say 'freeze'",
        "say \u201cstop\u201d",
        "say: stop",
        'say, "stop"',
        "please say stop",
        "hey robot, could you please say stop",
        "keep doing what you are doing",
        "keep it, please",
    ],
)
def test_a_task_is_no_stop(task):
    assert immediate_plan(ROBOTS["indy7"], task) == ""


def test_it_never_takes_a_task_of_the_corpus_for_a_stop():
    wrong = []
    for frame in corpus():
        task = literal(random.Random(0), frame, has_scene=False)
        plan = immediate_plan(ROBOTS[frame.robot], task.instruction)
        if plan and plan != task.plan:
            wrong.append((task.instruction, task.plan, plan))
    assert wrong == []
