"""A drone in Gazebo, through the topics that ``ros_gz_bridge`` carries: velocities out, odometry in.

Nothing here was run against Gazebo, which is in no wheel and in no Debian package; tests have a node in its place.
"""

import math
import re
from typing import Any

from rclpy.node import Node

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.physics.fleet import home_of
from llm_planner.physics.gazebo.drone_port import GazeboDronePort, Velocity
from llm_planner.physics.gazebo.sdf import ODOMETRY_HZ
from llm_planner.physics.world_file import load_world_file
from llm_planner.robots.model import RobotKind, RobotModel
from llm_planner.ros import qos

_NUMBER = re.compile(r"(\d+)$")


def open_gazebo_port(node: Node, model: RobotModel, world: str, clock: Clock) -> GazeboDronePort:
    """Returns the way to the drone in Gazebo that has the node's name.

    Args:
        node: Of the robot; its name ends in its number, from 1, as in the world that was written for it.
        model: Of the robot.
        world: Name of a bundled world, or its YAML file; empty for empty stages.
        clock: Times set points; Gazebo runs in real time.

    Raises:
        PlannerError: INVALID_CONFIG for a robot that is no drone, a world that cannot be, or where ROS 2 has no
            ``nav_msgs`` or ``geometry_msgs``.
    """
    if model.kind is RobotKind.ARM:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"driver 'gazebo' flies drones; {model.name} is an arm (docs/gazebo.md says what moves it)",
        )
    try:
        from geometry_msgs.msg import Twist
        from nav_msgs.msg import Odometry
    except ImportError as error:
        problem = (
            f"driver 'gazebo' needs ROS 2's nav_msgs and geometry_msgs ({error}): apt install ros-$ROS_DISTRO-nav-msgs"
        )
        raise PlannerError(ErrorCode.INVALID_CONFIG, problem) from error
    world_file = load_world_file(world) if world else None
    found = _NUMBER.search(node.get_name())
    home = home_of(world_file, is_arm=False, number=int(found[1]) - 1 if found else 0)
    things = [] if world_file is None else [thing.known for thing in world_file.things]
    topic = f"/model/{node.get_name()}"
    velocities = node.create_publisher(Twist, f"{topic}/cmd_vel", qos.REPORTS)

    def send(velocity: Velocity) -> None:
        message = Twist()
        message.linear.x, message.linear.y = velocity.forward, velocity.left
        message.linear.z, message.angular.z = velocity.up, velocity.turn
        velocities.publish(message)

    port = GazeboDronePort(model, home=home, things=things, send=send, clock=clock)

    def note(message: Any) -> None:  # noqa: ANN401 (a generated message)
        place, turn = message.pose.pose.position, message.pose.pose.orientation
        yaw = math.atan2(2.0 * (turn.w * turn.z + turn.x * turn.y), 1.0 - 2.0 * (turn.y**2 + turn.z**2))
        port.note_odometry((place.x, place.y, place.z), yaw)

    node.create_subscription(Odometry, f"{topic}/odometry", note, qos.REPORTS)
    node.create_timer(1.0 / ODOMETRY_HZ, port.tick)
    return port
