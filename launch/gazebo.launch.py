# SPDX-License-Identifier: Apache-2.0
"""Starts Gazebo (Harmonic or newer) with a fleet, its bridge, the planner and the robots' nodes.

    ros2 launch llm_planner gazebo.launch.py world:=house drones:=2 arms:=1

Needs `ros-$ROS_DISTRO-ros-gz`. Worlds and bodies are written from the same YAML as for MuJoCo.
"""

import os
import tempfile
from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch.actions import DeclareLaunchArgument, ExecuteProcess, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from launch import LaunchContext, LaunchDescription
from llm_planner.ros import launching
from llm_planner.sim.gazebo.files import fleet, write_world

ARGUMENTS = {**launching.PLANNER, **launching.GAZEBO}


def check(context: LaunchContext) -> None:
    launching.require_known("gazebo.launch.py", context.argv, ARGUMENTS)
    values = _values(context)
    drones, arms = launching.gazebo_robots(values)
    launching.warn_of_absent_robots(launching.scenario(values), fleet(drones, arms))
    with tempfile.TemporaryDirectory() as directory:
        write_world(Path(directory), values["world"], drones=drones, arms=arms)
    launching.require_gazebo(os.environ.get("ROS_DISTRO", "jazzy"))


def start(context: LaunchContext) -> list[ExecuteProcess]:
    values = _values(context)
    drones, arms = launching.gazebo_robots(values)
    directory = Path(tempfile.mkdtemp(prefix="llm_planner_gazebo_"))
    world, bridge = write_world(directory, values["world"], drones=drones, arms=arms)
    options = ["-r"] if launching.flag(values, "gui") else ["-r", "-s", "--headless-rendering"]
    gazebo = ExecuteProcess(cmd=["gz", "sim", *options, str(world)], output="screen")
    carrier = Node(
        package="ros_gz_bridge",
        executable="parameter_bridge",
        name="gazebo_bridge",
        parameters=[{"config_file": str(bridge)}],
        output="screen",
    )
    robots = [
        Node(
            package="llm_planner",
            executable="robot_node",
            name=name,
            namespace=values["namespace"],
            parameters=[
                {
                    "robot_model": model.name,
                    "planner": launching.full_name(values),
                    "driver": "gazebo",
                    "address": values["world"],
                    "seed": number,
                    "scenario": str(launching.scenario(values) or ""),
                }
            ],
            output="screen",
            emulate_tty=True,
        )
        for number, (name, model) in enumerate(fleet(drones, arms).items())
    ]
    return [gazebo, carrier, *robots]


def _values(context: LaunchContext) -> dict[str, str]:
    return {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}


def generate_launch_description() -> LaunchDescription:
    declared = [DeclareLaunchArgument(name, default_value=d, description=text) for name, (d, text) in ARGUMENTS.items()]
    launch_dir = Path(get_package_share_directory("llm_planner")) / "launch"
    planner = IncludeLaunchDescription(PythonLaunchDescriptionSource(str(launch_dir / "edge_server.launch.py")))
    steps = [OpaqueFunction(function=check), planner, OpaqueFunction(function=start)]  # a mistake starts nothing
    return LaunchDescription([*declared, *steps])
