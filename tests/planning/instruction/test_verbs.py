# SPDX-License-Identifier: Apache-2.0
"""What nobody taught a model is not done to a thing."""

import pytest

from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.instruction.checks import instruction_checks
from llm_planner.planning.instruction.verbs import VerbCheck, verbs_of_things
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.library import RobotLibrary

INDY7 = RobotLibrary().get("indy7")
TAUGHT = frozenset({"put", "take", "push", "if", "on", "slide"})


def problem(instruction, plan, scene="needle, cup, tray"):
    check, gate = VerbCheck(INDY7, instruction, scene, TAUGHT), SafetyGate(INDY7)
    for statement in parse(plan):
        check.feed(gate.admit(statement), to_text(statement))
    return check.problem


@pytest.mark.parametrize(
    "instruction",
    [
        "Thread the needle for me",
        "please thread my needle, I can't see it",
        "take the cup away and then thread that needle",
        "I need you to thread the needle",
    ],
)
def test_nothing_is_done_to_what_stands_behind_an_unknown_verb(instruction):
    assert problem(instruction, "pick(needle);") == "this robot has not learned to thread the needle"


@pytest.mark.parametrize(
    ("instruction", "plan"),
    [
        ("take the needle and put it on the tray", "pick(needle);place(needle,tray);"),
        ("I thread the needle later, you take the cup", "pick(cup);"),
        ("the needle, please, on the tray", "pick(needle);place(needle,tray);"),
        ("not the cup, the needle goes on the tray", "pick(needle);place(needle,tray);"),
        ("if the needle is there, push it to the right", "?iv(needle){push(needle,right_area);}"),
        ("thread the needle", "say('I cannot');"),
        ("silde the cup to the right", "push(cup,right_area);"),
        ("sllide the cup to the right", "push(cup,right_area);"),
        ("slyde the cup to the right", "push(cup,right_area);"),
        ("slidr the cup to the right", "push(cup,right_area);"),
    ],
)
def test_other_words_before_a_thing_are_no_matter(instruction, plan):
    assert problem(instruction, plan) == ""


def test_of_each_thing_it_says_what_stands_before_it():
    found = list(
        verbs_of_things("Peel the red apple and put it on my plate, then wash the plate", ["red_apple", "plate"])
    )
    assert found == [("peel", frozenset({"red_apple"})), ("wash", frozenset({"plate"}))]


@pytest.mark.parametrize(
    ("verbs", "urgency", "is_judged"),
    [
        ({"indy7": TAUGHT}, Urgency.NORMAL, True),
        ({"indy7": TAUGHT}, Urgency.URGENT, False),
        ({"tello": TAUGHT}, Urgency.NORMAL, False),
        ({}, Urgency.NORMAL, False),
    ],
)
def test_only_of_models_that_say_what_they_were_taught(verbs, urgency, is_judged):
    request = PlanRequest(
        request_id="one", robot_id="arm", robot_model="indy7", instruction="thread the needle", urgency=urgency
    )
    checks = instruction_checks(INDY7, request, is_copying=True, verbs=verbs)
    assert any(isinstance(check, VerbCheck) for check in checks) == is_judged
