# SPDX-License-Identifier: Apache-2.0
"""Runs one machine of a cluster: `ros2 launch llm_planner cluster_node.launch.py cluster:=cluster.yaml node:=1`."""

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration

from launch import LaunchContext, LaunchDescription
from llm_planner.backends.cluster.description import load_cluster
from llm_planner.ros import launching

ARGUMENTS = {
    "cluster": ("", "A cluster file; config/cluster.yaml of the package if empty."),
    "node": ("0", "Which machine of the file this is; 0 is the head, which answers HTTP."),
}


def start_node(context: LaunchContext) -> list[ExecuteProcess]:
    launching.require_known("cluster_node.launch.py", context.argv, ARGUMENTS)
    values = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    share = Path(get_package_share_directory("llm_planner"))
    file = values["cluster"] or str(share / "config" / "cluster.yaml")
    node = launching.number(values, "node", 0, len(load_cluster(Path(file)).nodes) - 1)
    command = ["llm-planner", "cluster", "run", file, "--node", str(node)]
    return [ExecuteProcess(cmd=command, output="screen", emulate_tty=True, on_exit=Shutdown())]


def generate_launch_description() -> LaunchDescription:
    arguments = [DeclareLaunchArgument(n, default_value=v, description=d) for n, (v, d) in ARGUMENTS.items()]
    return LaunchDescription([*arguments, OpaqueFunction(function=start_node)])
