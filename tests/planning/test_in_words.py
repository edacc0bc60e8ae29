# SPDX-License-Identifier: Apache-2.0
"""Plans for people."""

import pytest

from llm_planner.planning.in_words import in_words
from llm_planner.robots.library import RobotLibrary

LIBRARY = RobotLibrary()


@pytest.mark.parametrize(
    ("robot", "plan", "words"),
    [
        ("tello", "mf(200);tp();", "fly forward (200 cm), then take a picture"),
        ("indy7", "place(red_cup,bin);", "put the held object on or into another object or area (red cup, bin)"),
        ("tello", "2{tc(90);}", "2 times: [turn clockwise (to the right) (90 degrees)]"),
        ("tello", "1{tc(90);}", "1 time: [turn clockwise (to the right) (90 degrees)]"),
        (
            "tello",
            "?iv(door)==False{l('no door');}",
            'if door is not in view: [say something to the operator ("no door")]',
        ),
        ("tello", "->od(door);", "answer: distance to the object in cm (door)"),
        ("tello", "fail('I cannot sing');", "give up: I cannot sing"),
        ("tello", "unclear('which box');", "ask back: which box"),
        (
            "tello",
            "_1=iv(door);?_1{h();}",
            "True if the object is in view (door) as result 1, then if result 1 is true: [stop at once and hover]",
        ),
        ("tello", "?s('red_cup'){tp();}", 'if "red_cup" is found: [take a picture]'),
        (
            "tello",
            "?iv(cup)!=False&od(cup)<150|od(cup)==0{h();}",
            (
                "if cup is in view and distance to the object in cm (cup) is less than 150 "
                "or distance to the object in cm (cup) is 0: [stop at once and hover]"
            ),
        ),
        ("tello", "_1=od(cup);->_1;", "distance to the object in cm (cup) as result 1, then answer: result 1"),
    ],
)
def test_a_plan_says_what_the_robot_would_do(robot, plan, words):
    assert in_words(LIBRARY.get(robot), plan) == words
