# SPDX-License-Identifier: Apache-2.0
"""A robot for people to look at: ``~/view`` of its node, published only while it has a subscriber."""

from dataclasses import replace

from rclpy.node import Node
from std_msgs.msg import String

from llm_planner.core.pose import Pose
from llm_planner.monitoring.robot_view import MAX_WORD, as_pose, nearest, outline
from llm_planner.robots.model import RobotModel
from llm_planner.ros import qos
from llm_planner.ros.robot_control import RobotControl

PERIOD_S = 0.2


class RobotViewPublisher:
    """Publishes where a robot is, and what it knows around it, while it has a subscriber. Tick it each ``PERIOD_S``.

    Args:
        node: The robot's node.
        robot_id: The robot's name.
        robot: Tells where it is.
        model: Its robot model.
        driver: What moves it.
        home: Where its home is in the fleet's map, if that is known.
    """

    def __init__(
        self, node: Node, robot_id: str, robot: RobotControl, model: RobotModel, driver: str, home: Pose | None
    ) -> None:
        self._robot = robot
        self._last = outline(model, robot_id, driver, home)
        self._publisher = node.create_publisher(String, "~/view", qos.VIEW)

    @property
    def is_watched(self) -> bool:
        """Whether there is a subscriber."""
        return self._publisher.get_subscription_count() > 0

    def tick(self) -> None:
        """Publishes the present view."""
        if not self.is_watched:
            return
        robot = self._robot
        pose, held, things = robot.surroundings()
        self._last = replace(
            self._last,
            number=self._last.number + 1,
            pose=as_pose(pose),
            is_busy=robot.is_active,
            is_in_reflex=robot.is_in_reflex,
            held=held[:MAX_WORD],
            num_faults=robot.num_faults,
            last_fault=robot.last_fault[:MAX_WORD],
            things=nearest(things, pose),
        )
        self._publisher.publish(String(data=self._last.to_json()))
