# SPDX-License-Identifier: Apache-2.0
"""Where a robot is, as ROS tools know it: odometry, and transforms between the frames of REP-105.

A mobile robot has ``map -> NAME/odom -> NAME/base_link``, an arm ``map -> NAME/base_link -> NAME/tool0``. Its home is
the origin of ``odom`` (of an arm: its base). ``map`` is left out where the home is not known.
"""

import importlib
import math
from typing import Any

from builtin_interfaces.msg import Time
from rclpy.node import Node

from llm_planner.core.interfaces import Clock
from llm_planner.core.pose import Pose
from llm_planner.robots.model import RobotKind, RobotModel
from llm_planner.ros.poses import from_pose, from_yaw
from llm_planner.ros.robot_control import RobotControl

MAP = "map"


class FramesPublisher:
    """Publishes ``/tf``, and of a mobile robot ``~/odom``, while they have a subscriber. Tick it a few times a second.

    Args:
        node: The robot's node.
        robot_id: The robot's name, which begins the names of its frames.
        robot: Tells where it is.
        model: Its robot model.
        home: Where its home is in the fleet's map, if that is known.
        clock: Source of monotonic time, for its speed: the ROS clock may be set, and runs as it likes.
    """

    def __init__(
        self, node: Node, robot_id: str, robot: RobotControl, model: RobotModel, home: Pose | None, clock: Clock
    ) -> None:
        self._node, self._robot, self._home, self._clock = node, robot, home, clock
        is_arm = model.kind is RobotKind.ARM
        origin, moved = ("base_link", "tool0") if is_arm else ("odom", "base_link")
        self._origin, self._moved = f"{robot_id.strip('/')}/{origin}", f"{robot_id.strip('/')}/{moved}"
        self._transforms = _publisher(node, "/tf", "tf2_msgs", "TFMessage")
        self._odometry: Any = None if is_arm else _publisher(node, "~/odom", "nav_msgs", "Odometry")
        self._before: tuple[float, Pose] | None = None  # where it was at the last tick, for its speed

    @property
    def is_watched(self) -> bool:
        """Whether there is a subscriber."""
        return _has_subscriber(self._transforms) or _has_subscriber(self._odometry)

    def tick(self) -> None:
        """Publishes where the robot is now."""
        has_tf, has_odometry = _has_subscriber(self._transforms), _has_subscriber(self._odometry)
        if not (has_tf or has_odometry):
            self._before = None
            return
        stamp, pose = self._node.get_clock().now().to_msg(), self._robot.pose
        if has_tf:
            known = [] if self._home is None else [_transform(stamp, MAP, self._origin, self._home)]
            known.append(_transform(stamp, self._origin, self._moved, pose))
            self._transforms.publish(self._transforms.msg_type(transforms=known))
        if has_odometry:
            self._odometry.publish(self._where(self._clock.now_s(), stamp, pose))

    def _where(self, now_s: float, stamp: Time, pose: Pose) -> Any:
        """Returns the odometry: the pose in ``odom``, the speed in ``base_link``."""
        message = self._odometry.msg_type()
        message.header.stamp, message.header.frame_id, message.child_frame_id = stamp, self._origin, self._moved
        message.pose.pose = from_pose(pose)
        before, self._before = self._before, (now_s, pose)
        if before is not None and now_s > before[0] and before[1].is_finite and pose.is_finite:
            elapsed_s, yaw = now_s - before[0], math.radians(pose.yaw_deg)
            dx, dy = pose.x_m - before[1].x_m, pose.y_m - before[1].y_m
            speed = message.twist.twist
            speed.linear.x = (dx * math.cos(yaw) + dy * math.sin(yaw)) / elapsed_s
            speed.linear.y = (dy * math.cos(yaw) - dx * math.sin(yaw)) / elapsed_s
            speed.linear.z = (pose.z_m - before[1].z_m) / elapsed_s
            turn_deg = (pose.yaw_deg - before[1].yaw_deg + 180.0) % 360.0 - 180.0
            speed.angular.z = math.radians(turn_deg) / elapsed_s
        return message


def _publisher(node: Node, topic: str, package: str, name: str) -> Any:
    """Returns a publisher; None where the package of its messages is not installed."""
    try:
        kind = getattr(importlib.import_module(f"{package}.msg"), name)
    except ImportError:
        node.get_logger().warning(f"{package} is not installed: no {topic}")
        return None
    return node.create_publisher(kind, topic, 10)


def _has_subscriber(publisher: Any) -> bool:
    return publisher is not None and publisher.get_subscription_count() > 0


def _transform(stamp: Time, parent: str, child: str, pose: Pose) -> Any:
    from geometry_msgs.msg import TransformStamped

    message = TransformStamped(child_frame_id=child)
    message.header.stamp, message.header.frame_id = stamp, parent
    place, message.transform.rotation = message.transform.translation, from_yaw(math.radians(pose.yaw_deg))
    place.x, place.y, place.z = pose.x_m, pose.y_m, pose.z_m
    return message
