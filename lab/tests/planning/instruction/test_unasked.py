# SPDX-License-Identifier: Apache-2.0
"""Motions of which an instruction says nothing."""

import pytest

from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.instruction.checks import instruction_checks
from llm_planner.planning.instruction.unasked import UnaskedCheck
from llm_planner.planning.instruction.verdict import Verdict
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.frames import CORPUS, corpus, read_frames
from llm_planner_lab.training.refusals import judged

LIBRARY = RobotLibrary()
TELLO, INDY7 = LIBRARY.get("tello"), LIBRARY.get("indy7")


def unasked(instruction, plan):
    check, gate = UnaskedCheck(TELLO, instruction), SafetyGate(TELLO)
    verdicts = [check.feed(gate.admit(statement), to_text(statement)) for statement in parse(plan)]
    assert check.finish() is Verdict.EXPLAINED
    assert bool(check.problem) == (Verdict.CONTRADICTED in verdicts)
    return check.problem.removeprefix("the instruction says nothing of ")


@pytest.mark.parametrize(
    ("instruction", "is_asked"),
    [
        ("lob the sponge at the wall", False),
        ("throw the sponge to her", False),
        ("give me the sponge", False),
        ("chuck the sponge", True),
        ("throw the sponge in the bin", True),
        ("throw out the sponge that belongs to the cook", True),
        ("clean the table", True),
        ("the sponge is rubbish", True),
    ],
)
def test_nothing_is_thrown_away_where_nobody_speaks_of_it(instruction, is_asked):
    check, gate = UnaskedCheck(INDY7, instruction), SafetyGate(INDY7)
    verdicts = [check.feed(gate.admit(part), to_text(part)) for part in parse("pick(sponge);place(sponge,bin);")]
    assert (Verdict.CONTRADICTED not in verdicts) is is_asked


@pytest.mark.parametrize(
    ("instruction", "plan", "act"),
    [
        ("levitate half a metre", "ml(50);", "going left"),
        ("a la derecha, a smidge please", "md(30);", "going down"),
        ("para para para", "tk();", "taking off"),
        ("say it is time, and then do it again", "l('it is time');ld();", "landing"),
        ("two metres ahead, then a picture", "mf(200);mu(50);tp();", "going up"),
        ("a picture of the door", "?s(door){o(door);tp();mr(100);}", "going right"),
        ("go to the chair", "g(chair);ld();", "landing"),
        ("go forward slowly", "mf(100);md(50);", "going down"),
    ],
)
def test_nobody_speaks_of_it(instruction, plan, act):
    assert unasked(instruction, plan) == act


@pytest.mark.parametrize(
    ("instruction", "plan"),
    [
        ("levitate half a metre", "mu(50);"),
        ("rihgt a smidge", "mr(30);"),
        ("slip sideways a metre", "ml(100);"),
        ("slide rt 6 ft, pic", "mr(183);tp();"),
        ("a foot to the left, and back again", "ml(30);mr(30);"),
        ("dip slightly, then undo the dip", "md(30);mu(30);"),
        ("settle on the grass", "ld();"),
        ("go lower, then upwards", "md(50);mu(50);"),
        ("landing time", "ld();"),
        ("chocks away", "tk();"),
        ("fly rgiht a metre", "mr(100);"),
        ("please lannd", "ld();"),
        ("evade the tiger from the rear", "mu(100);mf(200);"),
        ("avoid the collision with the bus over you", "md(50);"),
        ("a hawk is diving at you", "md(50);"),
        ("mind your tail, somebody kicked a ball", "mr(100);"),
        ("ga vooruit", "mf(100);tc(90);"),  # these have too many words
    ],
)
def test_what_may_be_meant_passes(instruction, plan):
    assert unasked(instruction, plan) == ""


@pytest.mark.parametrize(
    ("urgency", "is_copying", "num_checks"),
    [(Urgency.NORMAL, True, 1), (Urgency.NORMAL, False, 0), (Urgency.URGENT, True, 0)],
)
def test_it_is_for_models_of_english_orders_alone(urgency, is_copying, num_checks):
    request = PlanRequest(
        request_id="one", robot_id="drone", robot_model="tello", instruction="nach links", urgency=urgency
    )
    checks = instruction_checks(TELLO, request, is_copying=is_copying)
    assert sum(isinstance(check, UnaskedCheck) for check in checks) == num_checks


def test_another_way_may_need_it():
    assert UnaskedCheck(TELLO, "go to the door").restarted() is None


def test_hardly_any_plan_of_people_moves_unasked():
    """In words that nobody else uses for it."""
    orders = [o for path in CORPUS.with_name("orders").rglob("*.txt") for o in read_frames(path)]
    frames = [f for f in (*corpus(), *orders) if f.robot == "tello"]
    num_judged = num_refused = 0
    for plan in judged(frames, {"tello": TELLO}):
        num_judged += 1
        if plan.refused_by([UnaskedCheck(TELLO, plan.task.instruction)]):  # all checks take minutes
            refusing = plan.refused_by(instruction_checks(TELLO, plan.request, is_copying=True))
            num_refused += isinstance(refusing, UnaskedCheck)
    assert num_judged > 40_000
    assert num_refused <= 3
