"""The client library: a robot asks for plans and gets segments, without a thought for the network.

Segments come as feedback, which may be lost. Every feedback and the planner's status (twice a second) carry how many
segments there are, so a gap is noticed and filled by ``GetSegments``; the result brings the whole plan as a last
resort. Heartbeats tell the planner that somebody still wants the plan; the planner's status tells the client that
somebody is still planning.
"""

import functools
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action.client import ActionClient
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.task import Future
from unique_identifier_msgs.msg import UUID

import llm_planner.msg as msgs
from llm_planner.action import PlanTask
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.request import PlanRequest, PlanResult, Urgency
from llm_planner.core.segment import Segment, SegmentReport
from llm_planner.ros import conversions, qos
from llm_planner.ros.bridge import Bridge
from llm_planner.ros.plan_handle import PlanHandle
from llm_planner.srv import GetSegments

TICK_S = 0.25
HEARTBEAT_PERIOD_S = 1.0
LIMBO_S = 1.5  # how long a goal may be missing from the planner's status before the client asks


@dataclass(slots=True, kw_only=True)
class _Goal:
    """The client's side of a goal.

    Attributes:
        waits_since_s: Since when the next sign of the planner is due: being there, accepting, or showing life.
        remote: rclpy's handle, once the goal was accepted.
        listed_at_s: When the planner's status last named it (or when it was accepted).
        asked_at_s: When a GetSegments was sent that is still unanswered.
    """

    handle: PlanHandle
    waits_since_s: float
    is_sent: bool = False
    is_cancelled: bool = False
    remote: Any = None
    listed_at_s: float = 0.0
    heartbeat_at_s: float = float("-inf")
    asked_at_s: float | None = None


class PlannerClient:
    """Asks one planner for plans, for one robot.

    Args:
        node: The robot's node; somebody spins it (with any executor).
        robot_model: Name of the robot model, e.g. ``tello``.
        robot_id: Who asks; the node's full name unless given.
        planner: Full name of the planner node.
        server_timeout_s: Without a sign of life from the planner for this long, a goal ends with SERVER_UNREACHABLE.
        clock: Source of monotonic time.
    """

    def __init__(
        self,
        node: Node,
        robot_model: str,
        *,
        robot_id: str | None = None,
        planner: str = "/planner",
        server_timeout_s: float = 5.0,
        clock: Clock | None = None,
    ) -> None:
        self._node = node
        self._robot_model = robot_model
        self._robot_id = robot_id or node.get_fully_qualified_name().lstrip("/")
        self._planner = planner
        self._server_timeout_s = server_timeout_s
        self._clock = clock or MonotonicClock()
        self._goals: dict[str, _Goal] = {}
        self._status_at_s = float("-inf")
        self._is_active = False
        self._activated = threading.Event()
        self._bridge = Bridge(node)
        self._action = ActionClient(
            node, PlanTask, f"{planner}/plan_task", feedback_sub_qos_profile=QoSProfile(depth=qos.FEEDBACK_DEPTH)
        )
        self._get_segments = node.create_client(GetSegments, f"{planner}/get_segments")
        self._reports = node.create_publisher(msgs.SegmentReport, f"{planner}/report", qos.REPORTS)
        self._heartbeats = node.create_publisher(msgs.Heartbeat, f"{planner}/heartbeat", qos.HEARTBEATS)
        node.create_subscription(msgs.PlannerStatus, f"{planner}/status", self._on_status, qos.STATUS)
        node.create_timer(TICK_S, self._tick)

    @property
    def robot_id(self) -> str:
        """Who asks."""
        return self._robot_id

    @property
    def heard_at_s(self) -> float:
        """When the planner last showed life, on the client's clock; minus infinity if it never did."""
        return self._status_at_s

    @property
    def is_planner_active(self) -> bool:
        """Whether the planner showed life lately and takes goals."""
        return self._is_active and self._clock.now_s() - self._status_at_s <= self._server_timeout_s

    def wait_for_planner(self, timeout_s: float) -> bool:
        """Waits until the planner takes goals (blocking: not in a callback of the node); returns whether it does."""
        self._activated.wait(timeout_s)
        return self.is_planner_active

    def plan(
        self,
        instruction: str,
        *,
        scene: str = "",
        urgency: Urgency = Urgency.NORMAL,
        time_budget_s: float | None = None,
        on_segment: Callable[[Segment], None] | None = None,
    ) -> PlanHandle:
        """Asks for a plan and returns at once; whatever goes wrong is in the handle's result.

        Args:
            instruction: What to do.
            scene: What the robot sees.
            urgency: How much it matters when the plan comes.
            time_budget_s: Hard limit until the first segment; None for none.
            on_segment: Called with each segment, in order, in the executor's thread; iterate over the handle without.
        """
        request = PlanRequest(
            request_id=uuid.uuid4().hex,
            robot_id=self._robot_id,
            robot_model=self._robot_model,
            instruction=instruction,
            scene=scene,
            urgency=urgency,
            time_utility=urgency.time_utility,
            time_budget_s=time_budget_s,
        )
        return self.ask(request, on_segment=on_segment)

    def ask(self, request: PlanRequest, *, on_segment: Callable[[Segment], None] | None = None) -> PlanHandle:
        """Asks for a plan with every field of the request in the caller's hands; its id must be a new UUID in hex."""
        handle = PlanHandle(
            request, send_report=self.report, request_cancel=self._request_cancel, on_segment=on_segment
        )
        self._bridge.post(functools.partial(self._begin, handle))
        return handle

    def report(self, report: SegmentReport) -> None:
        """Tells the planner how a segment stands; ``PlanHandle.report`` is the easier way."""
        self._reports.publish(conversions.from_report(report))

    def _request_cancel(self, handle: PlanHandle) -> None:
        self._bridge.post(functools.partial(self._cancel, handle))

    # Everything below runs in the executor's thread

    def _begin(self, handle: PlanHandle) -> None:
        goal = _Goal(handle=handle, waits_since_s=self._clock.now_s())
        self._goals[handle.goal_id] = goal
        self._advance(goal)

    def _advance(self, goal: _Goal) -> None:
        """Sends the goal as soon as the planner is there; gives up when it shows no life for too long."""
        now_s = self._clock.now_s()
        if not goal.is_sent and self._action.server_is_ready():
            self._send(goal)
        if goal.is_sent and now_s - goal.heartbeat_at_s >= HEARTBEAT_PERIOD_S:
            goal.heartbeat_at_s = now_s
            self._heartbeats.publish(msgs.Heartbeat(goal_id=goal.handle.goal_id, robot_id=self._robot_id))
        since_s = max(goal.waits_since_s, self._status_at_s) if goal.remote else goal.waits_since_s
        if now_s - since_s > self._server_timeout_s:
            self._give_up(goal)

    def _give_up(self, goal: _Goal) -> None:
        is_alive = self._clock.now_s() - self._status_at_s <= self._server_timeout_s
        if is_alive and not goal.is_sent:
            not_active = f"planner {self._planner} takes no goals yet (or not any more); wait until it is active"
            self._end(goal, PlannerError(ErrorCode.NOT_ACTIVE, not_active))
            return
        self._lose(goal, f"shows no life for {self._server_timeout_s:g} s")

    def _send(self, goal: _Goal) -> None:
        goal.is_sent, goal.waits_since_s = True, self._clock.now_s()
        try:
            future = self._action.send_goal_async(
                conversions.to_goal(goal.handle.request),
                feedback_callback=functools.partial(self._on_feedback, goal),
                goal_uuid=UUID(uuid=list(bytes.fromhex(goal.handle.goal_id))),
            )
        except PlannerError as error:
            self._end(goal, error)
            return
        future.add_done_callback(functools.partial(self._on_response, goal))

    def _on_response(self, goal: _Goal, future: Future) -> None:
        remote, now_s = future.result(), self._clock.now_s()
        if not remote.accepted:
            self._lose(goal, "rejected the goal without a reason")
            return
        goal.remote, goal.waits_since_s, goal.listed_at_s = remote, now_s, now_s
        remote.get_result_async().add_done_callback(functools.partial(self._on_result, goal))
        if goal.is_cancelled or goal.handle.is_done:
            remote.cancel_goal_async()

    def _cancel(self, handle: PlanHandle) -> None:
        if (goal := self._goals.get(handle.goal_id)) is None:
            return
        goal.is_cancelled = True
        if goal.remote is not None:
            goal.remote.cancel_goal_async()
        elif not goal.is_sent:
            self._end(goal, PlannerError(ErrorCode.CANCELLED, "cancelled before the planner was there"))

    def _on_feedback(self, goal: _Goal, message: PlanTask.Impl.FeedbackMessage) -> None:
        self._take(goal, message.feedback.segments, message.feedback.num_segments)

    def _take(self, goal: _Goal, messages: list[msgs.Segment], num_segments: int) -> None:
        """Delivers segments; asks for those that are missing."""
        try:
            segments = [conversions.to_segment(message) for message in messages]
        except PlannerError as error:
            self._node.get_logger().error(f"segments of goal {goal.handle.goal_id} are garbage: {error}")
            segments = []
        goal.handle.offer(segments, num_segments)
        if goal.handle.inbox.has_gap:
            self._resync(goal)

    def _resync(self, goal: _Goal) -> None:
        now_s = self._clock.now_s()
        is_waiting = goal.asked_at_s is not None and now_s - goal.asked_at_s < LIMBO_S
        if is_waiting or not self._get_segments.service_is_ready():
            return
        goal.asked_at_s = now_s
        request = GetSegments.Request(goal_id=goal.handle.goal_id, first_index=goal.handle.inbox.next_index)
        self._get_segments.call_async(request).add_done_callback(functools.partial(self._on_segments, goal))

    def _on_segments(self, goal: _Goal, future: Future) -> None:
        response, goal.asked_at_s = future.result(), None
        if goal.handle.is_done:
            return
        if response.error_code != ErrorCode.NONE:
            if self._is_in_limbo(goal):  # else it was another planner of that name, which is about to end itself
                self._lose(goal, "does not know the goal (any more): it was restarted")
            return
        self._take(goal, response.segments, response.num_segments)
        if response.is_finished and self._is_in_limbo(goal):
            code, text = conversions.to_error(response.goal_error_code, response.goal_error_msg)
            self._end(goal, PlannerError(code, text))

    def _on_result(self, goal: _Goal, future: Future) -> None:
        response = future.result()
        if response.status == GoalStatus.STATUS_UNKNOWN:
            self._lose(goal, "does not know the goal (any more): it was restarted")
            return
        try:
            result = conversions.to_result(response.result, goal.handle.goal_id)
        except PlannerError as error:
            self._end(goal, PlannerError(ErrorCode.ENGINE_FAILED, f"the planner's result is garbage: {error}"))
            return
        self._forget(goal, result)

    def _on_status(self, status: msgs.PlannerStatus) -> None:
        self._status_at_s = self._clock.now_s()
        self._is_active = status.state == msgs.PlannerStatus.ACTIVE
        if self._is_active:
            self._activated.set()
        else:
            self._activated.clear()
        listed = {progress.goal_id: progress for progress in status.goals}
        for goal in list(self._goals.values()):
            if goal.remote is None:
                continue
            if (progress := listed.get(goal.handle.goal_id)) is not None:
                goal.listed_at_s = self._status_at_s
                self._take(goal, [], progress.num_segments)

    def _is_in_limbo(self, goal: _Goal) -> bool:
        """True if the planner's status has not named the goal for a while, and there is no result either."""
        return goal.remote is not None and self._status_at_s - goal.listed_at_s > LIMBO_S

    def _tick(self) -> None:
        for goal in list(self._goals.values()):
            self._advance(goal)
            if not goal.handle.is_done and (goal.handle.inbox.has_gap or self._is_in_limbo(goal)):
                self._resync(goal)

    def _lose(self, goal: _Goal, what: str) -> None:
        self._end(
            goal, PlannerError(ErrorCode.SERVER_UNREACHABLE, f"planner {self._planner} {what}; ask again when it is up")
        )

    def _end(self, goal: _Goal, error: PlannerError) -> None:
        if error.code is not ErrorCode.NONE:
            self._node.get_logger().warning(f"goal {goal.handle.goal_id} ended: {error}")
        self._goals.pop(goal.handle.goal_id, None)
        goal.handle.fail(error)

    def _forget(self, goal: _Goal, result: PlanResult) -> None:
        self._goals.pop(goal.handle.goal_id, None)
        goal.handle.finish(replace(result, request_id=goal.handle.goal_id))
