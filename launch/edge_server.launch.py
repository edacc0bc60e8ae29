# SPDX-License-Identifier: Apache-2.0
"""Starts the planner on the edge server: `ros2 launch llm_planner edge_server.launch.py model:=/path/to/checkpoint`.

It sets who can talk to the nodes (`network:=`), for itself and for all that a file that includes it starts afterwards.
"""

import os
from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch.actions import (
    DeclareLaunchArgument,
    LogInfo,
    OpaqueFunction,
    SetEnvironmentVariable,
    UnsetEnvironmentVariable,
)
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from launch import Action, LaunchContext, LaunchDescription
from llm_planner.ros import launching
from llm_planner.ros.network import Network, environment

RESPAWN_DELAY_S = 2.0


def check(context: LaunchContext) -> None:
    launching.require_known("edge_server.launch.py", context.argv, launching.PLANNER)
    _parameters(_values(context))


def set_network(context: LaunchContext) -> list[Action]:
    network = Network(LaunchConfiguration("network").perform(context))
    chosen = environment(network, os.environ)
    changed = [SetEnvironmentVariable(n, value) for n, value in chosen.items() if os.environ.get(n) != value]
    dropped = [UnsetEnvironmentVariable(name) for name in os.environ if name not in chosen]
    return [LogInfo(msg=network.meaning), *changed, *dropped]


def start_planner(context: LaunchContext) -> list[Node]:
    values = _values(context)
    dashboard = Node(
        package="llm_planner",
        executable="dashboard_node",
        namespace=values["namespace"],
        parameters=[{"planner": launching.full_name(values), "port": int(values["dashboard_port"])}],
        output="screen",
        emulate_tty=True,
    )
    return [
        *([dashboard] if values["dashboard"].lower() == "true" else []),
        Node(
            package="llm_planner",
            executable="planner_node",
            name=values["name"],
            namespace=values["namespace"],
            parameters=_parameters(values),
            output="screen",
            emulate_tty=True,
            respawn=True,
            respawn_delay=RESPAWN_DELAY_S,
            sigterm_timeout="6",  # the node needs up to five seconds to end its goals and the engine
        ),
    ]


def _values(context: LaunchContext) -> dict[str, str]:
    return {name: LaunchConfiguration(name).perform(context) for name in launching.PLANNER}


def _parameters(values: dict[str, str]) -> list[str | dict[str, object]]:
    share = Path(get_package_share_directory("llm_planner"))
    return launching.planner_parameters(values, share / "config" / "planner.yaml")


def generate_launch_description() -> LaunchDescription:
    arguments = [DeclareLaunchArgument(n, default_value=v, description=d) for n, (v, d) in launching.PLANNER.items()]
    steps = [OpaqueFunction(function=step) for step in (check, set_network, start_planner)]
    return LaunchDescription([*arguments, *steps])
