# SPDX-License-Identifier: Apache-2.0
"""How full a robot's battery is, as ROS tools know it."""

import math

from rclpy.node import Node
from sensor_msgs.msg import BatteryState

from llm_planner.ros.robot_control import RobotControl


class BatteryPublisher:
    """Publishes ``~/battery_state`` while it has a subscriber, once the robot has said how full its battery is.

    What is not known is NaN or unknown, as the message asks for: of most robots that is all but the percentage.

    Args:
        node: The robot's node.
        robot: Tells how full its battery is.
    """

    def __init__(self, node: Node, robot: RobotControl) -> None:
        self._node, self._robot = node, robot
        self._publisher = node.create_publisher(BatteryState, "~/battery_state", 10)

    @property
    def is_watched(self) -> bool:
        """Whether there is a subscriber."""
        return self._publisher.get_subscription_count() > 0

    def tick(self) -> None:
        """Publishes what the robot knows now."""
        share = self._robot.battery_share
        if share is None or not self.is_watched:
            return
        unknown = dict.fromkeys(
            ("voltage", "temperature", "current", "charge", "capacity", "design_capacity"), math.nan
        )
        message = BatteryState(percentage=share, present=True, **unknown)
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)
