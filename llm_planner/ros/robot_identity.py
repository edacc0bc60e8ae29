# SPDX-License-Identifier: Apache-2.0
"""One robot, one name: a robot node says who it is, and ends itself while it starts if its name is taken."""

import uuid
from collections.abc import Callable, Collection

from builtin_interfaces.msg import Time
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

import llm_planner.msg as msgs
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.ros import qos

STARTING_S = 10.0  # a robot that has been up for longer does not yield its name
GRAPH_S, LOOK_S = 3.0, 0.1  # the ROS graph may learn of a node after its message has come, which comes once


class RobotIdentity:
    """Publishes ``~/status``, and notices another node of the same name.

    A message alone proves nothing, as any client can send one: the ROS graph must know a second publisher of this name.
    What is ready wins over what starts, whatever their clocks say; of two alike the older one wins. Services and
    publishers in the graph are no word on that: those of a node that crashed stay there for some time.

    Args:
        node: Of the robot.
        model: Name of its robot model.
        driver: What moves it.
        clock: Source of monotonic time.
        on_double: Called, in the executor's thread, if a node of this name that wins is found while this one starts.
    """

    def __init__(
        self, node: Node, model: str, driver: str, clock: Clock, on_double: Callable[[PlannerError], None]
    ) -> None:
        self._node, self._clock, self._on_double = node, clock, on_double
        self._begun_at_s = clock.now_s()
        self._other: msgs.RobotStatus | None = None  # of another node of this name, the first by rank
        self._other_at_s = 0.0  # when it came
        self._status = msgs.RobotStatus(
            robot_id=node.get_fully_qualified_name().lstrip("/"),
            instance_id=uuid.uuid4().hex,
            started_at=node.get_clock().now().to_msg(),
            robot_model=model,
            driver=driver,
        )
        self._publisher = node.create_publisher(msgs.RobotStatus, "~/status", qos.STATUS)
        node.create_subscription(msgs.RobotStatus, "~/status", self._on_status, qos.STATUSES)
        self._publisher.publish(self._status)

    def say(self, unsupported_skills: Collection[str]) -> None:
        """Publishes what the robot cannot do, which takes instructions from now on."""
        self._status.is_ready, self._status.unsupported_skills = True, sorted(unsupported_skills)
        self._publisher.publish(self._status)

    def look_around(self, period_s: float, is_taken: Callable[[], bool]) -> None:
        """Spins the node for a while, or until its name turns out to be taken: no other thread may spin it yet.

        It takes up to ``GRAPH_S`` longer where a message of another node of this name has come.
        """
        executor = SingleThreadedExecutor()
        executor.add_node(self._node)
        until_s = self._clock.now_s() + period_s
        while not is_taken() and (left_s := until_s - self._clock.now_s()) > 0:
            executor.spin_once(timeout_sec=min(left_s, LOOK_S))
            self.check()
            if self._other is not None:
                until_s = max(until_s, self._other_at_s + GRAPH_S)
        executor.remove_node(self._node)
        executor.shutdown(timeout_sec=0.0)

    def _on_status(self, other: msgs.RobotStatus) -> None:
        if other.instance_id == self._status.instance_id:
            return
        if self._other is None:
            self._other, self._other_at_s = other, self._clock.now_s()
        self._other = min(self._other, other, key=_rank)
        self.check()

    def check(self) -> None:
        """Looks whether the ROS graph knows a node of this name that wins by now, if a message of another has come."""
        is_starting = self._clock.now_s() - self._begun_at_s < STARTING_S
        is_outranked = self._other is not None and _rank(self._other) < _rank(self._status)
        if is_starting and is_outranked and self._has_double():
            self._other = None
            name = self._node.get_fully_qualified_name()
            problem = f"another robot runs as {name}; stop it, or start this one under another name or namespace"
            self._on_double(PlannerError(ErrorCode.DUPLICATE_NODE, problem))

    def _has_double(self) -> bool:
        own = (self._node.get_name(), self._node.get_namespace())
        publishers = self._node.get_publishers_info_by_topic(self._publisher.topic_name)
        return sum((info.node_name, info.node_namespace) == own for info in publishers) > 1


def _rank(status: msgs.RobotStatus) -> tuple[bool, int, int, str]:
    started_at: Time = status.started_at
    return (not status.is_ready, started_at.sec, started_at.nanosec, status.instance_id)
