"""Starts Gazebo (Harmonic or newer) with a fleet, its bridge, the planner and the robots' nodes.

    ros2 launch llm_planner gazebo.launch.py world:=house drones:=2 arms:=1

Needs `ros-$ROS_DISTRO-ros-gz`. Worlds and bodies are written from the same YAML as for MuJoCo.
"""

import tempfile
from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch.actions import DeclareLaunchArgument, ExecuteProcess, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from launch import LaunchContext, LaunchDescription
from llm_planner.sim.gazebo.files import fleet, write_world

ARGUMENTS = {
    "world": ("house", "A bundled world (house, table), a YAML file, or empty stages."),
    "drones": ("1", "How many Tello drones: drone_1, drone_2, ..."),
    "arms": ("1", "How many Indy7 arms: arm_1, ..."),
    "gui": ("true", "Whether Gazebo opens a window."),
    "scenario": ("", "A YAML file with instructions (config/scenario_example.yaml shows one); none if empty."),
}


def start(context: LaunchContext) -> list[ExecuteProcess]:
    values = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    num_drones, num_arms = int(values["drones"]), int(values["arms"])
    directory = Path(tempfile.mkdtemp(prefix="llm_planner_gazebo_"))
    world, bridge = write_world(directory, values["world"], drones=num_drones, arms=num_arms)
    options = ["-r"] if values["gui"] == "true" else ["-r", "-s", "--headless-rendering"]
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
            parameters=[
                {
                    "robot_model": model.name,
                    "driver": "gazebo",
                    "address": values["world"],
                    "seed": number,
                    "scenario": values["scenario"],
                }
            ],
            output="screen",
            emulate_tty=True,
        )
        for number, (name, model) in enumerate(fleet(num_drones, num_arms).items())
    ]
    return [gazebo, carrier, *robots]


def generate_launch_description() -> LaunchDescription:
    declared = [DeclareLaunchArgument(name, default_value=d, description=text) for name, (d, text) in ARGUMENTS.items()]
    launch_dir = Path(get_package_share_directory("llm_planner")) / "launch"
    planner = IncludeLaunchDescription(PythonLaunchDescriptionSource(str(launch_dir / "edge_server.launch.py")))
    return LaunchDescription([*declared, planner, OpaqueFunction(function=start)])
