# SPDX-License-Identifier: Apache-2.0
"""Robots that fail, in a trace and in its replay: plans are replanned as they are live."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.simulation.builders import PROFILE, ROBOTS, SCRIPTS, a_config, a_request, a_trace, a_workload
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.model import RobotKind
from llm_planner_lab.simulation.failures import REASONS, with_failures
from llm_planner_lab.simulation.simulator import Simulator, simulate
from llm_planner_lab.simulation.trace import SegmentFailure, parse_lines, to_lines
from llm_planner_lab.simulation.workload import compose, workload


def failing(trace=None, share=0.3, seed=0):
    return with_failures(trace or a_workload(), share, seed, ROBOTS)


def run_one(*failures, plan="mf(100);tc(90);mu(40);", durations_s=(3.0, 2.0, 1.0), policy="fcfs_segment", **changes):
    made = tuple(SegmentFailure(segment=s, duration_s=t, reason="something is in the way") for s, t in failures)
    row = a_request(plan=plan, durations_s=durations_s, failures=made)
    return simulate(a_trace(row), replace(a_config(policy), **changes), SCRIPTS).requests[0]


def worked_s(record):
    return [segment.ended_s - segment.started_s for segment in record.segments]


def test_the_share_that_fails_is_the_share_that_was_asked_for():
    trace = failing(compose(workload("wid2"), 3, ROBOTS), share=0.2)
    num_failed = sum(len(row.failures) for row in trace.requests)
    num_tries = num_failed + sum(len(row.durations_s) for row in trace.requests)
    assert num_tries > 1000
    assert num_failed / num_tries == pytest.approx(0.2, abs=3 * (0.2 * 0.8 / num_tries) ** 0.5)


def test_failures_are_all_that_is_new_and_the_same_seed_gives_the_same():
    trace = a_workload()
    assert failing(trace) == failing(trace)
    assert failing(trace) != failing(trace, seed=1)
    assert [replace(row, failures=()) for row in failing(trace).requests] == list(trace.requests)
    assert failing(trace).about["failures"] == 0.3
    for row in failing(trace).requests:
        kind = ROBOTS.get(row.robot_model).kind
        assert {failure.reason for failure in row.failures} <= set(REASONS[kind])
    assert set(REASONS) == set(RobotKind)


@pytest.mark.parametrize("share", [-0.1, 0.95, float("nan")])
def test_an_impossible_share_is_refused(share):
    with pytest.raises(PlannerError, match="share of failures"):
        failing(share=share)


def test_a_file_keeps_them_and_what_makes_no_sense_is_refused():
    trace = failing()
    assert parse_lines(to_lines(trace), ROBOTS).requests == trace.requests
    failure = SegmentFailure(segment=1, duration_s=1.0, reason="")
    for failures in [(replace(failure, segment=2),), (failure, replace(failure, segment=0))]:
        with pytest.raises(ValueError, match="failures must name"):
            a_request(failures=failures)
    with pytest.raises(ValueError, match="no failures"):
        a_request(urgency="chat", failures=(failure,))


def test_the_plan_goes_on_with_the_segment_that_failed():
    record = run_one((1, 0.5))
    assert record.error_code is ErrorCode.NONE
    assert worked_s(record) == pytest.approx([3.0, 0.5, 2.0, 1.0])


def test_a_segment_may_fail_again_until_the_attempts_are_used_up():
    record = run_one((1, 0.5), (1, 0.7))
    assert (record.error_code, worked_s(record)) == (ErrorCode.NONE, pytest.approx([3.0, 0.5, 0.7, 2.0, 1.0]))
    record = run_one((1, 0.5), (1, 0.7), (1, 0.9))
    assert (record.error_code, worked_s(record)) == (ErrorCode.SKILL_FAILED, pytest.approx([3.0, 0.5, 0.7, 0.9]))
    assert run_one((1, 0.5), max_replans=0).error_code is ErrorCode.SKILL_FAILED


def test_the_robot_waits_for_the_replan_alone():
    """What was delivered behind the failed segment is void, and the model reads before it writes."""
    waits = run_one((0, 0.5), policy="fcfs_stream").waiting_time_s - run_one(policy="fcfs_stream").waiting_time_s
    assert PROFILE.step_s([]) < waits < 1.0


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 99),
    policy=st.sampled_from(["fcfs", "fcfs_stream", "pud", "tardiness"]),
    num_kv_blocks=st.sampled_from([160, 2800]),
)
def test_every_goal_ends_and_no_memory_is_lost(seed, policy, num_kv_blocks):
    trace = failing(a_workload(seed % 5), seed=seed)
    config = a_config(policy, profile=replace(PROFILE, num_kv_blocks=num_kv_blocks), max_num_seqs=4)
    simulator = Simulator(trace, config, SCRIPTS)
    record = simulator.run()
    simulator.scheduler.check_integrity()
    assert record == simulate(trace, config, SCRIPTS)
    ends = {ErrorCode.NONE, ErrorCode.SKILL_FAILED, ErrorCode.PLAN_TRUNCATED}  # the last one if memory is scarce
    assert {request.error_code for request in record.requests} <= ends
    rows = {row.request_id: row for row in trace.requests}
    for request in record.requests if num_kv_blocks > 1000 else ():
        row = rows[request.request_id]
        assert (request.error_code is ErrorCode.SKILL_FAILED) is (len(row.failures) > 2)
        if request.error_code is ErrorCode.NONE:
            assert len(request.segments) == len(row.durations_s) + len(row.failures)


def test_without_failures_nothing_changes():
    trace = a_workload()
    assert simulate(failing(trace, share=0.0), a_config("pud"), SCRIPTS) == simulate(trace, a_config("pud"), SCRIPTS)
