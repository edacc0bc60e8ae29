"""Plans for fleets: monotone in what matters, refused with a reason, and near what the simulator says."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.simulation.builders import PROFILE, ROBOTS, SCRIPTS
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.time_utility import NORMAL
from llm_planner.prediction.capacity.demand import Demand, load_demands
from llm_planner.prediction.capacity.queueing import OVERLOADED, Objective, _erlang_c, outlook
from llm_planner.prediction.profile import Chunk
from llm_planner.prediction.throughput.model_file import load_kernel_model
from llm_planner.prediction.throughput.server_profile import fast, middle, server_profile, slow
from llm_planner.prediction.throughput.table import Combination, Workload
from llm_planner_lab.simulation.capacity.fleet import demand_table, demands, fleet_trace, parse_fleet
from llm_planner_lab.simulation.capacity.plan import _limits, check_in_simulation, choose, plan_capacity, spread

H100 = Combination("Nvidia H100 GPU", 1, "vLLM", "meta-llama/Meta-Llama-3-8B")


@pytest.fixture(scope="module")
def model():
    return load_kernel_model()


def demand(per_s=1.0, num_tokens=40, first_tokens=5):
    return Demand(
        per_s=per_s, num_prompt_tokens=100, first_tokens=first_tokens, num_tokens=num_tokens, time_utility=NORMAL
    )


def test_fleets_are_read():
    assert parse_fleet("tello:20,indy7:4", ROBOTS) == {"tello": 20, "indy7": 4}
    assert parse_fleet("tello:1,tello:2", ROBOTS) == {"tello": 3}


@pytest.mark.parametrize("robot_model", ["tello", "indy7"])
def test_the_shipped_tables_are_what_the_traces_amount_to(robot_model):
    assert load_demands(robot_model) == demand_table(robot_model, ROBOTS).demands


@pytest.mark.parametrize("text", ["tello", "tello:0", "tello:-1", "tello:many", "", "tello:4,,"])
def test_bad_fleets_are_refused(text):
    with pytest.raises(PlannerError, match="MODEL:COUNT") as caught:
        parse_fleet(text, ROBOTS)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_unknown_robots_are_refused():
    with pytest.raises(PlannerError) as caught:
        parse_fleet("unicorn:2", ROBOTS)
    assert caught.value.code is ErrorCode.UNKNOWN_ROBOT_MODEL


def test_a_trace_holds_what_the_robots_do():
    trace = fleet_trace({"tello": 6, "indy7": 2}, 0, 120.0, ROBOTS)
    times = [request.time_s for request in trace.requests]
    assert times == sorted(times)
    assert {request.robot_model for request in trace.requests} == {"tello", "indy7"}
    assert len({request.request_id for request in trace.requests}) == len(times)
    assert sum(d.per_s for d in demands(trace, SCRIPTS)) == pytest.approx(len(times) / 120.0)


def test_profile_takes_as_long_as_the_model_says(model):
    profile = server_profile(model, H100)
    for length, batch in ((256, 4), (512, 16), (1024, 16)):
        expected_s = 2 * length * batch / model.estimate(H100, Workload(length, length, batch)).tokens_per_s
        decode_s = length * profile.step_s([Chunk(1, round(1.5 * length))] * batch)
        total_s = decode_s + profile.prefill.b_s_per_token.value * length * batch
        assert total_s == pytest.approx(expected_s, rel=0.25)


def test_slow_ends_are_slower(model):
    chunks = [Chunk(1, 500)] * 8
    steps = [server_profile(model, H100, end).step_s(chunks) for end in (fast, middle, slow)]
    assert steps == sorted(steps)


def test_what_makes_no_sense_is_refused(model):
    with pytest.raises(PlannerError, match="one sequence at a time"):
        server_profile(model, H100._replace(framework="llama.cpp"))
    with pytest.raises(PlannerError, match="give more --devices"):
        server_profile(model, H100._replace(model="meta-llama/Meta-Llama-3-70B"))
    with pytest.raises(PlannerError, match="share between 0 and 1"):
        Objective(slo_s=0.2, share=1.5)


def test_erlang_c_is_known_in_closed_form_for_one_and_two_places():
    assert _erlang_c(0.3, 1) == pytest.approx(0.3)
    assert _erlang_c(1.0, 2) == pytest.approx(1 / 3)


@given(st.floats(0.01, 20.0), st.integers(1, 32))
@settings(max_examples=60, deadline=None)
def test_more_load_is_never_better(per_s, limit):
    one, more = (outlook([demand(per_s=p)], PROFILE, limit, 0.5) for p in (per_s, 1.3 * per_s))
    assert more.utility <= one.utility + 1e-9
    assert more.mean_response_s >= one.mean_response_s - 1e-9
    assert 0.0 <= one.utility <= 1.0


def test_too_much_is_overload():
    assert outlook([demand(per_s=1e4)], PROFILE, 8, 0.5) is OVERLOADED


def test_the_fewest_servers_that_keep_the_objective_are_chosen():
    load, objective = [demand(per_s=300.0)], Objective(slo_s=0.4, share=0.9)
    choice = choose(PROFILE, load, objective)
    assert choice.num_servers > 1
    assert choice.outlook.share_in_slo >= 0.9
    fewer = spread(load, choice.num_servers - 1)
    assert all(outlook(fewer, PROFILE, limit, 0.4).share_in_slo < 0.9 for limit in _limits(PROFILE))
    assert choose(PROFILE, [replace(load[0], per_s=600.0)], objective).num_servers > choice.num_servers


def test_what_no_server_keeps_is_refused_with_what_it_can_keep(model):
    load = [demand(first_tokens=500, num_tokens=600)]
    with pytest.raises(PlannerError, match="give a longer --slo"):
        plan_capacity(model, H100, load, Objective(slo_s=0.05))


def test_a_plan_is_near_what_the_simulator_says(model):
    fleet, objective = {"tello": 8, "indy7": 2}, Objective(slo_s=0.5, share=0.9)
    load = demands(fleet_trace(fleet, 0, 90.0, ROBOTS), SCRIPTS)
    plan = plan_capacity(model, H100, load, objective)
    low, high = plan.num_servers_range
    assert low <= plan.choice.num_servers <= high
    assert plan.at["slow"].utility <= plan.at["expected"].utility <= plan.at["fast"].utility
    checked = check_in_simulation(fleet, plan.choice, server_profile(model, H100), objective, SCRIPTS, duration_s=90.0)
    assert checked.utility == pytest.approx(plan.choice.outlook.utility, abs=0.1)
    assert checked.share_in_slo >= 0.8
