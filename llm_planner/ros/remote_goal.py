# SPDX-License-Identifier: Apache-2.0
"""One goal on its way through the network: whatever gets lost is asked for again, and it always ends.

DDS drops what is sent while two sides are still finding each other: the goal itself, its acceptance, the request for
its result. The planner's word that it has the goal (status, feedback, a second goal of the same id being rejected) is
as good as the acceptance that was lost.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from action_msgs.msg import GoalStatus
from rclpy.action.client import ActionClient, ClientGoalHandle
from rclpy.client import Client
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.task import Future
from unique_identifier_msgs.msg import UUID

import llm_planner.msg as msgs
from llm_planner.action import PlanTask
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.request import OverrunStrategy
from llm_planner.ros import conversions
from llm_planner.ros.guard import Guard
from llm_planner.ros.plan_handle import CARRIED_OUT, PlanHandle
from llm_planner.srv import GetSegments

RETRY_S = 1.0  # after which a request that was not answered is sent again
HEARTBEAT_PERIOD_S = 1.0
ANSWER_S = 1.0  # behind the end of a time budget: an answer that was lost comes again, and the robot acts on its own
LIMBO_S = 1.5  # how long a goal may be missing from the planner's status before the client asks
UNASKABLE_S = 3.0  # the same until it is lost, where the planner has no service to ask: a new one loads its model
NEVER_S = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """A robot's connections to one planner.

    Attributes:
        robot_id: The robot that asks.
        planner: Full name of the planner node.
        server_timeout_s: Without a sign of life from the planner for this long, a goal is lost.
        loading_timeout_s: How long a goal waits for a planner that says that it loads its model.
        guard: Makes a callback that raises nothing.
    """

    node: Node
    action: ActionClient
    get_segments: Client
    heartbeats: Publisher
    robot_id: str
    planner: str
    server_timeout_s: float
    loading_timeout_s: float
    clock: Clock
    guard: Guard


class RemoteGoal:
    """The client's side of one goal; everything runs in the executor's thread. Tick it a few times a second.

    Args:
        endpoints: Connections to the planner.
        handle: What the robot holds of the goal.
        behind: Goals that have to end before this one is sent.
    """

    def __init__(self, endpoints: Endpoints, handle: PlanHandle, behind: Sequence[PlanHandle] = ()) -> None:
        self._endpoints = endpoints
        self._handle = handle
        self._behind = behind
        self._uuid = UUID(uuid=list(bytes.fromhex(handle.goal_id)))
        self._remote: ClientGoalHandle | None = None  # once the planner has the goal
        self._requests: list[Future] = []  # of goal, cancel and result, answered or not
        self._asked: Future | None = None  # for segments, the last time
        self._begun_at_s = endpoints.clock.now_s()
        self._sent_at_s = NEVER_S
        self._heartbeat_at_s = NEVER_S
        self._asked_at_s = NEVER_S  # for segments, without an answer yet
        self._listed_at_s = NEVER_S  # by the planner's status, or when it took the goal
        self._cancel_sent_at_s = NEVER_S
        self._is_cancelled = False

    @property
    def is_done(self) -> bool:
        """Whether the goal has ended."""
        return self._handle.is_done

    @property
    def is_cancelled(self) -> bool:
        """Whether the planner was, or will be, asked to end it."""
        return self._is_cancelled

    @property
    def handle(self) -> PlanHandle:
        """What the robot holds of the goal."""
        return self._handle

    def tick(self, status_at_s: float, loading_at_s: float = NEVER_S) -> None:
        """Does what is due.

        Args:
            status_at_s: When the planner last showed life.
            loading_at_s: When it last said that it was loading its model.
        """
        now_s = self._endpoints.clock.now_s()
        if self._remote is None and now_s - self._sent_at_s >= RETRY_S:
            self._send(now_s)
        if self.is_done:  # refused
            return
        if self._sent_at_s > NEVER_S and now_s - self._heartbeat_at_s >= HEARTBEAT_PERIOD_S:
            self._heartbeat_at_s = now_s
            robot_id = self._endpoints.robot_id
            self._endpoints.heartbeats.publish(msgs.Heartbeat(goal_id=self._handle.goal_id, robot_id=robot_id))
        if self._is_cancelled and now_s - self._cancel_sent_at_s >= RETRY_S:
            self._send_cancel(now_s)
        if self._handle.has_gap or self._is_in_limbo(status_at_s):
            self._resync(status_at_s)
        self._give_up_in_time(now_s, status_at_s, loading_at_s)

    def cancel(self) -> None:
        """Asks the planner to end the goal."""
        self._is_cancelled = True
        if self._sent_at_s == NEVER_S:
            self._end(PlannerError(ErrorCode.CANCELLED, "cancelled before the planner was there"))
        else:
            self._send_cancel(self._endpoints.clock.now_s())

    def call_off(self) -> Future | None:
        """Asks the planner to end a goal that has ended here.

        Returns:
            Done when the planner has answered; None if it never got the goal.
        """
        if self._sent_at_s == NEVER_S:
            return None
        if self._remote is None:
            self._adopt(self._endpoints.clock.now_s())  # which cancels what has ended
        else:
            self._send_cancel(self._endpoints.clock.now_s())
        return self._requests[-1]

    def _send_cancel(self, now_s: float) -> None:
        """Cancels as soon as the planner has the goal."""
        if self._remote is not None:
            self._cancel_sent_at_s = now_s
            self._requests.append(self._remote.cancel_goal_async())

    def on_progress(self, progress: msgs.GoalProgress, now_s: float) -> None:
        """Takes the planner's word that it works on the goal."""
        self._adopt(now_s)
        self._listed_at_s = now_s
        self._take([], progress.num_segments, now_s)

    # Sending

    def _send(self, now_s: float) -> None:
        """Sends the goal, with what is left of its time budget, if the planner is there, and may take it."""
        try:
            goal = conversions.to_goal(self._handle.request)
        except PlannerError as error:
            self._end(error)
            return
        left_s = self._budget_left_s(now_s)
        is_behind = not all(other.is_done for other in self._behind)
        if left_s <= 0 or is_behind or not self._endpoints.action.server_is_ready():
            return
        if left_s < math.inf:
            goal.time_budget_s = round(left_s, 3) or left_s  # people read it in messages
        self._sent_at_s = now_s
        guard = self._endpoints.guard
        on_feedback = guard(self._on_feedback)
        sent = self._endpoints.action.send_goal_async(goal, feedback_callback=on_feedback, goal_uuid=self._uuid)
        sent.add_done_callback(guard(self._on_response))
        self._requests.append(sent)

    def _on_response(self, sent: Future) -> None:
        """A planner rejects only a goal that it has already, so either answer means that it has it."""
        if not sent.cancelled():
            self._adopt(self._endpoints.clock.now_s())

    def _adopt(self, now_s: float) -> None:
        """Goes on with a goal that the planner has: asks for its result."""
        if self._remote is not None:
            return
        self._listed_at_s = now_s
        accepted = PlanTask.Impl.SendGoalService.Response(accepted=True)
        self._remote = ClientGoalHandle(self._endpoints.action, self._uuid, accepted)
        result = self._remote.get_result_async()
        result.add_done_callback(self._endpoints.guard(self._on_result))
        self._requests.append(result)
        if self._is_cancelled or self.is_done:
            self._send_cancel(now_s)

    # What comes in

    def _on_feedback(self, message: PlanTask.Impl.FeedbackMessage) -> None:
        """Delivers what came. Segments that cannot be read are asked for, as if they had been lost."""
        now_s, feedback = self._endpoints.clock.now_s(), message.feedback
        self._adopt(now_s)
        try:
            self._take(feedback.segments, feedback.num_segments, now_s)
        except PlannerError as error:
            self._endpoints.node.get_logger().error(f"segments are refused: {error}", throttle_duration_sec=1.0)
            self._take([], feedback.num_segments, now_s)

    def _take(self, messages: list[msgs.Segment], num_segments: int, status_at_s: float) -> None:
        """Delivers segments of this goal; asks for those that are missing.

        Raises:
            PlannerError: As of ``to_segment``. Then none of them is delivered.
        """
        segments = [conversions.to_segment(message, self._handle.goal_id) for message in messages]
        self._handle.offer(segments, num_segments)
        if self._handle.has_gap:
            self._resync(status_at_s)

    def _on_result(self, future: Future) -> None:
        if future.cancelled():
            return
        response = future.result()
        if response.status == GoalStatus.STATUS_UNKNOWN:
            return  # from a planner that never had the goal; the status will tell
        try:
            self._handle.finish(conversions.to_result(response.result, self._handle.goal_id))
        except PlannerError as error:
            self._end(PlannerError(ErrorCode.ENGINE_FAILED, f"the planner's result is garbage: {error}"))

    # Re-sync

    def _is_in_limbo(self, status_at_s: float) -> bool:
        """True if the planner is alive, but has not named the goal for a while, and there is no result either."""
        return self._remote is not None and status_at_s - self._listed_at_s > LIMBO_S

    def _resync(self, status_at_s: float) -> None:
        now_s = self._endpoints.clock.now_s()
        if not self._endpoints.get_segments.service_is_ready():
            if self._is_in_limbo(status_at_s) and status_at_s - self._listed_at_s > UNASKABLE_S:
                self._lose("has a status without the goal, and cannot be asked for it: it was restarted")
            return
        if now_s - self._asked_at_s < RETRY_S:
            return
        self._asked_at_s = now_s
        self._forget_question()
        request = GetSegments.Request(goal_id=self._handle.goal_id, first_index=self._handle.next_index)
        self._asked = self._endpoints.get_segments.call_async(request)
        on_segments = functools.partial(self._on_segments, self._is_in_limbo(status_at_s))
        self._asked.add_done_callback(self._endpoints.guard(on_segments))

    def _forget_question(self) -> None:
        if self._asked is not None:
            self._endpoints.get_segments.remove_pending_request(self._asked)
            self._asked = None

    def _on_segments(self, is_in_limbo: bool, future: Future) -> None:
        response, self._asked_at_s = future.result(), NEVER_S
        if response.error_code != ErrorCode.NONE:
            if is_in_limbo:  # else it was another planner of that name, which is about to end itself
                self._lose("does not know the goal (any more): it was restarted")
            return
        code, text = conversions.to_error(response.goal_error_code, response.goal_error_msg)
        if code in CARRIED_OUT:  # it has ended so, or not yet
            try:
                self._take(response.segments, response.num_segments, self._listed_at_s)
            except PlannerError as error:  # the next answer would be the same
                what = f"planner {self._endpoints.planner} has a segment that this robot cannot read: {error}"
                self._abandon(PlannerError(ErrorCode.ENGINE_FAILED, what))
                return
        if response.is_finished and is_in_limbo:
            self._end(PlannerError(code, text))

    # Ends

    def _give_up_in_time(self, now_s: float, status_at_s: float, loading_at_s: float) -> None:
        timeout_s = self._endpoints.server_timeout_s
        if self._has_nothing_in_time(now_s):
            what = (
                f"nothing came from planner {self._endpoints.planner} within {self._handle.request.time_budget_s:g} s"
            )
            self._abandon(PlannerError(ErrorCode.BUDGET_EXCEEDED, what))
        elif self._remote is not None:
            if now_s - max(self._listed_at_s, status_at_s) > timeout_s:
                self._lose(f"shows no life for {timeout_s:g} s")
        elif now_s - self._waited_until_s(loading_at_s) > timeout_s:
            if self._sent_at_s == NEVER_S and now_s - status_at_s <= timeout_s:
                state = "still loads its model" if loading_at_s == status_at_s else "takes no goals yet (or any more)"
                what = f"planner {self._endpoints.planner} {state}; ask again when it is active"
                self._end(PlannerError(ErrorCode.NOT_ACTIVE, what))
            else:
                self._lose(f"does not answer for {timeout_s:g} s")

    def _waited_until_s(self, loading_at_s: float) -> float:
        """Returns from when on the planner is late: it may load for a while."""
        return max(self._begun_at_s, min(loading_at_s, self._begun_at_s + self._endpoints.loading_timeout_s))

    def _budget_left_s(self, now_s: float) -> float:
        """Returns how much of the time budget is left, whatever passed while no planner had the goal."""
        budget_s = self._handle.request.time_budget_s
        return math.inf if budget_s is None else self._begun_at_s + float(budget_s) - now_s

    def _has_nothing_in_time(self, now_s: float) -> bool:
        """Whether the time budget is over, and the planner has sent neither a segment nor a result."""
        is_skipping = self._remote is not None and self._handle.request.overrun is OverrunStrategy.SKIP_NEXT
        return self._handle.next_index == 0 and not is_skipping and self._budget_left_s(now_s) <= -ANSWER_S

    def _lose(self, what: str) -> None:
        planner = self._endpoints.planner
        error = PlannerError(ErrorCode.SERVER_UNREACHABLE, f"planner {planner} {what}; ask again when it is up")
        self._abandon(error)

    def _abandon(self, error: PlannerError) -> None:
        """Ends the goal without the planner's word."""
        now_s = self._endpoints.clock.now_s()
        if self._sent_at_s > NEVER_S:
            self._adopt(now_s)  # else rclpy keeps the callback for feedback forever
        self._send_cancel(now_s)  # if it is alive after all, the robot must not stay busy there
        self._end(error)

    def _end(self, error: PlannerError) -> None:
        if error.code is not ErrorCode.NONE:
            self._endpoints.node.get_logger().warning(f"goal {self._handle.goal_id} ended: {error}")
        self._handle.fail(error)
        self._forget_question()
        for request in self._requests:
            request.cancel()  # else rclpy keeps it forever
