# SPDX-License-Identifier: Apache-2.0
"""``llm-planner robots describe`` and ``gazebo``: bodies and worlds for other tools, from the robot models' YAML."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from llm_planner.cli.options import ModelsOption, RobotOption
from llm_planner.cli.output import console, writing
from llm_planner.robots.library import RobotLibrary


class Format(Enum):
    """What reads it."""

    URDF = "urdf"
    SDF = "sdf"


def describe(
    robot: RobotOption = "tello",
    kind: Annotated[Format, typer.Option("--format", help="urdf: RViz, MoveIt and others; sdf: Gazebo.")] = Format.URDF,
    models: ModelsOption = None,
    name: Annotated[str, typer.Option(help="Of the robot, and of its topics in Gazebo; its model's if empty.")] = "",
    output: Annotated[Path | None, typer.Option(help="File to write; standard output if not given.")] = None,
) -> None:
    """Print a robot's body as URDF or SDF: masses, shapes, joints and limits of the robot model.

    Example: llm-planner robots describe --robot indy7 --format urdf
    """
    from llm_planner.sim.gazebo.sdf import sdf_text
    from llm_planner.sim.gazebo.urdf import urdf_text

    text = (urdf_text if kind is Format.URDF else sdf_text)(RobotLibrary(models or []).get(robot), name)
    if output is None:
        typer.echo(text, nl=False)
        return
    with writing(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    console.print(f"written: {output}")


def gazebo(
    world: Annotated[str, typer.Option(help="A bundled world (house, table), a YAML file, or empty stages.")] = "",
    drones: Annotated[int, typer.Option(min=0, help="How many Tello drones: drone_1, drone_2, ...")] = 1,
    arms: Annotated[int, typer.Option(min=0, help="How many Indy7 arms: arm_1, ...")] = 1,
    output: Annotated[Path, typer.Option(help="Directory for world.sdf and bridge.yaml.")] = Path("gazebo_world"),
) -> None:
    """Write a world with a fleet for Gazebo, and the configuration of ros_gz_bridge that goes with it.

    Example: llm-planner robots gazebo --output gazebo_world
    """
    from llm_planner.sim.gazebo.files import write_world

    with writing(output):
        paths = write_world(output, world, drones=drones, arms=arms)
    for path in paths:
        console.print(f"written: {path}")
