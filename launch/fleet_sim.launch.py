# SPDX-License-Identifier: Apache-2.0
"""Starts the planner and simulated robots: `ros2 launch llm_planner fleet_sim.launch.py drones:=3 arms:=1`.

The robots are told what to do by a scenario file, or through their service `instruct`. `namespace:=site_b` moves the
whole fleet, `name:=brain` the planner; the robots find it.
"""

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from launch import LaunchContext, LaunchDescription
from llm_planner.ros import launching

ARGUMENTS = {**launching.PLANNER, **launching.FLEET}


def check(context: LaunchContext) -> None:
    launching.require_known("fleet_sim.launch.py", context.argv, ARGUMENTS)
    composition = launching.fleet(_values(context))
    launching.warn_of_absent_robots(composition.scenario, [robot.name for robot in composition.robots])
    if composition.world is not None:
        launching.require_free_port(composition.world.port)


def start_robots(context: LaunchContext) -> list[Node]:
    values = _values(context)
    return [
        Node(
            package="llm_planner",
            executable=node.executable,
            name=node.name,
            namespace=values["namespace"],
            parameters=[dict(node.parameters)],
            output="screen",
            emulate_tty=True,
        )
        for node in launching.fleet(values).nodes()
    ]


def _values(context: LaunchContext) -> dict[str, str]:
    return {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}


def generate_launch_description() -> LaunchDescription:
    arguments = [DeclareLaunchArgument(n, default_value=v, description=d) for n, (v, d) in ARGUMENTS.items()]
    server = Path(get_package_share_directory("llm_planner")) / "launch" / "edge_server.launch.py"
    return LaunchDescription(
        [
            *arguments,
            OpaqueFunction(function=check),  # before the planner starts
            IncludeLaunchDescription(PythonLaunchDescriptionSource(str(server))),
            OpaqueFunction(function=start_robots),
        ]
    )
