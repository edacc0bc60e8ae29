"""Starts the planner and simulated robots: `ros2 launch llm_planner fleet_sim.launch.py drones:=3 arms:=1`.

The robots are told what to do by a scenario file, or through their service `instruct`.
"""

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from launch import LaunchContext, LaunchDescription
from llm_planner.ros.composition import Composition, World, is_emulated

ARGUMENTS = {
    "drones": ("3", "How many Tello drones: drone_1, drone_2, ..."),
    "arms": ("1", "How many Indy7 arms: arm_1, ..."),
    "scenario": ("", "A YAML file with instructions (config/scenario_example.yaml shows one); none if empty."),
    "time_scale": ("1.0", "How much faster than real time the robots live."),
    "tellos": (
        "",
        "Addresses of real or emulated Tellos for the first drones, with commas between; the rest is simulated.",
    ),
    "sim": ("kinematic", "What simulated robots live in: kinematic, or mujoco for bodies in physics."),
    "world": ("", "With sim:=mujoco: a bundled world (house, table), or a YAML file; empty stages if empty."),
    "world_port": ("8870", "With sim:=mujoco: TCP port of the world, on loopback."),
    "seed": ("0", "Seed of the noise of all durations; each robot adds its number."),
}


def start_robots(context: LaunchContext) -> list[Node]:
    values = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    kinds = [("drone", "tello", int(values["drones"])), ("arm", "indy7", int(values["arms"]))]
    robots = [(f"{kind}_{i + 1}", model) for kind, model, count in kinds for i in range(count)]
    tellos = [address.strip() for address in values["tellos"].split(",") if address.strip()][: int(values["drones"])]
    real = [
        {"driver": "tello", "address": address, "take_off": True, "allow_world": is_emulated(address)}
        for address in tellos
    ]
    is_physical = values["sim"] == "mujoco"
    if values["sim"] not in ("kinematic", "mujoco"):
        raise ValueError(f"sim is {values['sim']!r}; it must be kinematic or mujoco")
    simulated = {"driver": "mujoco", "address": f"127.0.0.1:{values['world_port']}"} if is_physical else {}
    bodies = [*real, *(simulated for _ in robots[len(real) :])]
    fleet = Composition(
        drones=int(values["drones"]),
        arms=int(values["arms"]),
        tellos=tuple(tellos),
        world=World(values["world"], int(values["world_port"])) if is_physical else None,
    )
    world = [_world([f"{name}:{model}" for name, model in robots[len(real) :]], values)] if is_physical else []
    return world + [
        Node(
            package="llm_planner",
            executable="robot_node",
            name=name,
            parameters=[
                {
                    "robot_model": model,
                    "time_scale": float(values["time_scale"]),
                    "seed": int(values["seed"]) + number,
                    "scenario": values["scenario"],
                    **body,
                    **fleet.home(number),
                }
            ],
            output="screen",
            emulate_tty=True,
        )
        for number, ((name, model), body) in enumerate(zip(robots, bodies, strict=True))
    ]


def _world(robots: list[str], values: dict[str, str]) -> Node:
    """Returns the node that owns the bodies of all robots."""
    return Node(
        package="llm_planner",
        executable="world_node",
        name="world",
        parameters=[
            {
                **({"robots": robots} if robots else {}),
                "world": values["world"],
                "port": int(values["world_port"]),
                "time_scale": float(values["time_scale"]),
                "seed": int(values["seed"]),
            }
        ],
        output="screen",
        emulate_tty=True,
    )


def generate_launch_description() -> LaunchDescription:
    arguments = [DeclareLaunchArgument(n, default_value=v, description=d) for n, (v, d) in ARGUMENTS.items()]
    server = Path(get_package_share_directory("llm_planner")) / "launch" / "edge_server.launch.py"
    return LaunchDescription(
        [
            *arguments,
            IncludeLaunchDescription(PythonLaunchDescriptionSource(str(server))),  # takes model, policy, ... as well
            OpaqueFunction(function=start_robots),
        ]
    )
