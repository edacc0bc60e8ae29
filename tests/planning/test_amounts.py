# SPDX-License-Identifier: Apache-2.0
"""Numbers of an instruction against those of its plan."""

import pytest

from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.amounts import AmountCheck
from llm_planner.planning.gate import SafetyGate
from llm_planner.planning.verdict import Verdict
from llm_planner.robots.library import RobotLibrary

TELLO = RobotLibrary().get("tello")


def verdicts(instruction, plan):
    check, gate = AmountCheck(TELLO, instruction), SafetyGate(TELLO)
    found = [check.feed(gate.admit(statement), to_text(statement)) for statement in parse(plan)]
    return [*found, check.finish()], check.problem


CONTRADICTIONS = [
    ("fly 100 m forward", "mf(100);"),
    ("fly 2 feet up", "mu(200);"),
    ("go three metres left", "ml(30);"),
    ("go three metres left", "ml(100);"),  # the default, although an amount is stated
    ("turn 45 degrees right", "tc(90);"),
    ("wait ten seconds", "d(60);"),
    ("wait 30 seconds", "d(3);"),
    ("wait 30 seconds", "d(10);"),
    ("wait 90 seconds", "d(60);d(20);"),
    ("wait 30 seconds, then wait again", "d(30);d(7);"),
    ("half a metre", "mf(25);"),
    ("a metre and a half", "mf(75);"),
    ("fly ½ m forward", "mf(500);"),
    ("fly 1 1/2 m forward", "mf(50);"),
    ("turn 30 degrees to the right and fly 30 cm forward", "tc(30);mf(100);"),
    ("take two pictures and then fly two metres forward", "2{tp();}mf(100);"),
    ("fly 2 m forward and 3 m to the left", "mf(200);"),
    ("fly 2 m forward and 2 m to the left", "mf(200);"),
    ("go to the chair, then 2 m up", "g(chair);"),
    ("wait ten seconds, then turn left", "tu(90);"),
    ("say back in one minute, then wait one minute", "l('back in one minute');d(3);"),
    ("if the door is nearer than 2 m, fly 4 m back", "?iv(door)&od(door)<200{mb(100);}"),
]


@pytest.mark.parametrize(("instruction", "plan"), CONTRADICTIONS)
def test_a_number_that_the_instruction_does_not_explain_is_a_contradiction(instruction, plan):
    found, problem = verdicts(instruction, plan)
    assert Verdict.CONTRADICTED in found
    assert "contradicts" in problem


@pytest.mark.parametrize(
    ("instruction", "plan"),
    [
        ("fly 2 m forward", "mf(200);"),
        ("two foot six to the left", "ml(76);"),
        ("turn right", "tc(90);"),
        ("a bit to the right", "mr(30);"),
        ("fly 2 m forward, then go up", "mf(200);mu(50);"),
        ("4 metres forward in two goes", "2{mf(200);}"),
        ("2 m forward and half of that back", "mf(200);mb(100);"),
        ("hover for two minutes", "2{d(60);}"),
        ("stop", "h();"),
        ("if the door is nearer than 2 m, back off", "?iv(door)&od(door)<200{mb(100);}"),
        ("go to chair 3", "g(chair_3);"),
        ("fly 1 1/2 m forward", "mf(150);"),
        ("wait a minute and a half", "d(60);d(30);"),
        ("three times: wait 90 seconds", "3{d(60);d(30);}"),
        ("4 m forward in two goes", "mf(200);mf(200);"),
        ("fly 2 m forward, no, 3 m", "mf(300);"),
        ("a quarter turn left, that's 90 degrees", "tu(90);"),
        ("one turn of 30 degrees to the right", "tc(30);"),
        ("hang on a second, then go up 50 cm", "mu(50);"),
        ("say back in one minute and wait 5 seconds", "l('back in one minute');d(5);"),
        ("if the wall is nearer than 2 m, go 1 m back", "?iv(wall)&od(wall)<200{mb(100);}"),
        ("if the wall is nearer than 1 m, go 1 m back", "?iv(wall)&od(wall)<100{mb(100);}"),
        ("five times 20 cm forward, 20 cm up", "5{mf(20);mu(20);}"),
    ],
)
def test_what_the_instruction_explains_passes(instruction, plan):
    found, problem = verdicts(instruction, plan)
    assert Verdict.CONTRADICTED not in found, problem


def test_a_default_is_doubtful_as_long_as_a_stated_amount_is_not_used():
    found, _ = verdicts("go up, then fly 2 m forward", "mu(50);mf(200);")
    assert found == [Verdict.DOUBTFUL, Verdict.EXPLAINED, Verdict.EXPLAINED]


def test_a_part_of_a_wait_is_doubtful_until_the_parts_add_up():
    found, _ = verdicts("wait 90 seconds", "d(60);d(30);")
    assert found == [Verdict.DOUBTFUL, Verdict.EXPLAINED, Verdict.EXPLAINED]


def test_a_block_is_read_part_by_part():
    check = AmountCheck(TELLO, "if the wall is nearer than 2 m, go 1 m back")
    parts = ["?iv(wall)&od(wall)<200{", "mb(100);", "}"]
    assert [check.feed((), part) for part in parts] == [Verdict.EXPLAINED] * 3
    assert check.finish() is Verdict.EXPLAINED
