# SPDX-License-Identifier: Apache-2.0
"""Fleets as a model plans them: requests come when the fleet asks, and hold what the model wrote."""

from dataclasses import replace

import pytest

from llm_planner.configuration import load_config
from llm_planner.core.errors import PlannerError
from llm_planner.prediction.profile import find_profile
from llm_planner.robots.library import RobotLibrary
from llm_planner_lab.bench.capacity import own_plans
from llm_planner_lab.bench.capacity.own_plans import OwnPlans
from llm_planner_lab.bench.survey import Survey
from llm_planner_lab.simulation.capacity.fleet import fleet_trace
from llm_planner_lab.simulation.capacity.saturation import Server
from llm_planner_lab.simulation.script import ScriptLibrary

ROBOTS = RobotLibrary()


@pytest.fixture(autouse=True)
def small_sample(monkeypatch):
    monkeypatch.setattr(own_plans, "SAMPLE", 4)
    monkeypatch.setattr(own_plans, "SAMPLE_S", 20.0)


def plans_of(backend, notes=None):
    config = load_config(None, {"backend": backend})
    return OwnPlans(config, ROBOTS, (notes if notes is not None else []).append)


def test_requests_come_when_the_fleet_asks_and_hold_the_model_s_plans():
    notes = []
    plans = plans_of("fake", notes)
    found = plans.survey({"tello": 8}, 1, 60.0)
    asked = fleet_trace({"tello": 8}, 1, 60.0, ROBOTS)
    keys = [(r.time_s, r.request_id, r.robot_id, r.robot_model) for r in found.trace.requests]
    assert keys == [(r.time_s, r.request_id, r.robot_id, r.robot_model) for r in asked.requests]
    assert set(found.bounds_s) == {r.request_id for r in asked.requests}
    assert all(r.step_tokens for r in found.trace.requests)  # how many tokens each step of the model brought
    assert len(notes) == 1
    assert "requests of tello" in notes[0]


def test_each_seed_draws_other_plans_and_the_model_is_asked_once():
    notes = []
    plans = plans_of("fake", notes)
    first, again, other = (plans.trace({"tello": 20}, seed, 60.0) for seed in (1, 1, 2))
    assert first == again != other
    assert len(notes) == 1


def test_a_server_is_tried_with_them():
    profile = find_profile("planner-small-cpu")
    plans = plans_of("fake")
    server = Server(
        profile=profile,
        scheduler=load_config(None, {}).scheduler,
        scripts=ScriptLibrary(ROBOTS),
        asked=plans.trace,
    )
    records = server.requests({"tello": 4}, (0, 1), 30.0)
    expected = [r.request_id for seed in (0, 1) for r in plans.trace({"tello": 4}, seed, 30.0).requests]
    assert [record.request_id for record in records] == expected


def test_a_model_that_plans_nothing_is_refused(monkeypatch):
    def nothing(trace, *_):
        empty = replace(trace, requests=())
        return Survey(trace=empty, bounds_s={}, device="cpu", num_unplanned={"NOT_UNDERSTOOD": 3})

    monkeypatch.setattr(own_plans, "survey", nothing)
    with pytest.raises(PlannerError, match="plans nothing that tello is asked for"):
        plans_of("fake").trace({"tello": 2}, 0, 30.0)
    assert not plans_of("fake").can_plan({"tello": 2})
