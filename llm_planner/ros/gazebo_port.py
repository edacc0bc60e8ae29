# SPDX-License-Identifier: Apache-2.0
"""A robot in Gazebo, through the topics that ``ros_gz_bridge`` carries; for a drone velocities out, odometry in.

Nothing here was run against Gazebo, which is in no wheel and in no Debian package; tests have nodes in its place.
"""

import re
from collections.abc import Sequence
from typing import Any

from rclpy.node import Node

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.robots.model import RobotKind, RobotModel
from llm_planner.ros import qos
from llm_planner.ros.gazebo_arm_port import open_arm_port
from llm_planner.ros.guard import Guard
from llm_planner.ros.poses import yaw_of
from llm_planner.ros.steady import steady_timer
from llm_planner.sim.gazebo.drone_port import GazeboDronePort, Velocity
from llm_planner.sim.gazebo.sdf import ODOMETRY_HZ
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.port import RobotPort
from llm_planner.sim.physics.things import Thing
from llm_planner.sim.physics.world_file import home_of, load_world_file

_NUMBER = re.compile(r"(\d+)$")


def open_gazebo_port(node: Node, guard: Guard, model: RobotModel, world: str, clock: Clock) -> RobotPort:
    """Returns the way to the robot in Gazebo that has the node's name.

    Args:
        node: Of the robot; its name ends in its number, from 1, as in the world that was written for it.
        guard: For callbacks of the node.
        model: Of the robot.
        world: Name of a bundled world, or its YAML file; empty for empty stages.
        clock: Times set points of drones, and tells when no message has come for long.

    Raises:
        PlannerError: INVALID_CONFIG for a robot without a body, a world that cannot be, or where ROS 2 has not the
            packages of messages that Gazebo speaks in.
    """
    if model.body is None:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG, f"driver 'gazebo' moves bodies, and {model.name} has none (docs/physics.md)"
        )
    world_file = load_world_file(world) if world else None
    found = _NUMBER.search(node.get_name())
    is_arm = model.kind is RobotKind.ARM
    home = home_of(world_file, is_arm=is_arm, number=int(found[1]) - 1 if found else 0)
    things = [] if world_file is None else world_file.things
    try:
        if is_arm:
            return open_arm_port(node, guard, model, home=home, things=things, clock=clock)
        return open_drone_port(node, guard, model, home=home, things=things, clock=clock)
    except ImportError as error:
        package = (error.name or "nav_msgs").partition(".")[0]
        raise PlannerError(
            ErrorCode.NOT_INSTALLED,
            f"driver 'gazebo' needs ROS 2's {package} ({error}): "
            f"run `make setup`, or apt install ros-$ROS_DISTRO-{package.replace('_', '-')}",
        ) from error


def open_drone_port(
    node: Node, guard: Guard, model: RobotModel, *, home: Home, things: Sequence[Thing], clock: Clock
) -> GazeboDronePort:
    """Returns the way to the drone in Gazebo that has the node's name; arguments as ``open_arm_port``.

    Raises:
        ImportError: Where ROS 2 has no ``geometry_msgs`` or ``nav_msgs``.
    """
    from geometry_msgs.msg import Twist
    from nav_msgs.msg import Odometry

    topic = f"/model/{node.get_name()}"
    velocities = node.create_publisher(Twist, f"{topic}/cmd_vel", qos.REPORTS)

    def send(velocity: Velocity) -> None:
        message = Twist()
        message.linear.x, message.linear.y = velocity.forward, velocity.left
        message.linear.z, message.angular.z = velocity.up, velocity.turn
        velocities.publish(message)

    port = GazeboDronePort(model, home=home, things=[thing.known for thing in things], send=send, clock=clock)

    def note(message: Any) -> None:
        place = message.pose.pose.position
        port.note_odometry((place.x, place.y, place.z), yaw_of(message.pose.pose.orientation))

    node.create_subscription(Odometry, f"{topic}/odometry", guard(note), qos.REPORTS)
    steady_timer(node, 1.0 / ODOMETRY_HZ, guard(port.tick))
    return port
