# SPDX-License-Identifier: Apache-2.0
"""Plans that act on one of several things of which the instruction does not say which."""

import pytest

from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.instruction.ambiguity import AmbiguityCheck
from llm_planner.planning.instruction.shown_scene import ambiguous_things
from llm_planner.planning.instruction.verdict import Verdict
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.library import RobotLibrary

LIBRARY = RobotLibrary()


def test_a_hostile_scene_costs_little_and_is_not_read_out():
    names = [f"cup_{number}" for number in range(5000)]
    rivals = ambiguous_things(", ".join(names), "go to the cup", LIBRARY.get("tello"))
    assert rivals.keys() == {*names}
    assert len({id(each) for each in rivals.values()}) == 1
    problem = guessed("go to the cup", ", ".join(names), "g(cup_3);")
    assert problem == "cup_0 or cup_1 or cup_10 or cup_100 or another one may be meant"


def guessed(instruction, scene, plan, robot="tello"):
    check, gate = AmbiguityCheck(LIBRARY.get(robot), instruction, scene), SafetyGate(LIBRARY.get(robot))
    verdicts = [check.feed(gate.admit(statement), to_text(statement)) for statement in parse(plan)]
    assert bool(check.problem) == (Verdict.CONTRADICTED in verdicts)
    return check.problem


@pytest.mark.parametrize(
    ("instruction", "scene", "plan", "robot", "problem"),
    [
        ("go to the room", "room_a at (2, 1), room_b", "g(room_b);", "tello", "room_a or room_b may be meant"),
        ("fly to my chair", "chair_1, chair_2, cat", "g(chair_1);", "tello", "chair_1 or chair_2 may be meant"),
        (
            "put the cup on the tray",
            "red_cup, blue_cup, tray",
            "pick(red_cup);place(red_cup,tray);",
            "indy7",
            "blue_cup or red_cup may be meant",
        ),
        (
            "take the cup and put it on the tray",
            "red_cup, blue_cup, tray",
            "pick(red_cup);place(red_cup,tray);",
            "indy7",
            "blue_cup or red_cup may be meant",
        ),
        (
            "carefully pick up the box",
            "small_box, big_box",
            "pick(big_box);",
            "indy7",
            "big_box or small_box may be meant",
        ),
        (
            "go to the chair and look at it",
            "chair_1, chair_2",
            "g(chair_1);o(chair_1);",
            "tello",
            "chair_1 or chair_2 may be meant",
        ),
    ],
)
def test_what_may_be_meant_is_named_instead_of_guessed(instruction, scene, plan, robot, problem):
    assert guessed(instruction, scene, plan, robot) == problem


@pytest.mark.parametrize(
    ("instruction", "scene", "plan", "robot"),
    [
        ("go to room b", "room_a, room_b", "g(room_b);", "tello"),
        ("go to the red chair", "red_chair, blue_chair", "g(red_chair);", "tello"),
        ("put the red cup on the blue cup", "red_cup, blue_cup", "pick(red_cup);place(red_cup,blue_cup);", "indy7"),
        ("go to a chair", "chair_1, chair_2", "g(chair_1);", "tello"),
        ("look at the chairs", "chair_1, chair_2", "o(chair_1);o(chair_2);", "tello"),
        ("go to the chair by the window", "chair_1, chair_2", "g(chair_1);", "tello"),
        ("go to the chair, it is on the left", "chair_1, chair_2", "g(chair_1);", "tello"),
        ("go to the chair close to it", "chair_1, chair_2", "g(chair_1);", "tello"),
        ("look at the oven for the pizzas", "bread_oven, pizza_oven", "o(pizza_oven);", "tello"),
        ("go to the chair that is not red", "red_chair, blue_chair", "g(blue_chair);", "tello"),
        ("go to the other chair", "chair_1, chair_2", "g(chair_2);", "tello"),
        ("do you see the chair?", "chair_1, chair_2", "->iv(chair_1);", "tello"),
        ("go to the chair", "chair_1, sofa", "g(chair_1);", "tello"),
        ("go to the chair", "", "g(chair);", "tello"),
    ],
)
def test_what_the_instruction_says_is_no_guess(instruction, scene, plan, robot):
    assert guessed(instruction, scene, plan, robot) == ""


def test_it_is_a_guess_behind_a_failure_too():
    check = AmbiguityCheck(LIBRARY.get("tello"), "go to the room", "room_a, room_b")
    assert check.restarted() is check
