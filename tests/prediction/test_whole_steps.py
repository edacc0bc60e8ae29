# SPDX-License-Identifier: Apache-2.0
"""An engine that runs less than it is handed, measured as if it ran all of it."""

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import BackendInfo
from llm_planner.core.step import FinishReason, SchedulerOutput, StepOutput
from llm_planner.prediction.prober import Prober
from llm_planner.prediction.whole_steps import WholeSteps


def came_back(ran, token_ids=(), duration_s=1.0, **others):
    return StepOutput(
        token_ids=dict.fromkeys(token_ids, (7,)),
        duration_s=duration_s,
        step=SchedulerOutput(num_scheduled_tokens=ran),
        **others,
    )


class Scripted:
    """Hands out outputs one by one."""

    info = BackendInfo(model="m", num_kv_blocks=8, block_size=4, max_model_len=32, can_offload=False, keeps_kv=True)

    def __init__(self, *outputs):
        self.outputs, self.steps, self.released = list(outputs), [], ()

    def execute(self, scheduled):
        self.steps.append(dict(scheduled.num_scheduled_tokens))
        self.released += scheduled.release
        return self.outputs.pop(0)


def step(**num_tokens):
    return SchedulerOutput(num_scheduled_tokens=num_tokens)


def test_goes_on_until_all_is_computed_and_adds_the_times_up():
    engine = Scripted(came_back({"a": 1}, ["a"]), came_back({}), came_back({"b": 4}, ["b"], 2.0))
    output = WholeSteps(engine).execute(step(a=1, b=4))
    assert output.duration_s == 4.0
    assert output.token_ids == {"a": (7,), "b": (7,)}
    assert engine.steps == [{"a": 1, "b": 4}, {"b": 4}, {"b": 4}]


def test_what_comes_before_anything_is_computed_does_not_count():
    engine = Scripted(came_back({}, duration_s=50.0), came_back({"a": 1}, ["a"]))
    assert WholeSteps(engine).execute(step(a=1)).duration_s == 1.0


def test_one_that_ends_or_fails_is_not_waited_for():
    engine = Scripted(came_back({}, finished={"a": FinishReason.STOP}), came_back({}, failed={"b": "why"}))
    output = WholeSteps(engine).execute(step(a=1, b=1))
    assert output.finished == {"a": FinishReason.STOP}
    assert output.failed == {"b": "why"}


def test_a_release_is_one_call():
    engine = Scripted(came_back({}))
    WholeSteps(engine).execute(SchedulerOutput(release=("a",)))
    assert engine.steps == [{}]


def test_an_engine_that_does_not_get_on(monkeypatch):
    monkeypatch.setattr("llm_planner.prediction.whole_steps.MOST_CALLS", 2)
    with pytest.raises(PlannerError, match="does not get on with a") as error:
        WholeSteps(Scripted(*(came_back({}) for _ in range(3)))).execute(step(a=1))
    assert error.value.code is ErrorCode.ENGINE_FAILED


def test_a_measurement_that_is_given_up_leaves_nothing_in_the_engine(monkeypatch):
    monkeypatch.setattr("llm_planner.prediction.whole_steps.MOST_CALLS", 2)
    engine = Scripted(*(came_back({}) for _ in range(4)))
    with pytest.raises(PlannerError, match="does not get on"):
        Prober(WholeSteps(engine)).probe(8)
    assert engine.released == ("probe-0",)
