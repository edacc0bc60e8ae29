# SPDX-License-Identifier: Apache-2.0
"""``llm-planner worlds``: which worlds there are for robots with bodies, and a picture of one."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from llm_planner.cli.output import console, writing
from llm_planner.core.errors import ErrorCode, PlannerError

AZIMUTH_DEG, ELEVATION_DEG = 125.0, -52.0


def worlds(
    name: Annotated[str | None, typer.Argument(help="Check this world: a bundled one, or a YAML file.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw it into this PNG file, without a window.")] = None,
    drones: Annotated[int, typer.Option(min=0, max=100, help="Tellos that hover in it.")] = 4,
    arms: Annotated[int, typer.Option(min=0, max=100, help="Arms that stand in it.")] = 2,
    after_s: Annotated[float, typer.Option(min=0.0, help="Let this many seconds pass first.")] = 12.5,
    look_at: Annotated[str, typer.Option(help="X,Y,Z in the middle of the picture.")] = "6.6,3.2,0.4",
    distance: Annotated[float, typer.Option(min=0.1, help="Of the camera from there, in metres.")] = 12.5,
    azimuth: Annotated[float, typer.Option(help="Heading of the camera in degrees.")] = AZIMUTH_DEG,
    elevation: Annotated[float, typer.Option(help="Of the camera in degrees; negative looks down.")] = ELEVATION_DEG,
) -> None:
    """List the worlds for robots with bodies, check one, or draw it (needs MuJoCo).

    Example: llm-planner worlds

    Example: llm-planner worlds house
    """
    from llm_planner.robots.library import RobotLibrary
    from llm_planner.robots.model import Pose
    from llm_planner.sim.physics.camera import render, save
    from llm_planner.sim.physics.fleet import build_fleet
    from llm_planner.sim.physics.port import LocalPort
    from llm_planner.sim.physics.world_file import load_world_file, world_names

    if name is None:
        if picture is not None:
            raise PlannerError(ErrorCode.INVALID_CONFIG, "--picture draws one world; name it, such as house")
        table = Table("world", "drones", "arms", "bodies", "walkers", "description")
        for known in map(load_world_file, world_names()):
            counts = (known.drones, known.arms, known.bodies, known.walkers)
            table.add_row(known.name, *(str(len(each)) for each in counts), known.description)
        console.print(table, markup=False)
        return
    world_file, library = load_world_file(name), RobotLibrary()
    models = {f"drone_{n + 1}": library.get("tello") for n in range(min(drones, len(world_file.drones)))}
    models |= {f"arm_{n + 1}": library.get("indy7") for n in range(min(arms, len(world_file.arms)))}
    world = build_fleet(models, world_file)
    for number, robot in enumerate(world.drones):
        LocalPort(world, robot, models[robot]).enter((), Pose(z_m=1.0 + 0.15 * (number % 4)))
    console.print(f"{world_file.name}: {len(world.scene.things)} things, nothing overlaps", markup=False)
    if picture is not None:
        world.advance(after_s)
        shown = render(world, at_m=_point(look_at), distance_m=distance, azimuth_deg=azimuth, elevation_deg=elevation)
        with writing(picture):
            save(shown, picture)
        console.print(f"wrote {picture}")


def _point(text: str) -> tuple[float, float, float]:
    try:
        x, y, z = (float(word) for word in text.split(","))
    except ValueError as error:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"--look-at is {text!r}; give X,Y,Z in metres") from error
    return x, y, z
