# SPDX-License-Identifier: Apache-2.0
"""``llm-planner robot``: one robot node in this process, kinematic or real."""

import os
from typing import Annotated

import typer

from llm_planner.cli.options import ModelsOption, PlannerOption, RobotOption
from llm_planner.cli.output import console
from llm_planner.robot_connection import DRIVERS, NODE_DRIVERS
from llm_planner.ros.network import Network, environment


def robot(
    name: Annotated[str, typer.Argument(help="Name of the robot and its node, e.g. drone_1.")],
    model: RobotOption = "tello",
    models: ModelsOption = None,
    driver: Annotated[
        str, typer.Option(help=f"What moves it: {', '.join((*DRIVERS, *NODE_DRIVERS))}, or package.module:Class.")
    ] = "kinematic",
    address: Annotated[
        str,
        typer.Option(help="IPv4 of a real robot (a Tello's: .10.1); HOST:PORT of mujoco's world; name of gazebo's."),
    ] = "",
    take_off: Annotated[bool, typer.Option("--take-off", help="A real drone takes off at once: plans begin there.")] = (
        False
    ),
    allow_world: Annotated[
        bool,
        typer.Option("--allow-world", help="Instructions may tell a real robot its world and its pose."),
    ] = False,
    tool_length: Annotated[
        float,
        typer.Option(min=0.0, help="Of a gripper from the flange, in m; a real indy7 does not connect without it."),
    ] = 0.0,
    planner: PlannerOption = "/planner",
    time_scale: Annotated[float, typer.Option(min=0.01, help="How much faster than real time; 1 if real.")] = 1.0,
    network: Annotated[
        Network | None,
        typer.Option(help="Who can talk to it: this host only, or the whole subnet; else as ROS's settings say."),
    ] = None,
) -> None:
    """Start a robot node until Ctrl-C; a planner must run somewhere (`llm-planner up --drones 0 --arms 0`).

    The same as `ros2 run llm_planner robot_node` with these parameters.

    Example: llm-planner robot drone_1

    Example: llm-planner robot arm_1 --robot indy7

    Example: llm-planner robot rover_1 --robot rover --models my_robots --driver my_rover.driver:Rover --network host
    """
    if network is not None:  # before anything loads ROS
        chosen = environment(network, os.environ)
        os.environ.clear()
        os.environ.update(chosen)
        console.print(network.meaning, soft_wrap=True)
    from llm_planner.ros import robot_node
    from llm_planner.ros.commander import robot_name
    from llm_planner.ros.composition import ParameterValue, parameter_words

    namespace, _, base = f"/{robot_name(name)}".rpartition("/")
    renamed = [f"__node:={base}", *([f"__ns:={namespace}"] if namespace else [])]
    parameters: dict[str, ParameterValue] = {
        "robot_model": model,
        "driver": driver,
        "planner": planner,
        "time_scale": float(time_scale),
        "tool_length_m": float(tool_length),
        "take_off": take_off,
        "allow_world": allow_world,
        **({"address": address} if address else {}),
        **({"robot_models": [str(path.absolute()) for path in models]} if models else {}),
    }
    renaming = [word for rule in renamed for word in ("-r", rule)]
    raise typer.Exit(robot_node.main(["--ros-args", *renaming, *parameter_words(parameters)]))
