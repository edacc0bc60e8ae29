# SPDX-License-Identifier: Apache-2.0
"""An Indy7 through Neuromeka's ROS 2 driver: its ``follow_joint_trajectory`` action and ``joint_states``.

That driver (neuromeka-robotics/indy-ros2) takes joints in their order and ignores names and ``time_from_start``; of a
trajectory of few points it uses the first and the last; it ends a goal by polling every 0.1 s, and waits for ever for a
motion to a place where the arm is already. So each goal has one point, and ``Indy7Driver`` sends none without a motion.
It moves at velocity level 3 and knows no gripper. Nothing here was run against it: its messages are not in any wheel.
"""

import math
from collections.abc import Callable
from typing import Any, Protocol

from rclpy.node import Node

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.robots.drivers.indy7_kinematics import JOINTS
from llm_planner.robots.tool_path import Joints
from llm_planner.ros.bridge import Bridge
from llm_planner.ros.guard import Guard

ACTION = "/joint_trajectory_controller/follow_joint_trajectory"  # an absolute name in Neuromeka's driver
SUCCESSFUL = 0  # control_msgs/FollowJointTrajectory
CANCELED = "the motion was stopped"
STALE_S = 1.0  # without joint states for this long, it is unknown where the joints are


class ActionClient(Protocol):
    """What is used of rclpy's action client."""

    def server_is_ready(self) -> bool:
        """Returns whether the action has a server."""
        ...

    def send_goal_async(self, goal: Any) -> Any:  # noqa: ANN401 (rclpy)
        """Sends a goal; returns the future of its handle."""
        ...


class TrajectoryPort:
    """An ``ArmPort`` over a ``FollowJointTrajectory`` action.

    Args:
        client: Of the action.
        to_goal: Returns the goal message for joint angles in radians, in the order of ``JOINTS``.
        post: Calls something in the executor's thread.
        clock: Tells how old joint states are.
    """

    def __init__(
        self,
        client: ActionClient,
        to_goal: Callable[[list[float]], Any],
        post: Callable[[Callable[[], None]], None],
        clock: Clock | None = None,
    ) -> None:
        self._client, self._to_goal, self._post, self._clock = client, to_goal, post, clock or MonotonicClock()
        self._joints: tuple[float, Joints] | None = None  # when they were received, and where they were
        self._ending: str | None = ""
        self._handle: Any = None
        self._number = 0  # of the goal: what comes of an older one counts no more
        self._is_stopped = False

    def note_joints(self, names: list[str], positions: list[float]) -> None:
        """Takes a ``JointState``, whatever other joints it names."""
        known = dict(zip(names, positions, strict=False))
        if all(math.isfinite(known.get(name, math.nan)) for name in JOINTS):
            self._joints = self._clock.now_s(), tuple(math.degrees(known[name]) for name in JOINTS)

    def joints_deg(self) -> Joints | None:
        """Returns where the joints are; None if no joint states came lately."""
        if self._joints is None or self._clock.now_s() - self._joints[0] > STALE_S:
            return None
        return self._joints[1]

    def move(self, joints_deg: Joints) -> None:
        """Sends a goal of one point."""
        self._number += 1
        self._ending, self._handle, self._is_stopped = None, None, False
        number, goal = self._number, self._to_goal([math.radians(angle) for angle in joints_deg])
        self._post(lambda: self._send(number, goal))

    def ending(self) -> str | None:
        """Returns how the motion stands."""
        return self._ending

    def stop(self) -> None:
        """Cancels the goal; one that was not accepted yet is cancelled as soon as it is."""
        self._is_stopped = True
        self._post(self._cancel)

    def close(self) -> None:
        """Stops the arm."""
        self.stop()

    def _send(self, number: int, goal: object) -> None:
        if not self._client.server_is_ready():
            self._end(number, f"no server of {ACTION}; start Neuromeka's driver")
        elif self._is_stopped:
            self._end(number, CANCELED)
        else:
            sent = self._client.send_goal_async(goal)
            sent.add_done_callback(lambda future: self._post(lambda: self._accepted(number, future.result())))

    def _accepted(self, number: int, handle: Any) -> None:  # noqa: ANN401 (rclpy)
        if not handle.accepted:
            self._end(number, "the arm's driver refuses the motion")
            return
        self._handle = handle
        ended = handle.get_result_async()
        ended.add_done_callback(lambda future: self._post(lambda: self._finished(number, future.result().result)))
        if self._is_stopped or number != self._number:
            handle.cancel_goal_async()

    def _finished(self, number: int, result: Any) -> None:  # noqa: ANN401 (rclpy)
        is_success = result.error_code == SUCCESSFUL and not self._is_stopped
        reason = CANCELED if self._is_stopped else result.error_string or f"error code {result.error_code}"
        self._end(number, "" if is_success else reason)

    def _cancel(self) -> None:
        if self._handle is not None and self._ending is None:
            self._handle.cancel_goal_async()

    def _end(self, number: int, ending: str) -> None:
        if number == self._number:
            self._ending = ending


def open_trajectory_port(node: Node, bridge: Bridge, guard: Guard) -> TrajectoryPort:
    """Returns the way to Neuromeka's driver, through a node whose callbacks are guarded.

    Raises:
        PlannerError: INVALID_CONFIG where ROS 2 has no ``control_msgs``, ``trajectory_msgs`` or ``sensor_msgs``.
    """
    try:
        from control_msgs.action import FollowJointTrajectory
        from rclpy.action.client import ActionClient as RclpyClient
        from sensor_msgs.msg import JointState
        from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint
    except ImportError as error:
        advice = "apt install ros-$ROS_DISTRO-control-msgs"
        problem = f"driver 'indy7_trajectory' needs ROS 2's control_msgs ({error}): {advice}"
        raise PlannerError(ErrorCode.INVALID_CONFIG, problem) from error

    def to_goal(positions: list[float]) -> Any:  # noqa: ANN401 (a generated message)
        trajectory = JointTrajectory(joint_names=list(JOINTS), points=[JointTrajectoryPoint(positions=positions)])
        return FollowJointTrajectory.Goal(trajectory=trajectory)

    port = TrajectoryPort(RclpyClient(node, FollowJointTrajectory, ACTION), to_goal, bridge.post)

    def note(message: Any) -> None:  # noqa: ANN401 (a generated message)
        port.note_joints(list(message.name), list(message.position))

    node.create_subscription(JointState, "/joint_states", guard(note), 10)
    return port
