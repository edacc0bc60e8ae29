# SPDX-License-Identifier: Apache-2.0
import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.step import StepOutput
from llm_planner.serving import warm_up
from llm_planner.serving.events import Finished
from llm_planner.serving.fake import FakeBackend
from tests.serving.builders import make_loop, make_request

LONG = "x(1);" * 20


def test_a_rehearsal_teaches_what_a_step_takes_and_leaves_nothing_behind():
    backend = FakeBackend(plans={"long": LONG})
    loop = make_loop(backend=backend, policy="fcfs_stream")
    loop.warm_up([make_request(instruction="long")])
    free = backend.num_free_blocks  # but for the shared prefix
    assert not loop._scheduler.times.engine.is_known
    loop.warm_up([make_request(instruction="long")], num_steps=8)
    assert loop._scheduler.times.engine.is_known
    assert loop._scheduler.times.engine.expected.decode_line(1).q_s == pytest.approx(backend.timing.step_s, rel=0.2)
    assert (backend.num_free_blocks, loop.status.num_goals) == (free, 0)


def test_so_the_first_goal_of_all_is_judged():
    loop = make_loop(backend=FakeBackend(plans={"long": LONG}), policy="fcfs_stream")
    loop.warm_up([make_request(instruction="long")], num_steps=8)
    loop.submit(make_request(instruction="long", time_budget_s=0.005), 0.0)
    (refused,) = loop.step(0.0)
    assert isinstance(refused, Finished)
    assert refused.result.error_code is ErrorCode.BUDGET_INFEASIBLE
    assert "one decode step takes" in refused.result.error_msg


def test_an_answer_may_end_before_the_rehearsal():
    backend = FakeBackend(plans={"short": "x(1);"})
    loop = make_loop(backend=backend)
    loop.warm_up([make_request(instruction="short")])
    free = backend.num_free_blocks
    loop.warm_up([make_request(instruction="short")], num_steps=8)
    assert backend.num_free_blocks == free


def test_an_engine_without_a_token_is_no_planner(monkeypatch):
    monkeypatch.setattr(warm_up, "_MOST_STEPS", 50)
    backend = FakeBackend()
    monkeypatch.setattr(FakeBackend, "execute", lambda *_: StepOutput(free_kv_blocks=backend.num_free_blocks))
    with pytest.raises(PlannerError, match="no token came in 50 steps"):
        make_loop(backend=backend).warm_up([make_request()])


def test_an_engine_that_cannot_run_is_no_planner():
    loop = make_loop(backend=FakeBackend(fail=frozenset({"bad"})))
    with pytest.raises(PlannerError) as raised:
        loop.warm_up([make_request(instruction="bad")])
    assert raised.value.code is ErrorCode.ENGINE_FAILED
