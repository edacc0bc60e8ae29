# SPDX-License-Identifier: Apache-2.0
"""A robot that is told to come back comes back, or is not sent."""

import pytest

from llm_planner.core.request import PlanRequest
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.instruction.checks import instruction_checks
from llm_planner.planning.instruction.verdict import Verdict
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.library import RobotLibrary

TELLO, INDY7 = RobotLibrary().get("tello"), RobotLibrary().get("indy7")
LEFT_OUT = "the plan leaves out the way back"


def problems(instruction, plan, model=TELLO, scene="mailbox, window, chair"):
    request = PlanRequest(
        request_id="0" * 32, robot_id="r", robot_model=model.name, instruction=instruction, scene=scene
    )
    checks, gate = instruction_checks(model, request, is_copying=True), SafetyGate(model)
    for statement in parse(plan):
        calls, text = gate.admit(statement), to_text(statement)
        if any(check.feed(calls, text) is Verdict.CONTRADICTED for check in checks):
            break
    else:
        for check in checks:
            check.finish()
    return [check.problem for check in checks if check.problem]


@pytest.mark.parametrize(
    "order",
    [
        "fly to the mailbox, take a picture and come back",
        "fly to the mailbox, take a picture, then fly back where you started",
        "go to the mailbox, photograph it and come on home",
        "go to the mailbox, one photo, then come back to your place only",
        "please go to the mailbox, take a picture of it and return to base.",
        "Take a picture at the mailbox. Come straight back here afterwards, please",
    ],
)
def test_a_flight_to_a_thing_does_not_end_there_where_a_way_back_is_ordered(order):
    assert problems(order, "g(mailbox);tp();") == [LEFT_OUT]
    assert problems(order, "g(mailbox);tp();mb(100);")
    assert problems(order, "g(mailbox);tp();home();") == []


@pytest.mark.parametrize("plan", ["ld();", "mb(300);ld();"])
def test_coming_home_is_more_than_a_landing_or_a_guess(plan):
    order = "that'll do, so come on home and put yourself down on the ground"
    assert problems(order, plan)
    assert problems(order, "home();ld();") == []


@pytest.mark.parametrize(
    ("order", "plan"),
    [
        ("go to the mailbox, then come back down to the floor", "g(mailbox);ld();"),
        ("go to the mailbox and come back two metres", "g(mailbox);mb(200);"),
        ("fly 2 m forward and come back", "mf(200);mb(200);"),
        ("fly a square and come back to where you started", "4{mf(100);tc(90);}"),
        ("come back here first, and then go to the mailbox", "home();g(mailbox);"),
        ("go to the mailbox and back to the chair", "g(mailbox);g(chair);"),
        ("go to the mailbox and say 'come back home'", "g(mailbox);l('come back home');"),
        ("go to the mailbox, they want to come back home", "g(mailbox);"),
        ("go to the mailbox, take a photo, come home, I mean land", "g(mailbox);tp();ld();"),
        ("come back to me, I'm by the window", "g(window);"),
    ],
)
def test_other_ways_back_are_none_to_the_start(order, plan):
    assert LEFT_OUT not in problems(order, plan)


def test_an_arm_that_is_told_to_go_home_goes_home():
    order = "put the cup on the tray and go back home"
    assert problems(order, "pick(cup);place(cup,tray);", INDY7, "cup, tray") == [LEFT_OUT]
    assert problems(order, "pick(cup);place(cup,tray);home();", INDY7, "cup, tray") == []


def test_nobody_flies_home_of_whom_nobody_asks_it():
    assert problems("go to the mailbox", "g(mailbox);home();") == ["the instruction says nothing of going home"]
