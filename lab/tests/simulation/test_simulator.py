# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.simulation.builders import PROFILE, SCRIPTS, a_config, a_request, a_trace, a_workload
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.prediction.profile import Chunk, HostCost, IdleCost
from llm_planner.robots.timing import Parameter, Source
from llm_planner.scheduling.policies import policy_names
from llm_planner_lab.simulation.simulator import Simulator, simulate

HOST = HostCost(
    prepare_s=Parameter(value=0.01, source=Source.MEASURED),
    prepare_per_token_s=Parameter(value=1e-5, source=Source.MEASURED),
    step_s=Parameter(value=0.002, source=Source.MEASURED),
    step_per_sequence_s=Parameter(value=0.003, source=Source.MEASURED),
    transport_s=Parameter(value=0.001, source=Source.MEASURED),
    prediction_s=Parameter(value=0.004, source=Source.MEASURED),
)
NOTHING = Parameter(value=0.0, source=Source.MEASURED)


def run(trace, config=None):
    return simulate(trace, config or a_config(), SCRIPTS)


def test_a_request_alone_takes_what_the_profile_says():
    record = run(a_trace()).requests[0]
    assert record.response_time_s == pytest.approx(record.bound_s)
    assert record.response_time_s == pytest.approx(0.008 + 0.0216 + 3 * 0.0216, rel=0.02)  # prompt, three more tokens


def test_the_time_of_the_planner_itself_comes_on_top():
    plain = run(a_trace()).requests[0]
    record = run(a_trace(), a_config(profile=replace(PROFILE, host=HOST))).requests[0]
    assert record.response_time_s == pytest.approx(record.bound_s)
    extra_s = record.response_time_s - plain.response_time_s
    assert extra_s == pytest.approx(2 * 0.001 + 0.01 + 1170 * 1e-5 + 4 * (0.002 + 0.003))


def test_lengths_are_predicted_where_a_policy_decides_by_them():
    plain = run(a_trace(), a_config("a_min", profile=replace(PROFILE, host=replace(HOST, prediction_s=NOTHING))))
    record = run(a_trace(), a_config("a_min", profile=replace(PROFILE, host=HOST))).requests[0]
    assert record.response_time_s - plain.requests[0].response_time_s == pytest.approx(0.004)
    assert record.response_time_s == pytest.approx(record.bound_s)


def test_the_first_steps_behind_a_prompt_take_longer():
    ratios = tuple(Parameter(value=value, source=Source.MEASURED) for value in (1.5, 1.25))
    plain = run(a_trace()).requests[0]
    record = run(a_trace(), a_config(profile=replace(PROFILE, first_steps=ratios))).requests[0]
    assert record.response_time_s == pytest.approx(record.bound_s)
    assert record.response_time_s - plain.response_time_s == pytest.approx((0.5 + 0.25) * 0.0216, rel=0.02)


def test_what_comes_behind_an_idle_time_takes_longer():
    values = {"prompt_s": 0.05, "decode_s": 0.02, "kept": 0.5, "cools_s": 0.1}
    idle = IdleCost(**{name: Parameter(value=value, source=Source.MEASURED) for name, value in values.items()})
    host = replace(HOST, idle_s=Parameter(value=0.003, source=Source.MEASURED))
    requests = [a_request(0), a_request(1, time_s=100.0)]
    (_, plain), (first, second) = (
        run(a_trace(*requests), a_config(profile=profile)).requests
        for profile in (replace(PROFILE, host=HOST), replace(PROFILE, host=host, idle=idle))
    )
    assert first.response_time_s == pytest.approx(plain.response_time_s)  # nothing has had time to cool
    prompt_s = PROFILE.step_s([Chunk(114, 1056)]) + 0.05  # warms as several decode steps do
    left = 0.5 ** (prompt_s / (PROFILE.decode.base_s.value + 0.02))
    extra_s = 0.003 + 0.05 + 0.02 * left * (1.0 + 0.5 + 0.25)
    assert second.response_time_s - plain.response_time_s == pytest.approx(extra_s, rel=0.01)


def test_steps_run_between_requests_that_come_at_once_and_the_urgent_is_first():
    requests = [*(a_request(i) for i in range(3)), a_request(9, urgency="urgent")]
    config = replace(a_config(profile=replace(PROFILE, host=HOST)), keeps_steps=True)
    record = run(a_trace(*requests), config)
    assert [step.num_prompt_tokens for step in record.steps if step.num_prompt_tokens] == [2 * 114, 2 * 114]
    times_s = {request.request_id: request.response_time_s for request in record.requests}
    assert times_s["r9"] <= times_s["r0"] < times_s["r1"]
    first, second = (step for step in record.steps if step.num_prompt_tokens)
    ready_s = 2 * HOST.preparation_s(1170)  # while two are made ready, the others wait
    assert first.start_s == pytest.approx(0.008 + 0.001 + ready_s)
    around_s = HOST.around_step_s(2)
    assert second.start_s == pytest.approx(first.start_s + first.duration_s + around_s + ready_s)


def test_where_requests_take_no_time_to_make_ready_they_keep_their_order():
    requests = [*(a_request(i) for i in range(3)), a_request(9, urgency="urgent")]
    record = run(a_trace(*requests), replace(a_config("fcfs"), keeps_steps=True))
    assert next(step.num_prompt_tokens for step in record.steps) == 4 * 114
    assert [request.request_id for request in record.requests] == ["r0", "r1", "r2", "r9"]


def test_the_tokens_of_a_segment_may_be_those_of_the_model_that_wrote_it():
    counted = run(a_trace()).requests[0]
    known = run(a_trace(a_request(segment_tokens=(14, 4)))).requests[0]
    assert known.response_time_s - counted.response_time_s == pytest.approx(10 * 0.0216, rel=0.02)
    with pytest.raises(PlannerError, match="2 segments has 1 segment_tokens"):
        run(a_trace(a_request(segment_tokens=(14,))))


def test_a_step_may_bring_several_tokens_and_compute_more():
    one_each = run(a_trace(a_request(segment_tokens=(9, 4)))).requests[0]
    config = a_config(profile=replace(PROFILE, host=HOST))
    told = a_request(segment_tokens=(9, 4), step_tokens=(1, 5, 3))
    record = run(a_trace(told), config).requests[0]
    assert record.response_time_s == pytest.approx(record.bound_s)
    plain = run(a_trace(told)).requests[0]
    saved_s = one_each.response_time_s - plain.response_time_s
    assert saved_s == pytest.approx(6 * 0.0215 - 6 * 0.0003, rel=0.02)  # two decode steps of 5 and 3 rows
    assert len(plain.segments) == 2
    drafted = replace(told, step_rows=(18, 8, 10))  # of which 3 and 7 were wrong
    with_drafts = run(a_trace(drafted)).requests[0]
    row_s = min(PROFILE.decode.per_sequence_s.value, PROFILE.prefill.b_s_per_token.value)
    assert with_drafts.response_time_s - plain.response_time_s == pytest.approx(10 * row_s, rel=0.02)
    record = run(a_trace(drafted), config).requests[0]
    assert record.response_time_s == pytest.approx(record.bound_s)


@pytest.mark.parametrize(("step_tokens", "num_steps"), [((13,), 1), ((13, 0), 2), ((9, 4), 2), ((9,), 5), ((), 14)])
def test_the_end_comes_with_the_last_tokens_or_alone(step_tokens, num_steps):
    config = replace(a_config(), keeps_steps=True)
    record = run(a_trace(a_request(segment_tokens=(9, 4), step_tokens=step_tokens, durations_s=(0.0, 0.0))), config)
    assert sum(bool(step.num_prompt_tokens or step.num_decodes) for step in record.steps) == num_steps
    assert len(record.requests[0].segments) == 2


def test_the_gate_counts_from_where_the_robot_was():
    plan = "mu(100);"
    high = Pose(z_m=1000.0)
    assert run(a_trace(a_request(plan=plan, durations_s=(1.0,)))).requests[0].segments
    with pytest.raises(PlannerError):
        run(a_trace(a_request(plan=plan, durations_s=(1.0,), start_pose=high)))


def test_without_reuse_the_whole_prompt_is_prefilled():
    record = run(a_trace(), a_config(reuses_prefixes=False)).requests[0]
    assert record.response_time_s == pytest.approx(0.008 + 0.1333 + 3 * 0.0216, rel=0.02)


def test_the_robot_does_not_wait_between_segments():
    record = run(a_trace()).requests[0]
    assert [round(s.ended_s - s.started_s, 6) for s in record.segments] == [3.0, 2.0]
    assert record.waiting_time_s == pytest.approx(record.response_time_s)


def test_the_whole_plan_policy_delivers_at_the_end():
    record = run(a_trace(), a_config("fcfs")).requests[0]
    assert record.segments[0].delivered_s == record.segments[1].delivered_s
    assert record.response_time_s > 0.008 + 8 * 0.0216


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.parametrize("reuses_prefixes", [True, False])
def test_every_request_is_served_and_the_run_is_reproducible(policy, reuses_prefixes):
    trace, config = a_workload(), a_config(policy, reuses_prefixes=reuses_prefixes)
    first, again = run(trace, config), run(trace, config)
    assert first == again
    assert len(first.requests) == len(trace.requests)
    for record, row in zip(sorted(first.requests, key=lambda r: r.request_id), trace.requests, strict=True):
        assert record.error_code is ErrorCode.NONE
        assert len(record.segments) == len(row.durations_s)
        assert record.response_time_s >= record.bound_s - 1e-9
        assert record.waiting_time_s >= record.response_time_s - 1e-9
        assert sum(record.later_waits_s) == pytest.approx(record.waiting_time_s - record.response_time_s, abs=1e-9)
        assert len(record.later_waits_s) == len(record.segments) - 1
        assert record.finished_s == pytest.approx(record.segments[-1].ended_s + 0.008)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000),
    policy=st.sampled_from(policy_names()),
    num_kv_blocks=st.sampled_from([160, 300, 2800]),
    max_num_seqs=st.sampled_from([1, 3, 16]),
    chunk=st.sampled_from([16, 200, 2048]),
)
def test_scarce_memory_slots_and_tokens_lose_nothing(seed, policy, num_kv_blocks, max_num_seqs, chunk):
    config = a_config(
        policy,
        profile=replace(PROFILE, num_kv_blocks=num_kv_blocks),
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=chunk,
    )
    trace = a_workload(seed)
    simulator = Simulator(trace, config, SCRIPTS)
    record = simulator.run()
    simulator.scheduler.check_integrity()
    assert {r.error_code for r in record.requests} == {ErrorCode.NONE}
    assert sum(len(r.segments) for r in record.requests) == sum(len(row.durations_s) for row in trace.requests)


def test_requests_at_the_same_time_keep_their_order():
    record = run(a_trace(*(a_request(i) for i in range(5))), a_config("fcfs_stream", max_num_seqs=1))
    starts = [r.segments[0].started_s for r in record.requests]
    assert [r.request_id for r in record.requests] == [f"r{i}" for i in range(5)]
    assert starts == sorted(starts)


def test_durations_must_match_the_plan():
    with pytest.raises(PlannerError, match="1 durations_s but its plan 2 segments"):
        run(a_trace(a_request(durations_s=(1.0,))))


def test_a_plan_that_the_gate_refuses_is_refused():
    with pytest.raises(PlannerError, match="scripted plan"):
        run(a_trace(a_request(plan="mf(99999);", durations_s=(1.0,))))
