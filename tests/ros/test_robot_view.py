# SPDX-License-Identifier: Apache-2.0
"""A robot node shows itself, to listeners only."""

import time
from types import SimpleNamespace

import pytest
import rclpy
from std_msgs.msg import String

from llm_planner.core.pose import Pose
from llm_planner.monitoring.robot_view import RobotView
from llm_planner.robots.library import RobotLibrary
from llm_planner.ros import planner_client, qos, robot_node
from llm_planner.ros.robot_view import PERIOD_S, RobotViewPublisher
from tests.ros.nodes import Spinner, wait_until
from tests.ros.test_robot_node import CHAIR, start_operator  # noqa: F401 -- a fixture

pytestmark = pytest.mark.ros


def test_listeners_see_where_it_is_and_what_it_knows_of(planner, start_operator):  # noqa: F811
    operator = start_operator("seen_1")
    operator.instruct("mf(100);mb(50);", [CHAIR])
    operator.outcome()
    time.sleep(2 * PERIOD_S)
    node, received = rclpy.create_node("observer"), []
    node.create_subscription(String, "/seen_1/view", received.append, qos.VIEW)
    spinner = Spinner(node)
    wait_until(lambda: len(received) >= 3, what="views")
    spinner.stop()
    node.destroy_node()
    views = [RobotView.from_json(message.data) for message in received]
    assert [view.number for view in views[:3]] == [1, 2, 3]  # before, there was no listener and nothing was published
    assert views[0].pose.x_m == pytest.approx(0.5, abs=0.15)
    assert (views[0].robot_id, views[0].kind, views[0].is_busy) == ("seen_1", "drone", False)
    assert [thing.name for thing in views[0].things] == ["chair"]


def test_a_robot_whose_fault_is_long_is_still_seen():
    messages = []
    publisher = SimpleNamespace(get_subscription_count=lambda: 1, publish=messages.append)
    robot = SimpleNamespace(
        surroundings=lambda: (Pose(), "cup " * 100, ()),
        is_active=False,
        is_in_reflex=False,
        num_faults=1,
        last_fault="motor controller: " + "x" * 300,
    )
    node = SimpleNamespace(create_publisher=lambda *_: publisher)
    RobotViewPublisher(node, "seen_2", robot, RobotLibrary().get("tello"), "kinematic", None).tick()
    view = RobotView.from_json(messages[0].data)
    assert (view.num_faults, view.last_fault[:16]) == (1, "motor controller")


def running(robot):
    """Returns the periods of a node's timers that run."""
    return sorted(timer.timer_period_ns / 1e9 for timer in robot.timers if not timer.is_canceled())


def test_a_robot_that_is_idle_and_that_nobody_watches_has_one_timer(planner, start_operator):  # noqa: F811
    operator = start_operator("idle_1", time_scale=1.0)
    wait_until(lambda: running(operator.robot) == [robot_node.PERIOD_S])
    node = rclpy.create_node("watcher")
    node.create_subscription(String, "/idle_1/view", lambda _: None, qos.VIEW)
    wait_until(lambda: running(operator.robot) == [PERIOD_S, robot_node.PERIOD_S])
    node.destroy_node()
    wait_until(lambda: running(operator.robot) == [robot_node.PERIOD_S])
    operator.instruct("hang mf(20);")
    wait_until(lambda: running(operator.robot) == [planner_client.TICK_S, robot_node.PERIOD_S])
    operator.call_stop()
    operator.outcome()
    wait_until(lambda: running(operator.robot) == [robot_node.PERIOD_S])
