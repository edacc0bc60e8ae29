"""The launch files declare their arguments and start their nodes; launch is not on PyPI, so this may be skipped."""

import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.ros
LAUNCH = Path(__file__).resolve().parents[2] / "launch"
EDGE_SERVER = {
    *("model", "policy", "backend", "base_url", "config", "name", "namespace"),
    *("metrics_port", "dashboard", "dashboard_port"),
}

pytest.importorskip("launch", reason="launch is not installed: it is not on PyPI")
pytest.importorskip("launch_ros", reason="launch_ros is not installed: it is not on PyPI")

from launch.actions import DeclareLaunchArgument, OpaqueFunction  # noqa: E402

from launch import LaunchContext  # noqa: E402 -- after the check


@pytest.mark.parametrize(
    ("name", "arguments", "num_nodes"),
    [
        ("edge_server", EDGE_SERVER, 1),
        ("cluster_node", {"cluster", "node"}, 1),
        ("gazebo", {"world", "drones", "arms", "gui", "scenario"}, 4),
        ("fleet_sim", {"drones", "arms", "scenario", "time_scale", "seed", "tellos", "sim", "world", "world_port"}, 4),
    ],
)
def test_arguments_and_nodes(name, arguments, num_nodes):
    description = runpy.run_path(str(LAUNCH / f"{name}.launch.py"))["generate_launch_description"]()
    declared = [entity for entity in description.entities if isinstance(entity, DeclareLaunchArgument)]
    assert {argument.name for argument in declared} == arguments
    context = LaunchContext()
    for argument in declared:
        argument.execute(context)
    (start,) = (entity for entity in description.entities if isinstance(entity, OpaqueFunction))
    assert len(start.execute(context)) == num_nodes


def test_bodies_in_physics_get_a_world():
    description = runpy.run_path(str(LAUNCH / "fleet_sim.launch.py"))["generate_launch_description"]()
    context = LaunchContext()
    for entity in description.entities:
        if isinstance(entity, DeclareLaunchArgument):
            entity.execute(context)
    (start,) = (entity for entity in description.entities if isinstance(entity, OpaqueFunction))
    context.launch_configurations["sim"] = "mujoco"
    assert len(start.execute(context)) == 5
    context.launch_configurations["sim"] = "paper"
    with pytest.raises(ValueError, match="must be kinematic or mujoco"):
        start.execute(context)
