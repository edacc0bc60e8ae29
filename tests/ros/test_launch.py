# SPDX-License-Identifier: Apache-2.0
"""The launch files declare their arguments and start their nodes; launch is not on PyPI, so this may be skipped."""

import os
import runpy
from pathlib import Path

import pytest

from llm_planner.core.errors import PlannerError
from llm_planner.ros import launching
from llm_planner.ros.network import Network, environment

pytestmark = pytest.mark.ros
LAUNCH = Path(__file__).resolve().parents[2] / "launch"

pytest.importorskip("launch", reason="launch is not installed: it is not on PyPI")
pytest.importorskip("launch_ros", reason="launch_ros is not installed: it is not on PyPI")

from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction  # noqa: E402

from launch import LaunchContext  # noqa: E402 -- after the check


@pytest.mark.parametrize(
    ("name", "arguments", "num_nodes"),
    [
        ("edge_server", launching.PLANNER.keys(), 1),
        ("cluster_node", {"cluster", "node"}, 1),
        ("gazebo", launching.PLANNER.keys() | launching.GAZEBO.keys(), 4),
        ("fleet_sim", launching.PLANNER.keys() | launching.FLEET.keys(), 4),
    ],
)
def test_arguments_and_nodes(name, arguments, num_nodes):
    description = runpy.run_path(str(LAUNCH / f"{name}.launch.py"))["generate_launch_description"]()
    declared = [entity for entity in description.entities if isinstance(entity, DeclareLaunchArgument)]
    assert {argument.name for argument in declared} == arguments
    context = LaunchContext()
    for argument in declared:
        argument.execute(context)
    starts = [entity for entity in description.entities if isinstance(entity, OpaqueFunction)]
    assert len(starts[-1].execute(context)) == num_nodes


def load(name, **given):
    """Returns the description of a launch file, and a context with its arguments."""
    description = runpy.run_path(str(LAUNCH / f"{name}.launch.py"))["generate_launch_description"]()
    context = LaunchContext()
    context.launch_configurations.update(given)
    for entity in description.entities:
        if isinstance(entity, DeclareLaunchArgument):
            entity.execute(context)
    return description, context


@pytest.fixture
def clean_environment():
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.usefixtures("clean_environment")
@pytest.mark.parametrize("network", [None, *Network])
def test_nodes_stay_on_this_host_unless_asked_for_more(network):
    os.environ["ROS_LOCALHOST_ONLY"] = "0"
    expected = environment(network or Network.HOST, os.environ)
    description, context = load("edge_server", **({"network": network.value} if network else {}))
    _, set_network, _ = (entity for entity in description.entities if isinstance(entity, OpaqueFunction))
    actions = set_network.execute(context)
    for action in actions[1:]:  # the first one says so
        action.execute(context)
    assert dict(os.environ) == expected


def test_a_network_that_is_none_is_refused():
    description, context = load("edge_server", network="galaxy")
    check = next(entity for entity in description.entities if isinstance(entity, OpaqueFunction))
    with pytest.raises(PlannerError, match="galaxy"):
        check.execute(context)


def test_a_planner_that_dies_starts_again():
    description, context = load("edge_server")
    start = [entity for entity in description.entities if isinstance(entity, OpaqueFunction)][-1]
    (planner,) = start.execute(context)
    assert planner._ExecuteLocal__respawn
    assert planner._ExecuteLocal__respawn_delay > 0


@pytest.mark.parametrize("name", ["fleet_sim", "gazebo"])
def test_files_with_robots_include_the_planner_before_they_start_any(name):
    kinds = [type(entity) for entity in load(name)[0].entities]
    check, planner, robots = [kind for kind in kinds if kind is not DeclareLaunchArgument]
    assert (check, planner, robots) == (OpaqueFunction, IncludeLaunchDescription, OpaqueFunction)  # it sets the network


def test_bodies_in_physics_get_a_world():
    description = runpy.run_path(str(LAUNCH / "fleet_sim.launch.py"))["generate_launch_description"]()
    context = LaunchContext()
    for entity in description.entities:
        if isinstance(entity, DeclareLaunchArgument):
            entity.execute(context)
    check, start = (entity for entity in description.entities if isinstance(entity, OpaqueFunction))
    context.launch_configurations["sim"] = "mujoco"
    assert len(start.execute(context)) == 5
    context.launch_configurations["sim"] = "paper"
    with pytest.raises(PlannerError, match="must be kinematic or mujoco"):
        check.execute(context)
