# SPDX-License-Identifier: Apache-2.0
"""The client library: a robot asks for plans and gets segments, without a thought for the network.

Segments come as feedback, which may be lost. Every feedback and the planner's status (twice a second) carry how many
segments there are, so a gap is noticed and filled by ``GetSegments``; the result brings the whole plan as a last
resort. Heartbeats tell the planner that a client still wants the plan; the planner's status tells the client that
a planner is still at work.
"""

import functools
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.serialization import serialize_message

import llm_planner.msg as msgs
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.pose import Pose
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.segment import Segment, SegmentReport
from llm_planner.core.text import node_name
from llm_planner.core.validation import require_goal_id
from llm_planner.ros import conversions, qos
from llm_planner.ros.bridge import Bridge
from llm_planner.ros.guard import guarded
from llm_planner.ros.plan_action_client import PlanActionClient
from llm_planner.ros.plan_handle import PlanHandle
from llm_planner.ros.remote_goal import NEVER_S, Endpoints, RemoteGoal
from llm_planner.ros.spinning import SpunNode
from llm_planner.ros.steady import steady_timer
from llm_planner.srv import GetSegments

TICK_S = 0.25
LEAVING_S = 0.5
"""How long a node of ``spinning`` waits for the planner's answers to its last cancels."""
MIN_SERVER_TIMEOUT_S = 1.5
"""Three periods of the planner's status: one that comes late ends no goal."""


class PlannerClient:
    """Asks one planner for plans, for one robot.

    Args:
        node: The robot's node; spun by the caller (with any executor). Call ``close`` when it is spun no more,
            unless it is a node of ``spinning``.
        robot_model: Name of the robot model, e.g. ``tello``.
        robot_id: The robot that asks; the node's full name unless given.
        planner: Full name of the planner node; PlannerError INVALID_CONFIG if no node can have it.
        server_timeout_s: Without a sign of life from the planner for this long, a goal ends with SERVER_UNREACHABLE;
            PlannerError INVALID_CONFIG below ``MIN_SERVER_TIMEOUT_S``.
        loading_timeout_s: How long a goal waits for a planner that says that it loads its model; ``server_timeout_s``
            later it ends with NOT_ACTIVE.
        clock: Source of monotonic time.
        on_error: Called first, with the exception, if a callback of the client fails unexpectedly, ``on_segment``
            included: stops the robot. Then the client's goals are cancelled.
    """

    def __init__(  # noqa: PLR0913 -- all but two have defaults
        self,
        node: Node,
        robot_model: str,
        *,
        robot_id: str | None = None,
        planner: str = "/planner",
        server_timeout_s: float = 5.0,
        loading_timeout_s: float = 120.0,
        clock: Clock | None = None,
        on_error: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        planner = node_name(planner)
        if not server_timeout_s >= MIN_SERVER_TIMEOUT_S:  # so that NaN is refused too
            what = f"server_timeout_s is {server_timeout_s}; give at least {MIN_SERVER_TIMEOUT_S:g} s"
            raise PlannerError(ErrorCode.INVALID_CONFIG, what)
        self._robot_model, self._client_id = robot_model, node.get_fully_qualified_name()
        self._clock = clock or MonotonicClock()
        self._goals: dict[str, RemoteGoal] = {}
        self._status_at_s = self._loading_at_s = NEVER_S
        self._is_active = False
        self._activated = threading.Event()
        self._handles: list[PlanHandle] = []  # of goals that may be unfinished
        self._is_closed = False
        self._lock = threading.Lock()  # of the handles, which any thread may add to, and whether there may be more
        self._on_error = on_error
        self._bridge = Bridge(node, self._fail)
        self._endpoints = Endpoints(
            node=node,
            action=PlanActionClient(
                node,
                f"{planner}/plan_task",
                feedback_sub_qos_profile=QoSProfile(depth=qos.FEEDBACK_DEPTH),
                **qos.ACTION_SERVICES,
            ),
            get_segments=node.create_client(GetSegments, f"{planner}/get_segments"),
            heartbeats=node.create_publisher(msgs.Heartbeat, f"{planner}/heartbeat", qos.HEARTBEATS),
            robot_id=robot_id or self._client_id.lstrip("/"),
            planner=planner,
            server_timeout_s=server_timeout_s,
            loading_timeout_s=loading_timeout_s,
            clock=self._clock,
            guard=self._guard,
        )
        self._reports = node.create_publisher(msgs.SegmentReport, f"{planner}/report", qos.REPORTS)
        node.create_subscription(msgs.PlannerStatus, f"{planner}/status", self._guard(self._on_status), qos.STATUS)
        self._timer = steady_timer(node, TICK_S, self._guard(self._tick))
        self._timer.cancel()  # until there is a goal to look after
        if isinstance(node, SpunNode):
            node.at_end.append(self._leave)

    @property
    def robot_id(self) -> str:
        """The robot that asks."""
        return self._endpoints.robot_id

    @property
    def received_at_s(self) -> float:
        """When the planner last showed life, on the client's clock; minus infinity if it never did."""
        return self._status_at_s

    def now_s(self) -> float:
        """Returns the time of the client's clock."""
        return self._clock.now_s()

    @property
    def is_planner_active(self) -> bool:
        """Whether the planner showed life lately and takes goals."""
        return self._is_active and self._clock.now_s() - self._status_at_s <= self._endpoints.server_timeout_s

    def wait_for_planner(self, timeout_s: float) -> bool:
        """Waits until the planner takes goals (blocking: not in a callback of the node); returns whether it does."""
        if not self.is_planner_active:  # also one that was, and is silent now: its next status counts
            self._activated.clear()
        self._activated.wait(timeout_s)
        return self.is_planner_active

    def plan(
        self,
        instruction: str,
        *,
        scene: str = "",
        urgency: Urgency = Urgency.NORMAL,
        time_budget_s: float | None = None,
        start_pose: Pose | None = None,
        on_segment: Callable[[Segment], None] | None = None,
    ) -> PlanHandle:
        """Asks for a plan and returns at once; whatever goes wrong is in the handle's result.

        Args:
            instruction: What to do.
            scene: What the robot sees.
            urgency: How much it matters when the plan comes.
            time_budget_s: Hard limit from now until the first segment; None for none. If nothing comes, the handle ends
                with BUDGET_EXCEEDED.
            start_pose: Where the robot is, from its home: what the safety gate counts from.
            on_segment: Called with each segment, in order, in the executor's thread; iterate over the handle without.
                It must return at once: that thread sends the heartbeats; without them the goal ends with CLIENT_GONE.
        """
        request = PlanRequest(
            request_id=uuid.uuid4().hex,
            robot_id=self.robot_id,
            robot_model=self._robot_model,
            instruction=instruction,
            scene=scene,
            urgency=urgency,
            time_budget_s=time_budget_s,
            start_pose=start_pose,
        )
        return self.ask(request, on_segment=on_segment)

    def ask(self, request: PlanRequest, *, on_segment: Callable[[Segment], None] | None = None) -> PlanHandle:
        """Asks for a plan with every field of the request in the caller's hands; its id must be a new UUID in hex.

        A request that no message can hold ends at once, and replaces nothing. Behind a goal of the same robot that this
        client has cancelled, and the planner has not ended yet, a request waits, while its time budget runs.

        An urgent request replaces the goals of the same robot that are not urgent: from now on they deliver no segment,
        and end with SUPERSEDED, or, if the planner refuses the urgent one, with CANCELLED. Without a ``client_id`` a
        request gets the full name of the node.
        """
        request = replace(request, client_id=request.client_id or self._client_id)
        handle = PlanHandle(
            request, send_report=self.report, request_cancel=self._request_cancel, on_segment=on_segment
        )
        try:
            require_sendable(request)
        except PlannerError as error:
            handle.fail(error)
            return handle
        with self._lock:
            self._handles = [other for other in self._handles if not other.is_done]
            replaced = [other for other in self._handles if _replaces(request, other.request)]
            self._handles.append(handle)
            is_closed = self._is_closed
        if is_closed:
            _end_unheard(handle)
            return handle
        for other in replaced:
            other.close()
            handle.future.add_done_callback(functools.partial(_cancel_unless_done, other))
        self._bridge.post(functools.partial(self._begin, handle))
        return handle

    def report(self, report: SegmentReport) -> None:
        """Tells the planner how a segment stands; ``PlanHandle.report`` is the easier way."""
        if not self._is_closed:
            self._reports.publish(conversions.from_report(report))

    def close(self) -> None:
        """Ends all goals with SHUTTING_DOWN, also those to come: the node is spun no more."""
        with self._lock:
            self._is_closed = True
            handles = [handle for handle in self._handles if not handle.is_done]
        for handle in handles:
            _end_unheard(handle)

    def _leave(self) -> None:
        """Ends all goals in the thread of a node of ``spinning``, and asks the planner to end them too.

        Else it would take the robot for busy until it misses the heartbeats. Its answers are waited for, not for long:
        a process that ends takes with it what has not left.
        """
        unfinished = [goal for goal in self._goals.values() if not goal.is_done]
        self.close()
        node = self._endpoints.node
        if not node.context.ok() or node.executor is None:
            return
        answers = [answer for goal in unfinished if (answer := goal.call_off()) is not None]
        give_up_s = time.monotonic() + LEAVING_S
        while not all(answer.done() for answer in answers) and time.monotonic() < give_up_s and node.context.ok():
            node.executor.spin_once(timeout_sec=LEAVING_S / 10)

    def _guard(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        return guarded(self._endpoints.node, callback, self._fail)

    def _fail(self, error: Exception, *_: object) -> None:
        """Ends all goals after an unexpected error: a segment may be lost, or a word to the planner."""
        try:
            self._on_error(error)
        finally:
            with self._lock:
                handles = [handle for handle in self._handles if not handle.is_done]
            for handle in handles:
                handle.cancel()

    def _request_cancel(self, handle: PlanHandle) -> None:
        if not self._is_closed:
            self._bridge.post(functools.partial(self._cancel, handle))

    # Everything below runs in the executor's thread

    def _begin(self, handle: PlanHandle) -> None:
        before = [goal.handle for goal in self._goals.values() if goal.is_cancelled and _waits(handle, goal.handle)]
        self._goals[handle.goal_id] = goal = RemoteGoal(self._endpoints, handle, before)
        for other in before:
            other.future.add_done_callback(lambda _: self._bridge.post(self._tick))
        goal.tick(self._status_at_s, self._loading_at_s)
        if self._timer.is_canceled():
            self._timer.reset()

    def _cancel(self, handle: PlanHandle) -> None:
        if (goal := self._goals.get(handle.goal_id)) is not None and not goal.is_done:
            goal.cancel()

    def _on_status(self, status: msgs.PlannerStatus) -> None:
        self._status_at_s = self._clock.now_s()
        self._is_active = status.state == msgs.PlannerStatus.ACTIVE
        if status.state == msgs.PlannerStatus.LOADING:
            self._loading_at_s = self._status_at_s
        if self._is_active:
            self._activated.set()
        else:
            self._activated.clear()
        for progress in status.goals:
            if (goal := self._goals.get(progress.goal_id)) is not None and not goal.is_done:
                goal.on_progress(progress, self._status_at_s)

    def _tick(self) -> None:
        self._goals = {goal_id: goal for goal_id, goal in self._goals.items() if not goal.is_done}
        for goal in list(self._goals.values()):
            goal.tick(self._status_at_s, self._loading_at_s)
        if not self._goals:
            self._timer.cancel()


def require_sendable(request: PlanRequest) -> None:
    """Refuses a request that no message can hold, before anything depends on it.

    Raises:
        PlannerError: UNKNOWN_GOAL for its id, as of ``to_goal``, or INVALID_ARGUMENT for a field of a wrong type.
    """
    require_goal_id(request.request_id)
    try:
        serialize_message(conversions.to_goal(request))
    except PlannerError:
        raise
    except Exception as error:  # rclpy's own depend on the field
        raise PlannerError(ErrorCode.INVALID_ARGUMENT, f"a field of the request has a wrong type: {error!r}") from error


def _replaces(request: PlanRequest, other: PlanRequest) -> bool:
    """Returns whether a planner ends one goal for another, by its rules (``serving.admission``)."""
    return request.robot_id == other.robot_id and request.supersedes(other)


def _waits(handle: PlanHandle, other: PlanHandle) -> bool:
    """Returns whether a planner would refuse one goal because of another, which has not ended."""
    request, unfinished = handle.request, other.request
    return not other.is_done and request.robot_id == unfinished.robot_id and not request.supersedes(unfinished)


def _end_unheard(handle: PlanHandle) -> None:
    handle.close()
    handle.fail(PlannerError(ErrorCode.SHUTTING_DOWN, "the robot's node is not spun any more"))


def _cancel_unless_done(handle: PlanHandle, _: object) -> None:
    if not handle.is_done:
        handle.cancel()
