# SPDX-License-Identifier: Apache-2.0
"""Plans for fleets: monotone in what matters, refused with a reason, and near what the simulator says."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.simulation.builders import PROFILE, ROBOTS, SCRIPTS
from llm_planner.core.config import SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.time_utility import NORMAL
from llm_planner.prediction.capacity.curve import CapacityData, Point
from llm_planner.prediction.capacity.room import Objective
from llm_planner.prediction.profile import Chunk, find_profile, load_profile, served
from llm_planner.prediction.throughput.model_file import load_kernel_model
from llm_planner.prediction.throughput.server_profile import fast, middle, server_profile, slow
from llm_planner.prediction.throughput.table import Combination, Workload
from llm_planner_lab.simulation.capacity import saturation
from llm_planner_lab.simulation.capacity.fleet import MOST_ROBOTS, demands, fleet_trace, parse_fleet
from llm_planner_lab.simulation.capacity.plan import Trial, _limits, choose, plan_capacity, spread
from llm_planner_lab.simulation.capacity.queueing import OVERLOADED, Demand, _erlang_c, outlook
from llm_planner_lab.simulation.capacity.saturation import (
    CLOSE_NUMBERS,
    CLOSE_POINTS,
    LIMITS_S,
    OBJECTIVES,
    Checked,
    Server,
    checked,
    make_curve,
    profile_text,
    share_within,
    with_section,
)

H100 = Combination("Nvidia H100 GPU", 1, "vLLM", "meta-llama/Meta-Llama-3-8B")
KNOWN = "estimate:Nvidia H100 GPU/1/vLLM/meta-llama/Meta-Llama-3-8B"


@pytest.fixture(scope="module")
def model():
    return load_kernel_model()


@pytest.fixture
def few_requests(monkeypatch):
    """A plan counts these for each number of servers, whatever is asked for: more take longer."""
    monkeypatch.setattr(saturation, "NUM_REQUESTS", 60)


def demand(per_s=1.0, num_tokens=40, first_tokens=5):
    return Demand(
        per_s=per_s, num_prompt_tokens=100, first_tokens=first_tokens, num_tokens=num_tokens, time_utility=NORMAL
    )


def test_fleets_are_read():
    assert parse_fleet("tello:20,indy7:4", ROBOTS) == {"tello": 20, "indy7": 4}
    assert parse_fleet("tello:1,tello:2", ROBOTS) == {"tello": 3}


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


def test_a_throughput_stays_below_what_the_device_computes(model):
    peak = 1.0 / model.encoder.catalogue.roofline(H100).token_s
    for num_input, num_output in ((8192, 1), (2000, 50), (30_000, 2)):
        found = model.estimate(H100, Workload(num_input, num_output, 1))
        assert found.low_tokens_per_s < found.tokens_per_s < found.high_tokens_per_s < peak
    equal, longer = (model.estimate(H100, Workload(n, 512, 16)).tokens_per_s for n in (512, 513))
    assert longer == pytest.approx(equal, rel=0.01)


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


def test_the_closed_form_counts_the_planners_own_time_and_what_prompts_hold_up():
    load = [demand(per_s=8.0)]
    alone = outlook(load, PROFILE, 16, 0.5)
    hosted = outlook(load, served(PROFILE), 16, 0.5)
    assert hosted.load > alone.load
    assert hosted.mean_response_s > alone.mean_response_s
    on_top = outlook(load, replace(PROFILE, hides_prompts=False), 16, 0.5)
    assert on_top.load > 1.05 * alone.load
    prompts = [replace(load[0], num_prompt_tokens=5000)]
    assert outlook(prompts, PROFILE, 64, 0.5) is OVERLOADED, "there is no time left to decode"


def test_prompts_of_a_step_read_the_weights_once(model):
    """A prompt hides behind decoding, and two prompts in one step do not read the weights twice."""
    profile = server_profile(model, H100)
    decodes = [Chunk(1, 500)] * 8
    prompts = [Chunk(60, 1100)] * 2
    longer_s = profile.step_s([*decodes, *prompts]) - profile.step_s(decodes)
    sequences_s = profile.step_s([Chunk(1, 1100)] * 10) - profile.step_s([Chunk(1, 500)] * 8)
    assert longer_s < sequences_s + 0.1 * profile.decode.base_s.value


@pytest.mark.usefixtures("few_requests")
def test_what_no_server_keeps_is_refused_with_what_it_can_keep(model):
    with pytest.raises(PlannerError, match=r"a server for each robot and a batch limit of 64, .*give a longer --slo"):
        plan_capacity(model, H100, {"tello": 2}, Objective(slo_s=0.02), SCRIPTS, duration_s=60.0)


def trial(fleet, duration_s=10.0):
    return Trial(PROFILE, fleet, [demand(per_s=0.001)], Objective(slo_s=0.5), SCRIPTS, 0, duration_s)


@pytest.mark.usefixtures("few_requests")
def test_a_plan_rests_on_enough_requests_however_short_the_traces():
    assert trial({"tello": 1}).check(1, 4).num_requests > 30
    assert trial({"tello": 8}, 600.0).check(1, 4).num_requests > 100, "longer ones if asked for"


@pytest.mark.usefixtures("few_requests")
def test_each_robot_of_a_mixed_fleet_may_have_a_server_of_its_own():
    mixed = trial({"tello": 1, "indy7": 1})
    assert mixed.most == 2
    alone = [trial({name: 1}).check(1, 4) for name in ("tello", "indy7")]
    assert mixed.check(2, 4) in alone
    assert mixed.check(2, 4).share_in_slo == min(found.share_in_slo for found in alone)
    assert mixed.check(1, 4) not in alone


def test_names_that_exist_nowhere_are_refused(model):
    with pytest.raises(PlannerError, match="no hardware 'y'"):
        plan_capacity(model, H100._replace(hardware="y"), {"tello": 2}, Objective(slo_s=1.0), SCRIPTS, duration_s=60.0)


class Steep(Trial):
    """Keeps the objective from a number of servers on; counts what it is asked."""

    def __init__(self, needed, most, least_limit=1):
        super().__init__(PROFILE, {"tello": most}, [demand(per_s=0.001)], Objective(slo_s=1.0), SCRIPTS, 0, 60.0)
        self.needed, self.least_limit, self.asked = needed, least_limit, set()

    def check(self, num_servers, max_num_seqs):
        self.asked.add(num_servers)
        is_kept = num_servers >= self.needed and max_num_seqs >= self.least_limit
        return Checked(utility=1.0, share_in_slo=float(is_kept), mean_response_s=0.1, num_requests=1)


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300), st.sampled_from([1, 4, 16]))
def test_the_fewest_servers_are_found_from_wherever_the_closed_form_begins(needed, start, most, limit):
    trial = Steep(needed, most, limit)
    found = trial.fewest(min(start, most))
    if needed > most:
        assert found is None
        return
    assert (found.num_servers, found.max_num_seqs) == (needed, limit)
    assert len(trial.asked) <= 20


@pytest.mark.usefixtures("few_requests")
def test_a_plan_is_what_the_simulator_says_of_other_traces(model):
    fleet, objective = {"tello": 24}, Objective(slo_s=0.25, share=0.9)
    plan = plan_capacity(model, H100, fleet, objective, SCRIPTS, duration_s=60.0)
    low, high = plan.num_servers_range
    assert low <= plan.decision.num_servers <= (high or plan.decision.num_servers)
    share = {"tello": -(-fleet["tello"] // plan.decision.num_servers)}

    def answered(limit):
        limits = SchedulerConfig(max_num_seqs=limit)
        server = Server(profile=server_profile(model, H100), scheduler=limits, scripts=SCRIPTS)
        return share_within(server.requests(share, (1, 2), 300.0), objective.slo_s)

    limit = plan.decision.max_num_seqs
    found = answered(limit)
    assert found == pytest.approx(plan.decision.checked.share_in_slo, abs=0.05)
    assert found >= objective.share > answered(limit // 2) - 0.03


class Made:
    """A server whose shares fall along a line from a number of fleets on, and where the closed form is off."""

    def __init__(self, knee, slope, guess):
        self.knee, self.slope, self.guess, self.looked = knee, slope, guess, []

    def bracket(self, _unit, _objective):
        return self.guess

    def point(self, _unit, number, _seeds):
        self.looked.append(number)
        shares = (1.0 - self.slope * max(0.0, number / (self.knee * limit_s) - 1.0) for limit_s in LIMITS_S)
        return Point(number=number, within=tuple(max(0.0, share) for share in shares), utility=1.0)


@given(st.integers(1, 400), st.floats(0.1, 30.0), st.integers(0, 1500))
@settings(max_examples=40, deadline=None)
def test_a_curve_is_fine_where_the_objectives_cease_to_be_kept(knee, slope, guess):
    """However wrong the closed form is."""
    server = Made(knee, slope, guess)
    curve = make_curve(server, {"tello": 1}, (0,), lambda _: None)
    assert len(server.looked) == len(set(server.looked)) <= 80
    for objective in OBJECTIVES:
        column = LIMITS_S.index(objective.slo_s)
        kept = curve.most(column, objective.share)
        after = next((point for point in curve.points if point.number > kept), None)
        if not kept or kept >= MOST_ROBOTS:
            continue
        assert after is not None, "it goes on to where the objective is not kept"
        apart = server.point({}, kept, ()).within[column] - after.within[column]
        assert apart <= CLOSE_POINTS or after.number - kept <= max(1, CLOSE_NUMBERS * after.number)


def test_a_simulated_point_counts_every_request():
    server = Server(profile=PROFILE, scheduler=SchedulerConfig(), scripts=SCRIPTS)
    requests = server.requests({"tello": 6}, (0,), 60.0)
    shares = [share_within(requests, limit_s) for limit_s in LIMITS_S]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert checked(requests, 0.5).share_in_slo == shares[LIMITS_S.index(0.5)]
    assert share_within([replace_segments(requests[0])], 5.0) == 0.0, "one that was never answered is late"


def replace_segments(request):
    return replace(request, segments=[])


def test_a_profile_keeps_its_text_and_its_curves(tmp_path):
    curve = make_curve(Made(20, 1.0, 10), {"tello": 1}, (0,), lambda _: None)
    data = CapacityData(policy="tardiness", max_num_seqs=2, limits_s=LIMITS_S, expected=(curve,))
    text = profile_text("llama3-8b-rtx4090")
    once = with_section(text, data)
    assert with_section(once, data) == once
    assert once.startswith(text.split("capacity:")[0])
    path = tmp_path / "p.yaml"
    path.write_text(once, encoding="utf-8")
    assert load_profile(path).capacity == data
    path.write_text(with_section(profile_text(KNOWN), data), encoding="utf-8")
    assert load_profile(path).decode == server_profile(load_kernel_model(), H100).decode


def test_the_host_of_a_profile_that_was_measured_stays():
    measured = find_profile("planner-small-cpu")
    assert served(measured) == measured
    assert served(PROFILE).host == measured.host
