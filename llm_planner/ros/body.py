# SPDX-License-Identifier: Apache-2.0
"""The parameters of a robot node that say which body it has, and the connection to that body."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rclpy.node import Node

from llm_planner.core.config import setting
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.robot_connection import (
    DRIVERS,
    NODE_DRIVERS,
    DriverSettings,
    RobotConnection,
    connect,
    require_kind,
    require_real_time,
)
from llm_planner.robots.drivers.indy7 import MAX_PERCENT, speed_percent
from llm_planner.robots.effect import TakeOff
from llm_planner.robots.model import RobotKind, RobotModel
from llm_planner.ros.bridge import Bridge
from llm_planner.ros.guard import Guard

if TYPE_CHECKING:
    from llm_planner.sim.physics.client import RemotePort

TRAJECTORY, MUJOCO, GAZEBO = NODE_DRIVERS
WORLD_ADDRESS, WORLD_TIMEOUT_S = "127.0.0.1:8870", 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BodySettings:
    """Parameters of a robot node that its body needs."""

    driver: str = setting(
        "kinematic",
        f"What moves the robot: {', '.join((*DRIVERS, *NODE_DRIVERS))}, or a class: package.module:Class.",
    )
    address: str = setting(
        "", "IPv4 address of a real robot; with driver mujoco HOST:PORT of the world, with gazebo its name."
    )
    take_off: bool = setting(False, "Whether a real drone takes off at once; its plans begin in the air.")
    tool_length_m: float = setting(
        0.0,
        "Length of a real arm's gripper, from the flange; driver indy7 needs it, unless the robot model knows it.",
        minimum=0.0,
        maximum=0.5,
    )
    allow_world: bool = setting(
        False, "Whether instructions may tell a real robot what there is around it, and where it is."
    )
    time_scale: float = setting(
        1.0, "How much faster than real time the robot runs; 1 for a real one.", minimum=0.01, maximum=1000.0
    )
    seed: int = setting(0, "Seed of the noise of all durations.", minimum=0, maximum=2**31 - 1)


def first_skill(settings: BodySettings, model: RobotModel) -> str:
    """Returns the skill that a robot calls before anybody instructs it: to take off; empty for none.

    Raises:
        PlannerError: INVALID_CONFIG if it is to take off and is no drone, or has no skill for that.
    """
    if not settings.take_off or settings.driver != "tello":
        return ""
    require_kind(settings.driver, RobotKind.DRONE, model)
    for skill in model.skills.values():
        if isinstance(skill.effect, TakeOff):
            return skill.name
    raise PlannerError(
        ErrorCode.INVALID_CONFIG, f"robot model {model.name!r} has no skill to take off; leave take_off out"
    )


def connect_body(
    node: Node, bridge: Bridge, guard: Guard, model: RobotModel, settings: BodySettings, clock: Clock
) -> RobotConnection:
    """Returns the body, connected; that may take some seconds.

    Args:
        node: Of the robot.
        bridge: Of the node.
        guard: For callbacks of the node.
        model: Of the robot.
        settings: Which body.
        clock: Source of monotonic time.

    Raises:
        PlannerError: INVALID_CONFIG for parameters that do not fit together, or what the body's connection says.
    """
    if settings.driver == TRAJECTORY:
        from llm_planner.robot_connection import Indy7Robot
        from llm_planner.ros.trajectory_port import open_trajectory_port

        require_kind(TRAJECTORY, RobotKind.ARM, model)
        require_real_time(settings.time_scale)
        if speed_percent(model) < MAX_PERCENT:
            problem = f"driver {TRAJECTORY!r} moves at {MAX_PERCENT} % of an Indy7's speed; {model.name!r} allows less"
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"{problem}, which driver 'indy7' obeys")
        port = open_trajectory_port(node, bridge, guard)
        length_m = settings.tool_length_m
        return Indy7Robot(model, port, tool_length_m=length_m, takes_worlds=settings.allow_world)
    if settings.driver == GAZEBO:
        from llm_planner.ros.gazebo_port import open_gazebo_port
        from llm_planner.sim.physics.connection import PhysicsConnection

        return PhysicsConnection(model, open_gazebo_port(node, guard, model, settings.address, clock), settings.seed)
    if settings.driver == MUJOCO:
        from llm_planner.sim.physics.connection import PhysicsConnection

        return PhysicsConnection(
            model, _world_port(node.get_name(), settings.address or WORLD_ADDRESS, clock), settings.seed
        )
    driver = DriverSettings(
        name=settings.driver,
        address=settings.address,
        takes_off=settings.take_off,
        tool_length_m=settings.tool_length_m,
        takes_worlds=settings.allow_world,
        time_scale=settings.time_scale,
        seed=settings.seed,
    )
    return connect(model, driver, clock)


def _world_port(name: str, address: str, clock: Clock) -> "RemotePort":
    """Returns the way to a robot's body; waits for a world that is not there yet."""
    from llm_planner.sim.physics.client import RemotePort

    give_up_s = time.monotonic() + WORLD_TIMEOUT_S
    while True:
        try:
            return RemotePort(name, address, clock)
        except PlannerError as error:
            if error.code is not ErrorCode.SERVER_UNREACHABLE or time.monotonic() > give_up_s:
                raise
        time.sleep(0.2)
