# SPDX-License-Identifier: Apache-2.0
"""Room for more robots by the curves of a profile, and the speed of engines that were never profiled."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.config import EngineConfig, PlannerConfig, SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.prediction.capacity.curve import CapacityData, Curve, Point
from llm_planner.prediction.capacity.room import Objective, Room, build_room
from llm_planner.prediction.profile import find_profile
from llm_planner.prediction.throughput.estimate import Estimate
from llm_planner.prediction.throughput.estimated import MOST_PESSIMISM, estimated_profile, known_speed, widened
from llm_planner.robots.library import RobotLibrary

ROBOTS = RobotLibrary()
KNOWN = "estimate:Nvidia H100 GPU/1/vLLM/meta-llama/Meta-Llama-3-8B"
UNKNOWN = "estimate:AMD MI250 GPU/1/TensorRT-LLM/Deci/DeciLM-7B"
OBJECTIVE = Objective(slo_s=0.5, share=0.9)


def a_curve(fleet, *points):
    return Curve(
        fleet=fleet, points=tuple(Point(number=n, within=(w - 0.5, w), utility=w) for n, w in points)
    )  # fmt: skip


TELLO = a_curve({"tello": 1}, (10, 1.0), (100, 0.95), (110, 0.85))
INDY7 = a_curve({"indy7": 1}, (10, 1.0), (50, 0.9), (60, 0.5))
MIXED = a_curve({"tello": 1, "indy7": 1}, (10, 1.0), (30, 0.9), (40, 0.5))


def a_room(*curves, **changes):
    data = CapacityData(policy="tardiness", max_num_seqs=16, limits_s=(0.2, 0.5), expected=curves or (TELLO, INDY7))
    return Room(replace(data, **changes), ROBOTS)


def test_replicas_share_the_fleet():
    data = a_room()._data
    one, two = Room(data, ROBOTS), Room(data, ROBOTS, num_replicas=2)
    assert two.left({}, "tello", OBJECTIVE).num_robots == 2 * one.left({}, "tello", OBJECTIVE).num_robots
    assert two.holds({"tello": 150}, OBJECTIVE)
    assert not one.holds({"tello": 150}, OBJECTIVE)


def estimate(value, low):
    return Estimate(
        tokens_per_s=value,
        low_tokens_per_s=low,
        high_tokens_per_s=2 * value,
        predicted_error=0.1,
        confidence=0.5,
        is_seen=False,
    )


def test_the_factor_widens_with_the_uncertainty():
    assert widened(5.0, estimate(100.0, 100.0)) == 5.0
    assert widened(5.0, estimate(100.0, 50.0)) == pytest.approx(10.0)
    assert widened(5.0, estimate(100.0, 0.1)) == MOST_PESSIMISM
    assert widened(5.0, estimate(100.0, 101.0)) == 5.0


def test_a_measured_profile_changes_nothing_and_a_guess_is_careful():
    config = PlannerConfig()
    assert known_speed(config) == (None, config.scheduler)
    measured = replace(config, engine=EngineConfig(profile="planner-small-cpu"))
    assert known_speed(measured) == (find_profile("planner-small-cpu"), config.scheduler)
    factors = []
    for name in (KNOWN, UNKNOWN):
        profile, settings = known_speed(replace(config, engine=EngineConfig(profile=name)))
        assert profile.model == ""
        factors.append(settings.pessimism)
    assert config.scheduler.pessimism <= factors[0] < 1.5 * config.scheduler.pessimism
    assert factors[1] > 2 * factors[0]


@pytest.mark.parametrize(
    "name",
    ["estimate:", "estimate:A/B/C/D", "estimate:A/0/vLLM/x", f"estimate:A/{'9' * 5000}/vLLM/x", "estimate:A/1/vLLM"],
)
def test_other_names_are_refused(name):
    with pytest.raises(PlannerError, match="HARDWARE/DEVICES/FRAMEWORK/MODEL") as caught:
        estimated_profile(name)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("slo_s", "share", "expected"),
    [
        (0.5, 0.9, 100),
        (0.7, 0.9, 100),
        (0.5, 0.85, 110),
        (0.5, 0.999, 10),
        (0.2, 0.9, 0),
        (0.49, 0.9, 0),
        (0.1, 0.5, 0),
    ],
)
def test_the_curve_is_read_up_to_where_the_share_is_kept(slo_s, share, expected):
    """Between two limits the smaller one counts, between two points likewise; beyond the last nothing is claimed."""
    assert a_room().left({}, "tello", Objective(slo_s=slo_s, share=share)).num_robots == expected


def test_robots_that_are_known_take_room():
    room = a_room()
    assert room.left({"tello": 21}, "tello", OBJECTIVE).num_robots == 79
    assert room.left({"tello": 21}, "indy7", OBJECTIVE).num_robots == 39, "a fifth of the server is taken"
    assert room.left({"tello": 500}, "indy7", OBJECTIVE).num_robots == 0


def test_a_mix_is_read_from_its_own_curve():
    mixed = a_room(TELLO, INDY7, MIXED)
    assert mixed.holds({"tello": 30, "indy7": 30}, OBJECTIVE)
    assert not mixed.holds({"tello": 31, "indy7": 31}, OBJECTIVE)
    assert a_room().holds({"tello": 33, "indy7": 33}, OBJECTIVE), "without it, kinds are added up"
    assert mixed.left({"indy7": 20}, "tello", OBJECTIVE).num_robots == 20 + 33, "20 pairs and a third of the server"


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 3), st.integers(0, 3))
def test_more_robots_never_fit_better(tellos, arms, more_tellos, more_arms):
    room = a_room(TELLO, INDY7, MIXED)
    more = {"tello": tellos + more_tellos, "indy7": arms + more_arms}
    assert room.holds({"tello": tellos, "indy7": arms}, OBJECTIVE) or not room.holds(more, OBJECTIVE)


def test_an_estimate_has_an_interval_and_a_measured_profile_none():
    measured = a_room().left({}, "tello", OBJECTIVE)
    assert (measured.num_robots_low, measured.num_robots_high, measured.confidence) == (100, 100, 1.0)
    slow, fast = (a_curve({"tello": 1}, (n, 1.0), (n + 1, 0.0)) for n in (50, 200))
    unsure = a_room(TELLO, slow=(slow,), fast=(fast,), confidence=0.4).left({}, "tello", OBJECTIVE)
    assert (unsure.num_robots_low, unsure.num_robots, unsure.num_robots_high) == (50, 100, 200)
    assert unsure.confidence == 0.4


def test_a_curve_of_an_estimate_widens_the_factor_too(tmp_path):
    text = (share_dir() / "profiles" / "llama2-70b-2xa100.yaml").read_text(encoding="utf-8").split("capacity:")[0]
    (tmp_path / "p.yaml").write_text(
        f"{text}capacity: {{policy: tardiness, max_num_seqs: 16, limits_s: [1.0], slowdown: 2.0, expected: []}}\n"
    )
    config = PlannerConfig(engine=EngineConfig(profile=str(tmp_path / "p.yaml")))
    assert known_speed(config)[1].pessimism == 2 * config.scheduler.pessimism


@pytest.mark.parametrize(
    "name", ["llama3-8b-rtx4090", "llama3-8b-rtx4090-additive", "llama2-70b-2xa100", "planner-small-cpu"]
)
def test_shipped_profiles_have_curves(name):
    """Of drones, arms and a mix, for the default policy and batch limit."""
    room = build_room(PlannerConfig(engine=EngineConfig(profile=name)), ROBOTS)
    loose, tight = (room.left({}, "tello", Objective(slo_s=slo_s)) for slo_s in (2.0, 0.5))
    assert loose.num_robots >= tight.num_robots
    assert loose.num_robots > 50
    assert 0.0 < loose.utility <= 1.0
    assert room.left({"tello": 10}, "indy7", Objective(slo_s=2.0)).num_robots > 0


@pytest.mark.parametrize(
    ("engine", "scheduler", "named"),
    [
        (EngineConfig(), SchedulerConfig(), r"engine\.profile"),
        (EngineConfig(profile=KNOWN), SchedulerConfig(), "capacity curve"),
        (EngineConfig(profile="llama3-8b-rtx4090"), SchedulerConfig(max_num_seqs=8), "max_num_seqs 16"),
        (EngineConfig(profile="llama3-8b-rtx4090"), SchedulerConfig(policy="fcfs"), "--policy fcfs --batch 16"),
    ],
)
def test_without_curves_it_says_what_to_run(engine, scheduler, named):
    with pytest.raises(PlannerError, match=named) as caught:
        build_room(PlannerConfig(engine=engine, scheduler=scheduler), ROBOTS)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_refusals_have_numbers():
    with pytest.raises(PlannerError) as caught:
        a_room().left({}, "unicorn", OBJECTIVE)
    assert caught.value.code is ErrorCode.UNKNOWN_ROBOT_MODEL
    with pytest.raises(PlannerError, match="there is one for tello") as caught:
        a_room(TELLO).left({}, "indy7", OBJECTIVE)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("estimate:nvidia h100/1/vLLM/meta-llama/Meta-Llama-3-8B", "Nvidia H100 GPU"),
        ("estimate:Nvidia H100 GPU/1/vllm/meta-llama/Meta-Llama-3-8B", "the nearest are vLLM"),
        ("estimate:Nvidia H100 GPU/1/vLLM/Llama-3-8B", "meta-llama/Meta-Llama-3-8B"),
        ("estimate:y/1/z/x", "no hardware 'y'.*no framework 'z'.*no model 'x'"),
    ],
)
def test_names_that_exist_nowhere_are_refused_with_the_nearest(name, named):
    with pytest.raises(PlannerError, match=named) as caught:
        estimated_profile(name)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_two_curves_of_one_mix_do_no_harm():
    twice = a_curve({"tello": 2, "indy7": 2}, (5, 1.0), (15, 0.9), (20, 0.5))
    pair = a_curve({"tello": 2}, (50, 0.95), (55, 0.85))
    room = a_room(TELLO, pair, INDY7, MIXED, twice)
    assert room.holds({"tello": 20, "indy7": 10}, OBJECTIVE)
    assert not room.holds({"tello": 70, "indy7": 30}, OBJECTIVE)


def test_an_interval_is_of_the_same_fleets():
    with pytest.raises(ValueError, match="slow and fast, if they are given, have the fleets of expected"):
        a_room(slow=(TELLO,), fast=(TELLO,))
