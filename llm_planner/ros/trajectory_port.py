# SPDX-License-Identifier: Apache-2.0
"""An Indy7 through Neuromeka's ROS 2 driver: its ``follow_joint_trajectory`` action and ``joint_states``.

That driver (neuromeka-robotics/indy-ros2) takes joints in their order and ignores names and ``time_from_start``; of a
trajectory of few points it uses the first and the last; it ends a goal by polling every 0.1 s, and waits for ever for a
motion to a place where the arm is already. So each goal has one point, and ``Indy7Driver`` sends none without a motion.
The arm may still move by a goal of another process, so a stop cancels every goal, and ends once the joints stand.
It moves at velocity level 3 and knows no gripper. Nothing here was run against it: its messages are not in any wheel.
"""

import math
from collections.abc import Callable
from typing import Any, Protocol

from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from rclpy.node import Node

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.robots.drivers.indy7_kinematics import JOINTS
from llm_planner.robots.tool_path import Joints
from llm_planner.ros.bridge import Bridge
from llm_planner.ros.guard import Guard

ACTION = "/joint_trajectory_controller/follow_joint_trajectory"  # an absolute name in Neuromeka's driver
SUCCESSFUL = 0  # control_msgs/FollowJointTrajectory; also of a goal that was cancelled or aborted without a word
ENDINGS = {GoalStatus.STATUS_SUCCEEDED: "", GoalStatus.STATUS_CANCELED: "another client cancelled the motion"}
ABORTED = "the arm's driver aborted the motion; see its log"
CANCELS = 0  # action_msgs/CancelGoal: ERROR_NONE
EARLIER = "the arm's driver has not yet confirmed that it ends what it was told earlier; try again"
REPEAT_S = 0.5  # between requests to cancel that are not answered
STANDS_S, STANDS_DEG = 0.5, 0.1  # it stands if no joint has turned by more for so long after the goals were cancelled
STALE_S = 1.0  # without joint states for this long, it is unknown where the joints are


class ActionClient(Protocol):
    """What is used of rclpy's action client."""

    def server_is_ready(self) -> bool:
        """Returns whether the action has a server."""
        ...

    def send_goal_async(self, goal: Any) -> Any:
        """Sends a goal; returns the future of its handle."""
        ...


class CancelClient(Protocol):
    """What is used of rclpy's client of the service that cancels the action's goals."""

    def service_is_ready(self) -> bool:
        """Returns whether the service has a server."""
        ...

    def call_async(self, request: Any) -> Any:
        """Sends a request; returns the future of its response."""
        ...


class TrajectoryPort:
    """An ``ArmPort`` over a ``FollowJointTrajectory`` action. At first it cancels whatever goals there are.

    Args:
        client: Of the action.
        canceler: Of the action's ``cancel_goal`` service.
        to_goal: Returns the goal message for joint angles in radians, in the order of ``JOINTS``.
        post: Calls something in the executor's thread.
        clock: Tells how old joint states are.
    """

    def __init__(
        self,
        client: ActionClient,
        canceler: CancelClient,
        to_goal: Callable[[list[float]], Any],
        post: Callable[[Callable[[], None]], None],
        clock: Clock | None = None,
    ) -> None:
        self._client, self._canceler = client, canceler
        self._to_goal, self._post, self._clock = to_goal, post, clock or MonotonicClock()
        self._joints: tuple[float, Joints] | None = None  # when they were received, and where they were
        self._stood: tuple[float, Joints] = 0.0, ()  # since when they stand, and where
        self._number = self._stop = 0  # of the last order, and of the last stop; to connect counts as one
        self._ended = 0, ""  # the last order that has ended, and how
        self._num_unanswered = 0  # goals that the server has neither accepted nor refused
        self._asked_s = -math.inf  # when the goals were last asked to be cancelled
        self._canceled: tuple[int, float] = -1, 0.0  # the last stop whose cancelling was confirmed, and when

    def note_joints(self, names: list[str], positions: list[float]) -> None:
        """Takes a ``JointState``, whatever other joints it names."""
        known = dict(zip(names, positions, strict=False))
        if not all(math.isfinite(known.get(name, math.nan)) for name in JOINTS):
            return
        now_s, joints = self._clock.now_s(), tuple(math.degrees(known[name]) for name in JOINTS)
        has_moved = any(abs(a - b) > STANDS_DEG for a, b in zip(joints, self._stood[1], strict=False))
        if has_moved or self.joints_deg() is None:
            self._stood = now_s, joints
        self._joints = now_s, joints
        number, canceled_s = self._canceled
        if number != self._stop:
            if now_s - self._asked_s >= REPEAT_S:
                self._cancel()
        elif not self._num_unanswered and now_s - max(canceled_s, self._stood[0]) >= STANDS_S:
            self._end(number, "")

    def joints_deg(self) -> Joints | None:
        """Returns where the joints are; None if no joint states came lately."""
        if self._joints is None or self._clock.now_s() - self._joints[0] > STALE_S:
            return None
        return self._joints[1]

    def move(self, joints_deg: Joints) -> None:
        """Sends a goal of one point."""
        self._number += 1
        number, goal = self._number, self._to_goal([math.radians(angle) for angle in joints_deg])
        self._post(lambda: self._send(number, goal))

    def ending(self) -> str | None:
        """Returns how the last order stands. A stop ends once all goals are cancelled and the joints then stand."""
        number, ending = self._ended
        return ending if number == self._number else None

    def stop(self) -> None:
        """Cancels all goals, whoever sent them; one that was not accepted yet is cancelled as soon as it is."""
        self._number += 1
        self._stop = self._number
        self._post(self._cancel)

    def close(self) -> None:
        """Stops the arm; what was posted may not be called any more."""
        self.stop()
        self._cancel()

    def _send(self, number: int, goal: object) -> None:
        if not self._client.server_is_ready():
            self._end(number, f"no server of {ACTION}; start Neuromeka's driver")
        elif self._canceled[0] != self._stop:
            self._end(number, EARLIER)
        elif number == self._number:
            self._num_unanswered += 1
            sent = self._client.send_goal_async(goal)
            sent.add_done_callback(lambda future: self._post(lambda: self._accepted(number, future.result())))

    def _accepted(self, number: int, handle: Any) -> None:
        self._num_unanswered -= 1
        if number != self._number:  # stopped meanwhile: the goal may have come after the stop
            self._canceled = -1, 0.0
            self._cancel()
        elif not handle.accepted:
            self._end(number, "the arm's driver refuses the motion")
        else:
            ended = handle.get_result_async()
            ended.add_done_callback(lambda future: self._post(lambda: self._finished(number, future.result())))

    def _finished(self, number: int, response: Any) -> None:
        result = response.result
        if result.error_code != SUCCESSFUL:
            self._end(number, result.error_string or f"error code {result.error_code}")
        else:
            self._end(number, ENDINGS.get(response.status, ABORTED))

    def _cancel(self) -> None:
        """Asks for all goals to be cancelled, if there is who can be asked."""
        self._asked_s, number = self._clock.now_s(), self._stop
        if self._canceler.service_is_ready():
            sent = self._canceler.call_async(CancelGoal.Request())  # no goal's number and no time: all of them
            sent.add_done_callback(lambda future: self._post(lambda: self._note_canceled(number, future.result())))

    def _note_canceled(self, number: int, response: Any) -> None:
        if number == self._stop and response.return_code == CANCELS:
            self._canceled = number, self._clock.now_s()

    def _end(self, number: int, ending: str) -> None:
        if number == self._number:
            self._ended = number, ending


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

    def to_goal(positions: list[float]) -> Any:
        trajectory = JointTrajectory(joint_names=list(JOINTS), points=[JointTrajectoryPoint(positions=positions)])
        return FollowJointTrajectory.Goal(trajectory=trajectory)

    client = RclpyClient(node, FollowJointTrajectory, ACTION)
    canceler = node.create_client(CancelGoal, f"{ACTION}/_action/cancel_goal")
    port = TrajectoryPort(client, canceler, to_goal, bridge.post)

    def note(message: Any) -> None:
        port.note_joints(list(message.name), list(message.position))

    node.create_subscription(JointState, "/joint_states", guard(note), 10)
    return port
