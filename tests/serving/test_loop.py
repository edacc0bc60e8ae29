# SPDX-License-Identifier: Apache-2.0
"""The loop with a scripted backend, step by step in virtual time."""

from dataclasses import replace

import pytest

from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode
from llm_planner.core.time_utility import TimeUtility
from llm_planner.serving.events import Finished, PlanComplete, SegmentReady
from llm_planner.serving.fake import FakeBackend, FakeTokenizer
from tests.serving.builders import failed, make_loop, make_request, started, succeeded
from tests.serving.loop_run import Run

NETWORK_S = SchedulerConfig().network_latency_s


@pytest.mark.parametrize("policy", ["fcfs", "fcfs_stream", "fcfs_segment"])
def test_a_plan_from_end_to_end(policy):
    run = Run(make_loop({"go": "mf(50);tc(90);ld();"}, policy=policy))
    run.submit()
    run.go()
    assert run.texts() == ["mf(50);", "tc(90);", "ld();"]
    result = run.result()
    assert result.error_code is ErrorCode.NONE
    assert result.plan == "mf(50);tc(90);ld();"
    assert [type(e) for _, e in run.events].count(PlanComplete) == 1
    assert isinstance(run.events[-1][1], Finished)
    assert result.metrics.execution_time_s == 3.0
    assert result.metrics.num_suspensions == (3 if policy == "fcfs_segment" else 0)  # the end comes after the last one
    assert result.metrics.num_cached_tokens > 0
    assert run.loop.status.num_goals == 0


def test_a_generation_time_is_not_negative_if_a_backend_overstates_its_steps():
    class Overstating(FakeBackend):
        states_s = 10.0

        def execute(self, scheduled):
            self.states_s *= 0.9
            return replace(super().execute(scheduled), duration_s=self.states_s)

    loop = make_loop(backend=Overstating(plans={"go": "a();b();c();"}), policy="fcfs_stream")
    loop.submit(make_request(), 0.0)
    events = [event for _ in range(40) for event in loop.step(0.0)]
    took_s = [event.segment.generation_time_s for event in events if isinstance(event, SegmentReady)]
    assert len(took_s) == 3
    assert min(took_s) >= 0.0


def test_whole_plan_policies_deliver_at_the_end():
    run = Run(make_loop({"go": "mf(50);tc(90);ld();"}, policy="fcfs"))
    run.submit()
    run.go()
    times = [t for t, e in run.events if isinstance(e, SegmentReady)]
    assert len(set(times)) == 1


def test_a_whole_plan_that_is_refused_delivers_nothing():
    run = Run(make_loop({"go": "mf(50);forbidden();"}, policy="fcfs"))
    run.submit()
    run.go()
    assert run.texts() == []
    assert run.result().error_code is ErrorCode.UNKNOWN_SKILL
    assert run.result().metrics.response_time_s is None
    assert run.result().metrics.time_utility is None


def test_the_next_segment_arrives_before_the_robot_is_idle():
    run = Run(make_loop({"go": "a(1);b(2);c(3);d(4);"}))
    run.submit()
    run.go()
    result = run.result()
    assert result.metrics.num_suspensions == 4
    assert result.metrics.response_time_s == pytest.approx(
        result.metrics.waiting_time_s, abs=0.02
    )  # nothing but W(s_0)


def _utility_of(*reports, error_code=ErrorCode.NONE, do_clients_report=True):
    """The time utility of a goal of one segment with ERT 0.5 s, alpha -1, beta 1, sent at once."""
    run = Run(make_loop({"go": "a(1);"}, do_clients_report=do_clients_report), reports=False)
    run.submit(time_utility=TimeUtility(ert_s=0.5, alpha=-1.0, beta=1.0))
    run.go(until_s=0.2)
    for report, at_s in reports:
        run.take(run.loop.report(report, at_s))
    run.take(run.loop.step(20.0))
    assert run.result().error_code is error_code
    assert run.result().metrics.response_time_s == pytest.approx(run.time_of(SegmentReady), abs=0.02)
    assert run.time_of(SegmentReady) < 0.1
    return run.result().metrics.time_utility


def test_utility_counts_until_the_robot_acts():
    late = (started("r1", 0), 2.0), (succeeded("r1", 0, 5.0), 7.0)
    assert _utility_of(*late) == pytest.approx(1.0 - (2.0 - NETWORK_S - 0.5))
    in_time = (started("r1", 0), 0.4), (succeeded("r1", 0, 5.0), 7.0)
    assert _utility_of(*in_time) == 1.0


def test_without_a_report_of_the_start_the_end_and_its_duration_tell_it():
    assert _utility_of((succeeded("r1", 0, 5.0), 7.0)) == pytest.approx(1.0 - (7.0 - NETWORK_S - 5.0 - 0.5))
    impossible = succeeded("r1", 0, 100.0)  # it cannot have begun before the segment came
    assert _utility_of((impossible, 7.0)) == 1.0


def test_of_a_robot_that_reports_nothing_the_segment_is_taken_to_be_carried_out_as_it_comes():
    assert _utility_of(do_clients_report=False) == 1.0


def test_a_failed_goal_has_no_utility():
    reports = (started("r1", 0), 0.1), (failed("r1", 0), 1.0)
    assert _utility_of(*reports, error_code=ErrorCode.SKILL_FAILED) == 0.0


def test_while_one_robot_moves_the_slot_serves_another():
    run = Run(make_loop({"go": "a(1);b(2);c(3);", "run": "d(1);e(2);f(3);"}, max_num_seqs=1))
    run.submit("r1", "go")
    run.submit("r2", "run")
    run.go(until_s=0.5)
    assert run.texts("r1") == ["a(1);"]
    assert run.texts("r2") == ["d(1);"]
    run.go()
    assert run.result("r1").error_code is run.result("r2").error_code is ErrorCode.NONE


def test_clients_that_do_not_report_are_not_waited_for():
    run = Run(make_loop({"go": "a(1);b(2);c(3);"}, do_clients_report=False), reports=False)
    run.submit()
    run.go()
    result = run.result()
    assert result.error_code is ErrorCode.NONE
    assert result.metrics.execution_time_s == 3.0
    assert 1.5 < run.time_of(Finished) < 3.0  # the last segment was generated while the second ran


def test_submitting_twice_is_once():
    run = Run(make_loop({"go": "a(1);"}))
    run.submit()
    run.submit()
    run.go()
    assert run.texts() == ["a(1);"]


def test_memory_short_of_all_plans_loses_none():
    plans = {f"task{i}": f"a{i}(1);" * 12 for i in range(6)}
    for can_offload in (True, False):
        backend = FakeBackend(plans=plans, num_kv_blocks=14, block_size=4, can_offload=can_offload)
        run = Run(make_loop(backend=backend, max_num_seqs=4))
        run.loop._preparer.system = "s" * 24  # 2 shared blocks
        for name in plans:
            run.submit(name, name)
        run.go()
        for name, plan in plans.items():
            assert run.result(name).error_code is ErrorCode.NONE
            assert "".join(run.texts(name)) == plan


def test_two_segments_of_one_step_share_its_time():
    backend = FakeBackend(plans={"go": "a(1);b(2);"}, tokenizer=FakeTokenizer(bytes_per_token=40))
    run = Run(make_loop(backend=backend))
    run.submit()
    run.go()
    first, second = run.result().segments
    assert first.generation_time_s > 0.0
    assert second.generation_time_s == 0.0
    assert (first.num_tokens, second.num_tokens) == (1, 0)


@pytest.mark.parametrize("policy", ["fcfs", "fcfs_segment"])
def test_a_segment_says_how_many_tokens_the_model_wrote_for_it(policy):
    backend = FakeBackend(plans={"go": "mf(50);tc(90);ld();"}, tokenizer=FakeTokenizer(bytes_per_token=1))
    run = Run(make_loop(backend=backend, policy=policy))
    run.submit()
    run.go()
    assert [segment.num_tokens for segment in run.result().segments] == [6, 7, 5]  # a call ends at its parenthesis
