# SPDX-License-Identifier: Apache-2.0
"""The files that Gazebo and its bridge start from."""

from pathlib import Path

from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.model import RobotModel
from llm_planner.sim.gazebo.world import bridge_text, world_text
from llm_planner.sim.physics.world_file import load_world_file

DRONE, ARM = "tello", "indy7"


def fleet(drones: int, arms: int) -> dict[str, RobotModel]:
    """Returns the models of a fleet, by the names of its robots."""
    library = RobotLibrary()
    names = [(f"drone_{n + 1}", DRONE) for n in range(drones)] + [(f"arm_{n + 1}", ARM) for n in range(arms)]
    return {name: library.get(model) for name, model in names}


def write_world(directory: Path, world: str, *, drones: int, arms: int) -> tuple[Path, Path]:
    """Writes ``world.sdf`` and ``bridge.yaml``; returns their paths.

    Args:
        directory: Made if it is not there.
        world: Name of a bundled world, a YAML file, or empty for empty stages.
        drones: How many.
        arms: How many.

    Raises:
        PlannerError: INVALID_CONFIG for a world that is not there, or has too few places.
    """
    models, world_file = fleet(drones, arms), load_world_file(world) if world else None
    texts = {"world.sdf": world_text(models, world_file), "bridge.yaml": bridge_text(models, world_file)}
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (directory / name).write_text(text, encoding="utf-8")
    return directory / "world.sdf", directory / "bridge.yaml"
