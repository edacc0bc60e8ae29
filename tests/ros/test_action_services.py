# SPDX-License-Identifier: Apache-2.0
"""Replies reach a client that is slow for a moment, whatever the planner answers to others meanwhile."""

import pytest
import rclpy

from llm_planner.ros.guarded_executor import GuardedExecutor
from llm_planner.ros.planner_client import PlannerClient

pytestmark = pytest.mark.ros
NUM_OTHERS = 30  # replies; the usual depth of a service is 10


def test_a_slow_client_gets_its_reply_behind_those_to_others(planner, start_robot):
    other = start_robot("quick_robot")
    assert other.client.wait_for_planner(10.0)
    node = rclpy.create_node("slow_robot")
    executor = GuardedExecutor()
    executor.add_node(node)
    try:
        client = PlannerClient(node, "tello")
        while not client.is_planner_active:
            executor.spin_once(0.05)
        handle = client.plan("hang mf(20);")
        pending = client._endpoints.action._pending_goal_requests
        while not pending:
            executor.spin_once(0.05)
        for _ in range(NUM_OTHERS):  # meanwhile it takes nothing
            other.client.plan(" ").result(10.0)
        for _ in range(200):
            executor.spin_once(0.01)
        assert not pending
        handle.cancel()
    finally:
        executor.shutdown()
        node.destroy_node()
