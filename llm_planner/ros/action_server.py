# SPDX-License-Identifier: Apache-2.0
"""rclpy's action server, for goals that outlast every callback and for refusals that leave nothing behind."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action.server import ActionServer, ServerGoalHandle
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.qos import QoSProfile

from llm_planner.core.errors import ErrorCode
from llm_planner.ros import qos
from llm_planner.ros.guarded_executor import note_error

RCLError = rclpy_implementation.RCLError
RESULT_MEMORY_S = 5
"""How long rclpy remembers a result: at each change, it tells all clients the states of all goals that it remembers."""
MAX_REFUSED = 256
"""Refusals that can still be asked for. A client asks within milliseconds."""
MAX_CANCELS = 256
"""That are read before a goal."""
CALLED_OFF = (ErrorCode.CANCELLED, ErrorCode.STOPPED)
"""Codes of a goal that a cancel has ended."""

Taken = tuple[Any, Any]
"""Header and message of a request."""


class EventActionServer(ActionServer):
    """Serves one action, whose result has an ``error_code``.

    ``handle.execute()`` only marks a goal as executing; ``finish`` ends it.

    A refused goal is accepted and aborted as far as its client can see, but rclpy never knows of it: rclpy keeps every
    goal that it knows for as long as results can be asked for, with its message, and tells all of them to every client
    whenever one of them changes. Deviation from the protocol: such a goal is never named on the action's status topic.

    Args:
        node: That serves it.
        action_type: Its type.
        name: Its name.
        admit: Takes a goal and its id; returns its result if it is refused, None if it is taken.
        accepted: Receives the handle of every goal that was taken, and marks it as executing.
        client_gone: Receives, after that, the handle of a goal whose client could not be told that it was taken.
        options: Of rclpy's action server.
    """

    def __init__(
        self,
        node: Node,
        action_type: Any,
        name: str,
        *,
        admit: Callable[[Any, str], Any],
        accepted: Callable[[ServerGoalHandle], None],
        client_gone: Callable[[ServerGoalHandle], None],
        **options: Any,
    ) -> None:
        super().__init__(
            node,
            action_type,
            name,
            execute_callback=_never_called,
            handle_accepted_callback=accepted,
            feedback_pub_qos_profile=QoSProfile(depth=qos.FEEDBACK_DEPTH),
            result_timeout=RESULT_MEMORY_S,
            **qos.ACTION_SERVICES,
            **options,
        )
        self._admit, self._accepted, self._client_gone = admit, accepted, client_gone
        self._impl = action_type.Impl
        self._refused: dict[bytes, Any] = {}  # responses to requests for a result

    def finish(self, handle: ServerGoalHandle, result: Any) -> None:
        """Sets the final state of a goal and answers the clients that wait for its result."""

        def end(handle: ServerGoalHandle) -> Any:
            if result.error_code == ErrorCode.NONE:
                handle.succeed()
            elif result.error_code in CALLED_OFF and handle.is_cancel_requested:
                handle.canceled()
            else:
                handle.abort()
            return result

        self.notify_execute(handle, end)

    def notify_execute(
        self, goal_handle: ServerGoalHandle, execute_callback: Callable[[ServerGoalHandle], Any] | None
    ) -> None:
        """Runs a callback that ends the goal; without one, the goal just goes on."""
        if execute_callback is not None:
            super().notify_execute(goal_handle, execute_callback)

    async def execute(self, taken_data: Mapping[str, Any]) -> None:
        """Does what has come. One that fails takes nothing else with it."""
        own = {"goal": self._refuse, "result": self._answer_refused}
        for kind, taken in self._in_order(taken_data):
            try:
                if kind not in own or not own[kind](taken):
                    await super().execute({kind: taken})
                    if kind == "goal":
                        self._take_over(taken)
            except Exception as error:  # noqa: BLE001 -- the next one may belong to another client
                note_error(self._node, error)

    def _in_order(self, taken_data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yields what has come, cancels of other goals before a goal: they may free the robot that it is for."""
        rest = dict(taken_data)
        goal, cancel = rest.pop("goal", None), rest.pop("cancel", None)
        cancels = [] if cancel is None else [cancel]
        if goal is not None:
            cancels.extend(self._waiting_cancels())
            may_mean_it = (bytes(goal[1].goal_id.uuid), bytes(16))  # the latter stands for all goals
            is_later = [bytes(request.goal_info.goal_id.uuid) in may_mean_it for _, request in cancels]
            yield from (("cancel", cancel) for cancel, later in zip(cancels, is_later, strict=True) if not later)
            yield "goal", goal
            cancels = [cancel for cancel, later in zip(cancels, is_later, strict=True) if later]
        yield from (("cancel", cancel) for cancel in cancels)
        yield from rest.items()

    def _waiting_cancels(self) -> Iterator[Taken]:
        """Yields the cancels that have come, and that rclpy would take one by one, each with a goal."""
        for _ in range(MAX_CANCELS):
            with self._lock:
                taken = self._handle.take_cancel_request(self._impl.CancelGoalService.Request)
            if not all(taken):
                return
            yield taken

    def _refuse(self, taken: Taken) -> bool:
        """Returns whether a goal ends here: it is refused, or a second copy of one that was."""
        header, request = taken
        goal_id = bytes(request.goal_id.uuid)
        if goal_id in self._goal_handles:
            return False  # rclpy rejects it
        is_copy = goal_id in self._refused
        if not is_copy:
            result = self._admit(request.goal, goal_id.hex())
            if result is None:
                return False
            self._remember(goal_id, result)
        response = self._impl.SendGoalService.Response(accepted=not is_copy)
        response.stamp = self._node.get_clock().now().to_msg()
        with contextlib.suppress(RCLError):  # the client has gone
            self._handle.send_goal_response(header, response)
        return True

    def _take_over(self, taken: Taken) -> None:
        """Hands over a goal that rclpy has accepted and dropped, because it could not tell the client so."""
        handle = self._goal_handles.get(bytes(taken[1].goal_id.uuid))
        if handle is not None and handle.status == GoalStatus.STATUS_ACCEPTED:
            self._accepted(handle)
            self._client_gone(handle)

    def _remember(self, goal_id: bytes, result: Any) -> None:
        self._refused[goal_id] = self._impl.GetResultService.Response(status=GoalStatus.STATUS_ABORTED, result=result)
        if len(self._refused) > MAX_REFUSED:
            del self._refused[next(iter(self._refused))]

    def _answer_refused(self, taken: Taken) -> bool:
        header, request = taken
        response = self._refused.get(bytes(request.goal_id.uuid))
        if response is not None:
            with contextlib.suppress(RCLError):
                self._handle.send_result_response(header, response)
        return response is not None


def _never_called(_handle: ServerGoalHandle) -> None:
    raise AssertionError("goals are finished by events, never by rclpy's execute callback")
