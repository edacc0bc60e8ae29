# SPDX-License-Identifier: Apache-2.0
"""The PlanTask action: goal = admission, accepted = hand over, execute = publish what the server says.

A goal lives much longer than a callback. rclpy would keep it in a coroutine, which its executors poll without a pause
for as long as the goal lasts (ros2/rclpy#1223); here nothing waits: goals are records in a book that the server fills,
its events come in through a queue, and the callbacks only forward.

Messages are anonymous, so nothing of one is read before its goal is known, and is known to be unfinished.
"""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rclpy.action.server import CancelResponse, ServerGoalHandle
from rclpy.node import Node
from std_msgs.msg import String

import llm_planner.msg as msgs
from llm_planner.action import PlanTask
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.core.validation import require_goal_id
from llm_planner.ros import conversions, qos
from llm_planner.ros.action_server import EventActionServer
from llm_planner.ros.bridge import Bridge
from llm_planner.ros.guarded_executor import note_error
from llm_planner.ros.steady import steady_timer
from llm_planner.serving import event_log
from llm_planner.serving.events import Event, Finished, SegmentReady
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.server import PlanServer
from llm_planner.srv import GetSegments

FEEDBACK_PERIOD_S = 0.01
LOG_PERIOD_S = 1.0
"""Refusals are logged at most once in this time: any client can cause one."""


@dataclass(slots=True)
class _Line:
    """The line to the client of a goal that has not got its result yet.

    Attributes:
        published: How many segments its last feedback counted, and whether the plan was complete.
        published_at_s: When that was.
        has_news: Whether the next feedback waits for its time.
    """

    handle: ServerGoalHandle
    published: tuple[int, bool] = (0, False)
    published_at_s: float = float("-inf")
    has_news: bool = False


class PlanAction:
    """Serves goals, re-sync and reports of one node; everything runs in the node's executor thread.

    Args:
        node: Owner of the action, service and topics.
        clock: For heartbeats and the memory of finished goals; stamps the event log.
        book: The goals, which post their events here.
        on_result: Receives how every goal ended, those that were refused included.

    Attributes:
        server: Plans; None while the node is not active.
        config: The planner's, whose limits hold.
    """

    def __init__(
        self,
        node: Node,
        clock: Clock,
        book: GoalBook,
        on_result: Callable[[PlanResult], None] = lambda _: None,
    ) -> None:
        self._node = node
        self._clock = clock
        self._book = book
        self._on_result = on_result
        self.server: PlanServer | None = None
        self.config = PlannerConfig()
        self._lines: dict[str, _Line] = {}
        self._admitted: PlanRequest | None = None  # whose goal rclpy is about to accept
        self._action = EventActionServer(
            node,
            PlanTask,
            "~/plan_task",
            admit=self._admit,
            accepted=self._on_accepted,
            client_gone=self._on_client_gone,
            cancel_callback=self._on_cancel,
        )
        self._log_publisher = node.create_publisher(String, "~/goal_events", qos.GOAL_EVENTS)
        self._num_logged = 0
        self._feedback_timer = steady_timer(node, FEEDBACK_PERIOD_S, self._flush)
        self._feedback_timer.cancel()
        self._service = node.create_service(GetSegments, "~/get_segments", self._on_get_segments)
        self._subscriptions = [
            node.create_subscription(msgs.SegmentReport, "~/report", self._on_report, qos.REPORTS),
            node.create_subscription(msgs.Heartbeat, "~/heartbeat", self._on_heartbeat, qos.HEARTBEATS),
        ]
        bridge = Bridge(node, lambda error, *_: note_error(node, error))
        book.post = functools.partial(bridge.post, self.on_event)

    def on_event(self, event: Event) -> None:
        """Tells the client what has happened to its goal; what came behind its end is passed over.

        Feedback goes out at once, or within 10 ms of the last one, together with what follows.
        """
        line, now_s = self._lines.get(event.request_id), self._clock.now_s()
        if line is None:
            return
        if isinstance(event, Finished):
            self._finish(event.result)
            return
        if now_s - line.published_at_s >= FEEDBACK_PERIOD_S:
            self._publish(event.request_id, line)
        else:
            line.has_news = True
            if self._feedback_timer.is_canceled():
                self._feedback_timer.reset()
        if isinstance(event, SegmentReady):
            self._log(event_log.segment_sent(event.request_id, event.segment, now_s))

    def _log(self, line: Mapping[str, Any]) -> None:
        """Publishes a line of the event log with its number: a gap in the numbers shows what was lost."""
        line = {"version": event_log.VERSION, "number": self._num_logged, **line}
        self._log_publisher.publish(String(data=json.dumps(line)))
        self._num_logged += 1

    def _finish(self, result: PlanResult) -> None:
        """Ends a goal with the server's result."""
        line = self._lines.pop(result.request_id)
        self._node.get_logger().info(f"goal {result.request_id} {_ending(result)}")
        self._action.finish(line.handle, conversions.from_result(result))
        self._log(event_log.finished(result, self._clock.now_s()))
        self._on_result(result)

    def end(self, goal_id: str, verdict: PlannerError) -> None:
        """Ends a goal because the node says so: through the server, which tells its engine."""
        if self.server is not None and self.server.cancel(goal_id, verdict.code, verdict.message):
            return
        ended = self._book.end(goal_id, verdict.code, verdict.message, self._clock.now_s())
        goal = self._book.get(goal_id)
        result = ended.result if ended is not None else None if goal is None else goal.result
        if goal_id in self._lines:  # at once: who shuts down may not wait for the event
            self._finish(result or _refusal(goal_id, verdict))

    def end_all(self, verdict: PlannerError) -> None:
        """Ends every goal whose client has no result yet."""
        for goal_id in list(self._lines):
            self.end(goal_id, verdict)

    def close(self) -> None:
        """Takes everything off the node again."""
        self._action.destroy()
        self._node.destroy_timer(self._feedback_timer)
        self._node.destroy_service(self._service)
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._node.destroy_publisher(self._log_publisher)

    def _admit(self, goal: PlanTask.Goal, goal_id: str) -> PlanTask.Result | None:
        """Hands a goal over to the server; returns its result if it is refused."""
        if self.server is None:
            message = "the planner is not active yet, or not any more; try later"
            return self._refuse(goal_id, PlannerError(ErrorCode.NOT_ACTIVE, message))
        try:
            request = conversions.to_request(goal, goal_id, self.config)
            self.server.submit(request)
        except PlannerError as error:
            return self._refuse(goal_id, error)
        self._admitted = request
        return None

    def _refuse(self, goal_id: str, error: PlannerError) -> PlanTask.Result:
        self._node.get_logger().warning(f"goal {goal_id} refused: {error}", throttle_duration_sec=LOG_PERIOD_S)
        refusal = _refusal(goal_id, error)
        self._on_result(refusal)
        return conversions.from_result(refusal)

    def _on_accepted(self, handle: ServerGoalHandle) -> None:
        request, self._admitted = self._admitted, None
        assert request is not None
        self._lines[request.request_id] = _Line(handle)
        handle.execute()
        self._log(event_log.accepted(request, self._clock.now_s()))

    def _on_client_gone(self, handle: ServerGoalHandle) -> None:
        message = "the client went away before it could be told that its goal was accepted"
        self.end(bytes(handle.goal_id.uuid).hex(), PlannerError(ErrorCode.CLIENT_GONE, message))

    def _on_cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        goal = self._book.get(bytes(handle.goal_id.uuid).hex())
        if goal is None or goal.result is not None:
            return CancelResponse.REJECT
        if self.server is not None:
            self.server.cancel(goal.request_id)
        return CancelResponse.ACCEPT

    def _on_report(self, message: msgs.SegmentReport) -> None:
        try:
            self._require_segment(message.goal_id, message.index)
            report = conversions.to_report(message)
        except PlannerError as error:
            self._node.get_logger().warning(f"report ignored: {error}", throttle_duration_sec=LOG_PERIOD_S)
            return
        self._book.note_life(report.request_id, self._clock.now_s(), heartbeat=False)
        if self.server is not None:
            self.server.report(report)
        self._log(event_log.reported(report, self._clock.now_s()))

    def _require_segment(self, goal_id: str, index: int) -> None:
        goal = self._book.get(goal_id)
        if goal is None or goal.result is not None or index >= len(goal.segments):
            raise PlannerError(ErrorCode.UNKNOWN_GOAL, "it is of no segment of an unfinished goal")

    def _on_heartbeat(self, message: msgs.Heartbeat) -> None:
        self._book.note_life(message.goal_id, self._clock.now_s(), heartbeat=True)

    def _on_get_segments(self, request: GetSegments.Request, response: GetSegments.Response) -> GetSegments.Response:
        try:
            goal = self._book.find(require_goal_id(request.goal_id))
        except PlannerError as error:
            response.error_code, response.error_msg = int(error.code), error.message
            return response
        first, last = request.first_index, len(goal.segments) - 1
        response.segments = [
            conversions.from_segment(s, request.goal_id, is_last=goal.is_complete and s.index == last)
            for s in goal.segments[first:]
        ]
        response.num_segments, response.is_complete = len(goal.segments), goal.is_complete
        response.is_partial = goal.is_partial
        if goal.result is not None:
            response.is_finished = True
            response.goal_error_code, response.goal_error_msg = int(goal.result.error_code), goal.result.error_msg
        return response

    def _flush(self) -> None:
        """Publishes one feedback per goal that has news; its timer is stopped when there is none."""
        self._feedback_timer.cancel()
        for goal_id, line in self._lines.items():
            if line.has_news:
                self._publish(goal_id, line)

    def _publish(self, goal_id: str, line: _Line) -> None:
        """Publishes what is new; a goal that has ended meanwhile gets its result, with all of it, next."""
        goal, line.has_news = self._book.get(goal_id), False
        if goal is None or goal.result is not None:
            return
        segments = goal.segments
        if line.published == (len(segments), goal.is_complete):
            return
        feedback = PlanTask.Feedback(
            segments=[conversions.from_segment(s, goal_id) for s in segments[line.published[0] :]],
            num_segments=len(segments),
            is_complete=goal.is_complete,
            is_partial=goal.is_partial,
        )
        line.published, line.published_at_s = (len(segments), goal.is_complete), self._clock.now_s()
        line.handle.publish_feedback(feedback)


def _refusal(goal_id: str, error: PlannerError) -> PlanResult:
    return PlanResult(request_id=goal_id, error_code=error.code, error_msg=error.message)


def _ending(result: PlanResult) -> str:
    if result.error_code is ErrorCode.NONE:
        return f"is done; {result.error_msg}" if result.error_msg else "is done"
    return f"failed: {PlannerError(result.error_code, result.error_msg)}"
