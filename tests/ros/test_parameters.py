# SPDX-License-Identifier: Apache-2.0
"""Parameters that are read once cannot be set later: ROS says so instead of accepting what has no effect."""

import pytest
import rclpy
from rclpy.parameter import Parameter

from llm_planner.ros import parameters
from llm_planner.ros.body import BodySettings
from llm_planner.ros.dashboard_node import DashboardSettings
from llm_planner.ros.node_settings import NodeSettings
from llm_planner.ros.recorder_node import RecorderSettings
from llm_planner.ros.robot_node import RobotSettings
from llm_planner.ros.world_node import WorldSettings

pytestmark = pytest.mark.ros


@pytest.mark.parametrize(
    "settings", [NodeSettings, RobotSettings, BodySettings, DashboardSettings, RecorderSettings, WorldSettings]
)
def test_what_is_read_once_cannot_be_set(ros, settings):
    node = rclpy.create_node("reader")
    try:
        given = parameters.declare(node, settings)
        for name in parameters.names(settings):
            (result,) = node.set_parameters([Parameter(name, value=node.get_parameter(name).value)])
            assert not result.successful
            assert name in result.reason
        assert given == settings(**{name: node.get_parameter(name).value for name in parameters.names(settings)})
    finally:
        node.destroy_node()


def test_what_is_read_once_can_be_given_at_the_start(ros):
    node = rclpy.create_node("reader", parameter_overrides=[Parameter("planner", value="/brain")])
    try:
        assert parameters.declare(node, RecorderSettings).planner == "/brain"
    finally:
        node.destroy_node()
