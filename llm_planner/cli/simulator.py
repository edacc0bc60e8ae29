# SPDX-License-Identifier: Apache-2.0
"""Which simulator robots live in, as commands offer it."""

import socket
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from llm_planner.core.errors import ErrorCode, PlannerError

if TYPE_CHECKING:
    from llm_planner.ros.composition import World


class Simulator(Enum):
    """What gives robots their bodies."""

    KINEMATIC = "kinematic"
    MUJOCO = "mujoco"


SimOption = Annotated[
    Simulator, typer.Option("--sim", help="kinematic: robots move by their duration models; mujoco: in physics.")
]


def physical_world(sim: Simulator, name: str) -> "World | None":
    """Returns the world of a fleet, on a free port; None for kinematic robots.

    Raises:
        PlannerError: INVALID_CONFIG for a world without MuJoCo; NOT_INSTALLED where MuJoCo is missing.
    """
    if sim is Simulator.KINEMATIC:
        if name:
            raise PlannerError(ErrorCode.INVALID_CONFIG, "--world is for robots with bodies; add --sim mujoco")
        return None
    from llm_planner.ros.composition import World
    from llm_planner.sim.physics.mujoco_loader import load_mujoco

    load_mujoco()
    with socket.create_server(("127.0.0.1", 0)) as free:
        return World(name, int(free.getsockname()[1]))
