# SPDX-License-Identifier: Apache-2.0
"""What is said of emergencies: shares of all that were asked, whatever became of them."""

import pytest

from llm_planner.core.errors import ErrorCode
from llm_planner_lab.ros.latency_urgent import Emergency, ask, summarize

pytestmark = pytest.mark.ros


def served(first_s, response_time_s):
    return Emergency(first_s, first_s + 0.01, ErrorCode.CANCELLED, response_time_s)


def test_shares_count_all_requests():
    refused = [Emergency(None, ended_s, ErrorCode.BUDGET_INFEASIBLE, None) for ended_s in (0.02, 0.03)]
    summary = summarize([served(0.1, 0.09), served(0.25, 0.19), *refused], 0.2)
    assert summary["share_served"] == 0.5
    assert summary["share_in_budget_at_the_robot"] == 0.25
    assert summary["share_in_budget_at_the_planner"] == 0.5
    assert summary["refused"] == {"BUDGET_INFEASIBLE": 2}
    assert summary["refused_early_ms"] == 170.0  # the latest one
    assert summary["first_segment"]["num_samples"] == summary["refusal"]["num_samples"] == 2


def test_without_a_budget_there_is_nothing_to_keep():
    summary = summarize([served(3.0, 2.9)], None)
    assert summary["first_segment"]["p50_ms"] == 3000.0
    assert "share_in_budget_at_the_robot" not in summary


def test_an_emergency_is_timed_and_called_off(planner, start_robot):
    robot = start_robot("latency_robot")
    assert robot.client.wait_for_planner(10.0)
    emergency = ask(robot.client, "hang mf(20);", 5.0)
    assert emergency.code is ErrorCode.CANCELLED
    assert 0 < emergency.first_s < emergency.ended_s
    emergency = ask(robot.client, " ", 5.0)
    assert (emergency.first_s, emergency.code) == (None, ErrorCode.EMPTY_INSTRUCTION)
