# SPDX-License-Identifier: Apache-2.0
"""What stands around a simulated robot that was given no world: a few things to try objects with."""

from llm_planner.robots.model import RobotKind
from llm_planner.robots.world import ObjectRole, WorldObject

_TABLE = (
    WorldObject(name="table", role=ObjectRole.AREA, is_fixed=True, position_m=(0.45, 0.0, 0.0), size_m=(0.6, 1.3, 0.0)),
    WorldObject(
        name="bin", role=ObjectRole.CONTAINER, is_fixed=True, position_m=(0.1, 0.6, 0.05), size_m=(0.12, 0.12, 0.1)
    ),
    WorldObject(name="plate", kind="plate", position_m=(0.5, -0.3, 0.01), size_m=(0.2, 0.2, 0.02)),
    WorldObject(name="cup", kind="cup", position_m=(0.45, 0.0, 0.04), size_m=(0.06, 0.06, 0.08)),
    WorldObject(name="red_box", kind="box", position_m=(0.45, 0.2, 0.025)),
)
_ROOM = (
    WorldObject(name="chair", kind="chair", position_m=(3.0, 0.4, 1.0), size_m=(0.4, 0.4, 0.8)),
    WorldObject(name="table", kind="table", position_m=(4.0, -1.2, 1.0), size_m=(0.8, 0.8, 0.7)),
    WorldObject(name="cat", kind="cat", position_m=(-2.5, 1.5, 1.0), size_m=(0.4, 0.2, 0.3)),
)


def default_scene(kind: RobotKind) -> tuple[WorldObject, ...]:
    """Returns the things around a robot of a kind: on an arm's table, or in the room of any other."""
    return _TABLE if kind is RobotKind.ARM else _ROOM
