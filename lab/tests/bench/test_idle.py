# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from llm_planner.prediction.prober import Prober
from llm_planner.prediction.profile import NO_IDLE_COST, IdleCost, find_profile
from llm_planner.robots.timing import Parameter, Source
from llm_planner_lab.bench.idle import measure_idle
from llm_planner_lab.simulation.backend import SimulatedBackend

TRUTH = IdleCost(
    prompt_s=Parameter(value=0.03, source=Source.ASSUMED),
    decode_s=Parameter(value=0.02, source=Source.ASSUMED),
    kept=Parameter(value=0.5, source=Source.ASSUMED),
    cools_s=Parameter(value=0.06, source=Source.ASSUMED),
)
PROFILE = replace(find_profile("llama3-8b-rtx4090"), idle=TRUTH)


def measured_of(profile, num_tokens=1000):
    backend = SimulatedBackend(profile, lambda _request_id: num_tokens)
    return measure_idle(Prober(backend, num_repeats=3), 3, backend.steps.idle)


def test_a_simulated_engine_that_cools_is_measured_back():
    found = measured_of(PROFILE)
    assert found.prompt_s.value == pytest.approx(0.03, rel=0.05)
    assert found.decode_s.value == pytest.approx(0.02, rel=0.05)
    assert found.kept.value == pytest.approx(0.5, rel=0.05)
    assert found.cools_s.value == pytest.approx(0.06, rel=0.05)
    assert found.decode_s.source is Source.MEASURED


def test_one_that_does_not_cool_costs_nothing():
    assert measured_of(replace(PROFILE, idle=NO_IDLE_COST)) == NO_IDLE_COST


def test_plans_that_are_too_short_to_tell_say_nothing():
    assert measured_of(PROFILE, num_tokens=3) == NO_IDLE_COST
