# SPDX-License-Identifier: Apache-2.0
"""Plans of a campaign: the gate admits them, robots make their calls, and each shows of which goal it is."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.language.parser import parse
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.interpreter import run_plan
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.world import World
from llm_planner.sim.kinematics import KinematicDriver
from llm_planner_lab.bench.chaos.calls import NotFlatError, flat_calls, words
from llm_planner_lab.bench.chaos.goals import tag, write_plan

LIBRARY = RobotLibrary()


@given(st.integers(0, 100), st.integers(0, 10_000), st.sampled_from(["tello", "indy7"]))
def test_a_plan_is_admitted_and_carried_out_as_it_is_expected(seed, number, name):
    model, plan = LIBRARY.get(name), write_plan(seed, number, name)
    assert plan == write_plan(seed, number, name)
    gate = SafetyGate(model)
    for statement in parse(plan):
        gate.admit(statement)
    outcome = run_plan(parse(plan), KinematicDriver(model, World(), random.Random(0)))
    assert outcome.is_success, outcome.reason
    assert tuple(words(done.call) for done in outcome.calls) == flat_calls(plan, model)
    said = [text for _, *rest in flat_calls(plan, model) for text in rest if isinstance(text, str)]
    assert said
    assert all(text.startswith(f"{tag(number)} ") for text in said)


@pytest.mark.parametrize("text", ["?s(cat){g(cat);}", "_1=od(cat);", "mf(", "nothing(1);", "mf(_1);"])
def test_what_depends_on_the_robot_is_not_flat(text):
    with pytest.raises(NotFlatError):
        flat_calls(text, LIBRARY.get("tello"))


def test_aliases_are_the_calls_that_they_stand_for():
    assert flat_calls("move_forward(20);2{tc(9);}", LIBRARY.get("tello")) == (("mf", 20.0), ("tc", 9.0), ("tc", 9.0))
