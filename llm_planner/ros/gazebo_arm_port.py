# SPDX-License-Identifier: Apache-2.0
"""An arm in Gazebo, through the topics that ``ros_gz_bridge`` carries.

Trajectories, and orders to attach and detach, go out; joint states, where loose things are, and what the gripper holds
come in. ``llm_planner robots gazebo`` writes the bridge's configuration with these topics.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from rclpy.node import Node

from llm_planner.core.interfaces import Clock
from llm_planner.robots.model import RobotModel
from llm_planner.robots.shape import ChainBody
from llm_planner.ros import qos
from llm_planner.ros.guard import Guard
from llm_planner.ros.poses import yaw_of
from llm_planner.ros.steady import steady_timer
from llm_planner.sim.gazebo.arm_motion import JointPoint
from llm_planner.sim.gazebo.arm_port import GazeboArmPort
from llm_planner.sim.gazebo.gripper import graspable
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.things import Thing

TICK_S = 0.1
ATTACHED = "attached"  # what DetachableJoint says; the other word is ``detached``


def open_arm_port(
    node: Node, guard: Guard, model: RobotModel, *, home: Home, things: Sequence[Thing], clock: Clock
) -> GazeboArmPort:
    """Returns the way to the arm in Gazebo that has the node's name.

    Args:
        node: Of the robot.
        guard: For callbacks of the node.
        model: Of the robot, with a chain for a body.
        home: Where its base is in Gazebo's world.
        things: What stands there.
        clock: Tells when joint states are missing.

    Raises:
        ImportError: Where ROS 2 has no ``nav_msgs``, ``sensor_msgs`` or ``trajectory_msgs``.
    """
    from nav_msgs.msg import Odometry
    from sensor_msgs.msg import JointState
    from std_msgs.msg import Empty, String
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    assert isinstance(model.body, ChainBody)
    names = [joint.name for joint in model.body.joints]
    base = f"/model/{node.get_name()}"
    held = graspable(model, home, things)
    trajectories = node.create_publisher(JointTrajectory, f"{base}/joint_trajectory", qos.REPORTS)
    orders = {
        (name, is_attach): node.create_publisher(Empty, f"{base}/{word}/{name}", qos.REPORTS)
        for name in held
        for is_attach, word in ((True, "attach"), (False, "detach"))
    }

    def send(points: Sequence[JointPoint]) -> None:
        message = JointTrajectory(joint_names=names)
        for point in points:
            item = JointTrajectoryPoint(positions=point.positions, velocities=point.velocities)
            item.time_from_start.sec = int(point.after_s)
            item.time_from_start.nanosec = int(math.fmod(point.after_s, 1.0) * 1e9)
            message.points.append(item)
        trajectories.publish(message)

    def order(name: str, is_attach: bool) -> None:
        orders[name, is_attach].publish(Empty())

    port = GazeboArmPort(model, home=home, things=things, send=send, order=order, clock=clock)

    def note_joints(message: Any) -> None:
        stamp = message.header.stamp
        port.note_joints(stamp.sec + 1e-9 * stamp.nanosec, dict(zip(message.name, message.position, strict=False)))

    def note_place(name: str, message: Any) -> None:
        place = message.pose.pose.position
        port.note_place(name, (place.x, place.y, place.z), yaw_of(message.pose.pose.orientation))

    def note_grip(name: str, message: Any) -> None:
        port.note_grip(name, is_attached=message.data == ATTACHED)

    node.create_subscription(JointState, f"{base}/joint_states", guard(note_joints), qos.REPORTS)
    for name in (thing.known.name for thing in things if thing.is_loose):
        node.create_subscription(Odometry, f"/model/{name}/odometry", guard(partial(note_place, name)), qos.REPORTS)
    for name in held:
        node.create_subscription(String, f"{base}/grip/{name}", guard(partial(note_grip, name)), qos.REPORTS)
    steady_timer(node, TICK_S, guard(port.tick))
    return port
