# SPDX-License-Identifier: Apache-2.0
"""Parameters that are read once cannot be set later: ROS says so instead of accepting what has no effect."""

import importlib.util
from pathlib import Path

import pytest
import rclpy
from rclpy.parameter import Parameter

from llm_planner.core.config import NodeSettings
from llm_planner.core.errors import PlannerError
from llm_planner.ros import parameters
from llm_planner.ros.body import BodySettings
from llm_planner.ros.dashboard_node import DashboardSettings
from llm_planner.ros.planner_node import STATUS_PERIOD_S
from llm_planner.ros.recorder_node import RecorderSettings
from llm_planner.ros.remote_goal import HEARTBEAT_PERIOD_S
from llm_planner.ros.robot_node import RobotSettings
from llm_planner.ros.world_node import WorldSettings

pytestmark = pytest.mark.ros
ROOT = Path(__file__).resolve().parents[2]


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


@pytest.mark.parametrize(
    ("settings", "name", "period_s"),
    [(NodeSettings, "client_timeout_s", HEARTBEAT_PERIOD_S), (RobotSettings, "server_timeout_s", STATUS_PERIOD_S)],
)
def test_signs_of_life_that_come_late_end_no_goal(ros, settings, name, period_s):
    """Two may be missed."""
    with pytest.raises(PlannerError, match=name):
        start_with(settings, name, 3 * period_s - 0.1)
    assert getattr(start_with(settings, name, 3 * period_s), name) == 3 * period_s


def start_with(settings, name, value):
    node = rclpy.create_node("reader", parameter_overrides=[Parameter(name, value=value)])
    try:
        return parameters.declare(node, settings)
    finally:
        node.destroy_node()


def test_page_and_example_show_the_parameters_as_they_are():
    """`make parameters` writes them again."""
    specification = importlib.util.spec_from_file_location("parameters_page", ROOT / "scripts" / "parameters.py")
    script = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(script)
    assert script.PAGE.read_text(encoding="utf-8") == script.page()
    assert script.EXAMPLE.read_text(encoding="utf-8") == script.example()


def test_a_whole_number_is_a_number(ros):
    name = "waits_for_plan_s"
    for value, problem in ((0, None), (0.5, None), (-1, "not in"), ("0", "not a number"), (True, "not a number")):
        node = rclpy.create_node("reader", parameter_overrides=[Parameter(name, value=value)])
        try:
            if problem is None:
                parameters.declare_config(node)
                assert parameters.read_config(node).waits_for_plan_s == value
            else:
                with pytest.raises(PlannerError, match=problem):
                    parameters.declare_config(node)
        finally:
            node.destroy_node()
