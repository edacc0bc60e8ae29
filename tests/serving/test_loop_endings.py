# SPDX-License-Identifier: Apache-2.0
"""How goals end in the loop: bad plans, silence, budgets, cancel, scarce memory; each exactly once."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core import time_utility
from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import OverrunStrategy
from llm_planner.core.time_utility import TimeUtility, register_time_utility
from llm_planner.serving.events import Finished, SegmentReady
from llm_planner.serving.fake import FakeBackend
from tests.serving.builders import failed, make_loop, started, succeeded
from tests.serving.loop_run import Run

_STUCK = f"2{{a(sto{'ol' * 25});}}"  # in a word, without end


def test_a_time_utility_that_this_process_does_not_know_ends_its_goal_alone(monkeypatch):
    register_time_utility("mine", lambda lateness_s, _alpha, beta: beta / (1.0 + lateness_s))
    run = Run(make_loop({"bad": "ld();", "good": "mf(50);ld();"}), seconds=0.0)
    utility = TimeUtility(1.0, -1.0, 1.0, "mine")
    monkeypatch.delitem(time_utility._functions, "mine")  # as in the engine's process
    run.submit("good", "good")
    run.submit("bad", "bad", time_utility=utility)
    run.go()
    assert run.result("bad").error_code is ErrorCode.INVALID_TIME_UTILITY
    assert run.result("good").error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    ("plan", "code", "delivered"),
    [
        ("mf(50);forbidden();mf(60);", ErrorCode.UNKNOWN_SKILL, ["mf(50);"]),
        ("mf(50);2{", ErrorCode.PLAN_SYNTAX, ["mf(50);"]),
        (f"mf(50);{_STUCK}mf(60);", ErrorCode.PLAN_SYNTAX, ["mf(50);"]),
        ("", ErrorCode.EMPTY_PLAN, []),
        ("mf(50);" * 200, ErrorCode.PLAN_TRUNCATED, None),
    ],
)
def test_a_bad_plan_ends_with_its_code_and_harms_no_other(plan, code, delivered):
    run = Run(make_loop({"bad": plan, "good": "mf(50);ld();"}), seconds=0.0)
    run.submit("bad", "bad", max_tokens=64)
    run.submit("good", "good")
    run.go()
    assert run.result("bad").error_code is code
    assert run.result("bad").error_msg
    assert delivered is None or run.texts("bad") == delivered
    assert [s.text for s in run.result("bad").segments] == run.texts("bad")
    assert run.result("good").error_code is ErrorCode.NONE


def test_truncation_keeps_what_was_delivered():
    run = Run(make_loop({"go": "mf(50);" * 200}, policy="fcfs_stream"), seconds=0.0)
    run.submit(max_tokens=30)
    run.go()
    assert run.result().error_code is ErrorCode.PLAN_TRUNCATED
    assert run.result().error_msg == "the plan had 30 tokens and no end; raise max_tokens"
    assert run.result().metrics.num_output_tokens == 30
    assert len(run.texts()) == (30 * 3 + 1) // 7  # a call is ready at its parenthesis


def test_a_backend_failure_of_one_harms_no_other():
    backend = FakeBackend(plans={"good": "mf(50);ld();"}, fail=frozenset({"bad"}))
    run = Run(make_loop(backend=backend))
    run.submit("good", "good")
    run.submit("bad", "bad")
    run.go()
    assert run.result("bad").error_code is ErrorCode.ENGINE_FAILED
    assert run.result("good").error_code is ErrorCode.NONE


@pytest.mark.parametrize("method", ["deliver", "silent_at_s"])
def test_a_goal_whose_segment_cannot_be_handed_out_harms_no_other(method):
    run = Run(make_loop({"bad": "mf(50);ld();", "good": "mf(50);ld();"}, policy="fcfs_stream"), seconds=0.0)
    run.submit("bad", "bad")
    run.submit("good", "good")
    setattr(run.loop._goals["bad"].execution, method, lambda *_: 1 / 0)
    run.go()
    assert run.result("bad").error_code is ErrorCode.ENGINE_FAILED
    assert run.texts("bad") == []
    assert run.result("good").error_code is ErrorCode.NONE


def test_a_failed_segment_ends_the_goal():
    run = Run(make_loop({"go": "a(1);b(2);"}), reports=False)
    run.submit()
    run.go(until_s=0.5)
    run.take(run.loop.report(failed("r1", 0, "gripper empty"), 0.6))
    assert run.result().error_code is ErrorCode.SKILL_FAILED
    assert "gripper empty" in run.result().error_msg


def test_a_silent_robot_ends_the_goal():
    run = Run(make_loop({"go": "a(1);b(2);"}, silence_timeout_s=5.0), reports=False)
    run.submit()
    run.go()
    assert run.result().error_code is ErrorCode.ROBOT_SILENT
    assert run.time_of(Finished) == pytest.approx(run.time_of(SegmentReady) + 1.0 + 5.0, abs=0.1)


def test_started_is_a_sign_of_life():
    run = Run(make_loop({"go": "a(1);"}, silence_timeout_s=5.0), reports=False)
    run.submit()
    run.go(until_s=4.0)
    run.take(run.loop.report(started("r1", 0), 4.0))
    run.go()
    assert run.time_of(Finished) == pytest.approx(4.0 + 1.0 + 5.0, abs=0.1)


@pytest.mark.parametrize(("overrun", "code"), [("KILL", ErrorCode.BUDGET_EXCEEDED), ("SKIP_NEXT", ErrorCode.NONE)])
def test_time_budget(overrun, code):
    run = Run(make_loop({"go": "a(1);b(2);", "first": "x(1);" * 20}, policy="fcfs", max_num_seqs=1))
    run.submit("r0", "first")
    run.submit("r1", "go", time_budget_s=0.03, overrun=OverrunStrategy[overrun])
    run.go()
    assert run.result("r1").error_code is code
    assert run.result("r0").error_code is ErrorCode.NONE


def test_a_budget_that_is_met_is_forgotten():
    run = Run(make_loop({"go": "a(1);b(2);"}))
    run.submit(time_budget_s=0.5)
    run.go()
    assert run.result().error_code is ErrorCode.NONE


def test_cancel_at_any_time_releases_everything():
    loop = make_loop({"go": "a(1);b(2);c(3);"})
    for num_steps in range(12):
        run = Run(loop)
        run.submit()
        for _ in range(num_steps):
            run.take(loop.step(run.now_s))
        run.take(loop.cancel("r1", ErrorCode.CLIENT_GONE, "gone"))
        assert run.result().error_code is ErrorCode.CLIENT_GONE
        assert loop.cancel("r1") == []
        assert loop.report(succeeded("r1", 0), run.now_s) == []
        loop.step(run.now_s)  # the release
        assert loop.next_wakeup_s(run.now_s) is None or math.isfinite(loop.next_wakeup_s(run.now_s))
        status = loop.status
        assert status.num_goals == status.num_running == status.num_ready == status.num_suspended == 0
        assert status.num_free_kv_blocks == status.num_kv_blocks - 2  # the shared prefix stays


def test_a_new_goal_with_the_id_of_one_that_ended_gets_none_of_its_tokens():
    """It comes between a decision, after which something had to be said first, and its step."""
    run = Run(make_loop({"go": "a(1);" * 5, "other": "b(2);" * 5}, policy="fcfs_stream"), reports=False)
    run.submit("r1", "go")
    run.take(run.loop.step(0.0))
    run.submit("late", "go", time_budget_s=1e-6)
    run.take(run.loop.step(0.01))
    assert run.result("late").error_code is not ErrorCode.NONE
    run.loop.cancel("r1")
    run.submit("r1", "other")
    for _ in range(30):
        run.take(run.loop.step(0.02))
    assert run.texts() == ["b(2);"] * 5


def test_a_prompt_beyond_the_model_is_refused():
    run = Run(make_loop(backend=FakeBackend(max_model_len=64)))
    run.submit("r1", "go " * 100)
    assert run.result().error_code is ErrorCode.PROMPT_TOO_LONG


def test_a_plan_beyond_the_whole_cache_is_truncated_not_stuck():
    backend = FakeBackend(plans={"go": "a(1);" * 100}, num_kv_blocks=16, block_size=4)
    run = Run(make_loop(backend=backend, policy="fcfs_stream"), seconds=0.0)
    run.submit()
    run.go()
    assert run.result().error_code is ErrorCode.PLAN_TRUNCATED
    assert "there is no room for more" in run.result().error_msg
    assert "max_tokens" not in run.result().error_msg


_STATEMENTS = ["a(1);", "fast();", "scan(x);", "2{b(2);}", "forbidden();", "?a(1)==True{c(3);}", _STUCK]
_PLAN = st.lists(st.sampled_from(_STATEMENTS))


@settings(max_examples=60)
@given(
    plans=st.lists(_PLAN, min_size=1, max_size=5),
    policy=st.sampled_from(["fcfs", "fcfs_stream", "fcfs_segment"]),
    max_num_seqs=st.integers(1, 3),
    num_kv_blocks=st.integers(40, 60),
    seconds=st.floats(0.0, 5.0),
    cancel_at=st.integers(0, 4),
)
def test_every_request_ends_with_exactly_one_finished(plans, policy, max_num_seqs, num_kv_blocks, seconds, cancel_at):
    backend = FakeBackend(
        plans={f"task_{i}_": "".join(plan) for i, plan in enumerate(plans)}, num_kv_blocks=num_kv_blocks, block_size=4
    )
    run = Run(make_loop(backend=backend, policy=policy, max_num_seqs=max_num_seqs), seconds=seconds)
    for i in range(len(plans)):
        run.submit(f"r{i}", f"task_{i}_")
    run.go(until_s=0.05)
    run.take(run.loop.cancel(f"r{cancel_at}"))
    run.go()
    for i, plan in enumerate(plans):
        result = run.result(f"r{i}")  # exactly one
        assert result.plan == "".join(run.texts(f"r{i}"))
        assert [s.index for s in result.segments] == list(range(len(result.segments)))
        if i != cancel_at:
            expected = "forbidden();" in plan or _STUCK in plan or not plan
            assert (result.error_code is not ErrorCode.NONE) == expected
    assert not run.loop._is_kv_off
    assert run.loop.next_wakeup_s(run.now_s) is None or run.loop.step(run.now_s + 1e6) == []


def test_the_clock_of_silence_starts_again_with_each_segment():
    run = Run(make_loop({"go": "scan(x);a(1);"}, policy="fcfs_stream", silence_timeout_s=5.0), reports=False)
    run.submit()
    run.go(until_s=1.0)
    run.take(run.loop.report(succeeded("r1", 0), 1.0))
    run.go()
    assert run.result().error_code is ErrorCode.ROBOT_SILENT
    assert run.time_of(Finished) == pytest.approx(1.0 + 1.0 + 5.0, abs=0.1)  # not the 10 s that scan may take
