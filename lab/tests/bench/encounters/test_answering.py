# SPDX-License-Identifier: Apache-2.0
"""How long the steps of a planner take that answers in an encounter."""

from types import SimpleNamespace

import pytest

from llm_planner.core.step import SchedulerOutput, Sequence, StepOutput
from llm_planner.prediction.profile import Chunk, find_profile
from llm_planner_lab.bench.encounters.answering import ProfiledBackend

PROFILE = find_profile("planner-small-cpu")
HOST = PROFILE.host


def test_a_step_takes_what_engine_and_planner_take():
    backend = ProfiledBackend(SimpleNamespace(execute=lambda _: StepOutput()), PROFILE)
    prompt = Sequence(request_id="r", prompt_token_ids=(5,) * 100, prefix_id="tello", num_cached_tokens=48)
    first = backend.execute(SchedulerOutput(new=(prompt,), num_scheduled_tokens={"r": 52}))
    prepared_s = HOST.preparation_s(100) + HOST.prediction_s.value
    assert HOST.prediction_s.value > 0
    assert first.duration_s == pytest.approx(PROFILE.step_s([Chunk(52, 48)]) + HOST.around_step_s(1) + prepared_s)
    for number in (1, 2):
        step = backend.execute(SchedulerOutput(num_scheduled_tokens={"r": 1}))
        engine_s = PROFILE.step_s([Chunk(1, 99 + number)]) * PROFILE.first_ratio(number)
        assert step.duration_s == pytest.approx(engine_s + HOST.around_step_s(1))
    assert backend.last_s == step.duration_s


def test_an_engine_that_did_nothing_answers_later():
    backend = ProfiledBackend(SimpleNamespace(execute=lambda _: StepOutput()), PROFILE)
    prompt = Sequence(request_id="r", prompt_token_ids=(5,) * 100, prefix_id="tello", num_cached_tokens=48)
    step = SchedulerOutput(new=(prompt,), num_scheduled_tokens={"r": 52})
    warm = backend.execute(step).duration_s
    backend.steps.idle(1000.0)
    cooled_s = PROFILE.idle.prompt_s.value + HOST.idle_s.value
    assert cooled_s > 0
    assert backend.execute(step).duration_s == pytest.approx(warm + cooled_s)
