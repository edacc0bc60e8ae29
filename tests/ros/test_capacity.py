# SPDX-License-Identifier: Apache-2.0
"""The GetCapacity service: answers of a planner whose engine has a profile, refusals of one that has none."""

import pytest

from llm_planner.core.errors import ErrorCode
from tests.ros.test_planner_node import Manager

pytestmark = pytest.mark.ros


@pytest.fixture
def ask(ros, start_planner):
    from llm_planner.srv import GetCapacity

    managers = []

    def call(planner, **request):
        managers.append(Manager(planner))
        return managers[-1].call(GetCapacity, "get_capacity", GetCapacity.Request(**request))

    yield call
    for manager in managers:
        manager.stop()


def test_a_profile_tells_how_many_robots_fit(start_planner, ask):
    start_planner("fast_planner", **{"engine.profile": "llama3-8b-rtx4090"})
    answer = ask("fast_planner", robot_model="tello", slo_s=0.5, share=0.9)
    assert answer.error_code == ErrorCode.NONE
    assert answer.num_robots > 0
    assert answer.num_robots_low == answer.num_robots == answer.num_robots_high
    assert answer.confidence == 1.0
    assert answer.num_active == 0
    unknown = ask("fast_planner", robot_model="unicorn")
    assert unknown.error_code == ErrorCode.UNKNOWN_ROBOT_MODEL


def test_without_a_profile_it_says_what_to_set(start_planner, ask):
    start_planner("blind_planner")
    answer = ask("blind_planner", robot_model="tello")
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert "engine.profile" in answer.error_msg
