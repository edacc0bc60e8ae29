# SPDX-License-Identifier: Apache-2.0
"""A robot of a world in this process, as a robot node or a benchmark connects to it."""

import random
from typing import cast

from llm_planner.robots.model import Pose, RobotKind, RobotModel
from llm_planner.robots.world import World
from llm_planner.sim.physics.arm_driver import ArmDriver
from llm_planner.sim.physics.driver import PhysicsDriver
from llm_planner.sim.physics.drone_driver import DroneDriver
from llm_planner.sim.physics.port import ArmPort, DronePort, RobotPort


class PhysicsConnection:
    """A ``RobotConnection``: one body, whatever world it is told about.

    Args:
        model: Of the robot, with a body.
        port: To that body, of the robot's kind.
        seed: Of how long looks and words take.
    """

    takes_worlds = True
    unsupported_skills: frozenset[str] = frozenset()

    def __init__(self, model: RobotModel, port: RobotPort, seed: int = 0) -> None:
        rng = random.Random(seed)
        self.driver: PhysicsDriver[RobotPort] = (
            ArmDriver(model, cast("ArmPort", port), rng)
            if model.kind is RobotKind.ARM
            else DroneDriver(model, cast("DronePort", port), rng)
        )
        self._port = port

    def enter(self, world: World, pose: Pose | None, epoch_s: float, /) -> PhysicsDriver[RobotPort]:
        """Returns the driver, its stage cleared for a world."""
        self.driver.enter(world, pose, epoch_s)
        return self.driver

    def close(self) -> None:
        """Makes the robot safe and lets it go."""
        self._port.close()
