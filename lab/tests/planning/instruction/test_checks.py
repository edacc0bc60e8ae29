# SPDX-License-Identifier: Apache-2.0
"""Right plans of sensible orders pass the checks, whatever their words look like."""

import itertools
from pathlib import Path

import pytest

from llm_planner.core.request import PlanRequest
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.planning.instruction.checks import instruction_checks
from llm_planner.planning.instruction.verdict import Verdict
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.tasks.frames import ROBOTS, read_frames
from llm_planner_lab.training.refusals import refusals

MISTAKABLE = Path(__file__).parents[3] / "orders" / "mistakable.txt"


def verdicts(instruction, plan, robot="tello", scene="stir_plate, cable"):
    """Returns what the checks say of a plan, statement by statement and of the whole."""
    model = RobotLibrary().get(robot)
    request = PlanRequest(request_id="0" * 32, robot_id="r", robot_model=robot, instruction=instruction, scene=scene)
    checks, gate = instruction_checks(model, request, is_copying=True), SafetyGate(model)
    statements = [(gate.admit(part), to_text(part)) for part in parse(plan)]
    said = [[check.feed(calls, text) for check in checks] for calls, text in statements]
    return [*said, [check.finish() for check in checks]]


@pytest.mark.parametrize(
    ("instruction", "plan", "robot"),
    [
        ("2 m left and 3 m right", "ml(300);mr(200);", "tello"),
        ("2 m forward and 50 cm up", "mf(50);mu(200);", "tello"),
        ("turn left 45", "tu(90);", "tello"),
        ("fly 2 m, no, 3 m forward", "mf(200);", "tello"),
        ("go up -50 cm", "mu(50);", "tello"),
    ],
)
@pytest.mark.parametrize("space", ["  ", "\t", "\n", "\u00a0"])
def test_what_a_model_cannot_tell_apart_gets_one_verdict(instruction, plan, robot, space):
    expected = verdicts(instruction, plan, robot)
    assert Verdict.CONTRADICTED in itertools.chain(*expected)
    assert verdicts(instruction.replace(" ", space), plan, robot) == expected


def test_an_apostrophe_of_a_telephone_is_one():
    instruction, plan = "don't touch the stir plate, just slide the cable left", "push(cable,left_area);"
    expected = verdicts(instruction, plan, "indy7")
    assert Verdict.CONTRADICTED not in itertools.chain(*expected)
    assert verdicts(instruction.replace("'", "\u2019"), plan, "indy7") == expected


def test_few_sensible_orders_are_mistaken():
    library = RobotLibrary()
    num_judged, refused = refusals(read_frames(MISTAKABLE), {name: library.get(name) for name in ROBOTS})
    assert num_judged >= 310
    assert sum(map(len, refused.values())) <= 24, refused
