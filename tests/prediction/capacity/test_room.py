"""Room for more robots, and the speed of engines that were never profiled."""

from dataclasses import replace

import pytest

from llm_planner.core.config import EngineConfig, PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.prediction.capacity.queueing import Objective
from llm_planner.prediction.capacity.room import build_room
from llm_planner.prediction.profile import find_profile
from llm_planner.prediction.throughput.estimate import Estimate
from llm_planner.prediction.throughput.estimated import MOST_PESSIMISM, estimated_profile, known_speed, widened
from llm_planner.robots.library import RobotLibrary

ROBOTS = RobotLibrary()
KNOWN = "estimate:Nvidia H100 GPU/1/vLLM/meta-llama/Meta-Llama-3-8B"
UNKNOWN = "estimate:AMD MI250 GPU/1/TensorRT-LLM/Deci/DeciLM-7B"
OBJECTIVE = Objective(slo_s=0.5, share=0.9)


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


@pytest.mark.parametrize("name", ["estimate:", "estimate:A/B/C/D", "estimate:A/0/vLLM/x", "estimate:A/1/vLLM"])
def test_other_names_are_refused(name):
    with pytest.raises(PlannerError, match="HARDWARE/DEVICES/FRAMEWORK/MODEL") as caught:
        estimated_profile(name)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_room_shrinks_as_robots_come_and_is_wider_for_a_guess():
    known, guessed = (build_room(name, 16, ROBOTS) for name in (KNOWN, UNKNOWN))
    empty = known.left({}, "tello", OBJECTIVE)
    busy = known.left({"tello": 20, "indy7": 4}, "tello", OBJECTIVE)
    assert empty.num_robots_low <= empty.num_robots <= empty.num_robots_high
    assert busy.num_robots < empty.num_robots
    assert 0.0 < empty.utility <= 1.0
    unsure = guessed.left({}, "tello", OBJECTIVE)
    assert unsure.confidence < empty.confidence
    assert unsure.num_robots_low < unsure.num_robots


def test_a_measured_profile_has_no_interval():
    left = build_room("llama3-8b-rtx4090", 16, ROBOTS).left({}, "tello", OBJECTIVE)
    assert left.num_robots_low == left.num_robots == left.num_robots_high > 0
    assert left.confidence == 1.0


def test_refusals_have_numbers():
    with pytest.raises(PlannerError, match=r"engine\.profile"):
        build_room("", 16, ROBOTS)
    with pytest.raises(PlannerError) as caught:
        build_room("llama3-8b-rtx4090", 16, ROBOTS).left({}, "unicorn", OBJECTIVE)
    assert caught.value.code is ErrorCode.UNKNOWN_ROBOT_MODEL


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
