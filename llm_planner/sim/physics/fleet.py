# SPDX-License-Identifier: Apache-2.0
"""A whole fleet in one world: robots at the places of a world file, or each on a stage of its own in the open."""

from collections.abc import Mapping

from llm_planner.robots.model import RobotKind, RobotModel
from llm_planner.sim.physics.world import PhysicsWorld
from llm_planner.sim.physics.world_file import WorldFile, home_of


def build_fleet(
    models: Mapping[str, RobotModel], world_file: WorldFile | None, *, wind_m_per_s: float = 0.3, seed: int = 0
) -> PhysicsWorld:
    """Returns a world with robots in it, by name.

    Args:
        models: Of the robots, by their names.
        world_file: Where they are; None for an empty stage for each.
        wind_m_per_s: Standard deviation of the wind along x and y.
        seed: Of all chance.

    Raises:
        PlannerError: INVALID_CONFIG if there are more robots than places, or things overlap.
    """
    world = PhysicsWorld(wind_m_per_s=wind_m_per_s, seed=seed)
    counts = {True: 0, False: 0}
    for name, model in models.items():
        is_arm = model.kind is RobotKind.ARM
        world.add_robot(name, model, home_of(world_file, is_arm=is_arm, number=counts[is_arm]))
        counts[is_arm] += 1
    if world_file is not None:
        world.change(put=world_file.things)
    return world
