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
    ],
)
def test_what_the_instruction_explains_passes(instruction, plan):
    found, problem = verdicts(instruction, plan)
    assert Verdict.CONTRADICTED not in found, problem


def test_a_default_is_doubtful_as_long_as_a_stated_amount_is_not_used():
    found, _ = verdicts("go up, then fly 2 m forward", "mu(50);mf(200);")
    assert found == [Verdict.DOUBTFUL, Verdict.EXPLAINED, Verdict.EXPLAINED]
