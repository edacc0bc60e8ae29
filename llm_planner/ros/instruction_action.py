# SPDX-License-Identifier: Apache-2.0
"""The CarryOut action of a robot node: an instruction that is followed from the asking to its last outcome."""

import contextlib
from collections.abc import Callable, Sequence

from builtin_interfaces.msg import Time
from rclpy.action.server import CancelResponse, ServerGoalHandle
from rclpy.node import Node

import llm_planner.msg as msgs
from llm_planner.action import CarryOut
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.ros.action_server import EventActionServer
from llm_planner.ros.guard import guarded
from llm_planner.ros.guarded_executor import MAX_REASON
from llm_planner.ros.missions import Missions
from llm_planner.srv import Instruct

CANCELLED_BY_CLIENT = "the client cancelled its goal"


class _Goal:
    """A goal of the action, which tells its client how the instruction goes.

    Attributes:
        goal_id: Of the action's goal.
        handle: rclpy's; None until rclpy has accepted the goal.
    """

    def __init__(self, goal_id: bytes, finish: Callable[["_Goal", CarryOut.Result], None]) -> None:
        self.goal_id = goal_id
        self.handle: ServerGoalHandle | None = None
        self._finish = finish
        self._outcomes: list[msgs.PlanOutcome] = []

    def follow(self, segments: Sequence[msgs.SegmentOutcome]) -> None:
        is_at_work = any(s.status == s.NOT_RUN and s.started_at != Time() for s in segments)
        state = CarryOut.Feedback.EXECUTING if is_at_work else CarryOut.Feedback.WAITING
        if self.handle is not None:
            self.handle.publish_feedback(CarryOut.Feedback(state=state, segments=list(segments)))

    def note_outcome(self, outcome: msgs.PlanOutcome, *, is_last: bool) -> None:
        self._outcomes.append(outcome)
        if is_last:
            code, text = outcome.error_code, outcome.error_msg
            self._finish(self, CarryOut.Result(error_code=code, error_msg=text, outcomes=self._outcomes))
        else:
            self.follow(())


class InstructionAction:
    """Serves ``~/carry_out``; everything runs in the node's executor thread.

    Args:
        node: The robot's.
        missions: Carries out.
        on_fault: Told first if a callback fails unexpectedly: stops the robot.
    """

    def __init__(self, node: Node, missions: Missions, on_fault: Callable[..., None]) -> None:
        self._missions, self._on_fault = missions, on_fault
        self._goals: dict[bytes, _Goal] = {}
        self._action = EventActionServer(
            node,
            CarryOut,
            "~/carry_out",
            admit=guarded(node, self._admit, self._on_admission_fault),
            accepted=self._on_accepted,
            client_gone=lambda _: None,  # the robot carries it out all the same
            cancel_callback=guarded(node, self._on_cancel, self._on_cancel_fault),
        )

    def close(self) -> None:
        """Takes the action off the node again."""
        self._action.destroy()

    def _admit(self, message: CarryOut.Goal, goal_id: str) -> CarryOut.Result | None:
        """Has the robot begin; returns the result of a goal that it refuses."""
        fields = Instruct.Request.get_fields_and_field_types()
        goal = _Goal(bytes.fromhex(goal_id), self._finish)
        try:
            order = Instruct.Request(**{name: getattr(message, name) for name in fields})
            self._missions.instruct(order, follower=goal)
        except PlannerError as error:
            return CarryOut.Result(error_code=int(error.code), error_msg=error.message)
        self._goals[goal.goal_id] = goal
        return None

    def _on_admission_fault(self, error: Exception, *_: object) -> CarryOut.Result:
        with contextlib.suppress(Exception):  # the driver cannot halt: its next tick reports it
            self._on_fault(error)
        message = f"the robot's node failed: {error!r}"[:MAX_REASON]
        return CarryOut.Result(error_code=int(ErrorCode.SKILL_FAILED), error_msg=message)

    def _on_accepted(self, handle: ServerGoalHandle) -> None:
        goal = self._goals[bytes(handle.goal_id.uuid)]
        goal.handle = handle
        handle.execute()
        goal.follow(())

    def _on_cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        goal = self._goals.get(bytes(handle.goal_id.uuid))
        if goal is None or not self._missions.call_off(goal, CANCELLED_BY_CLIENT):
            return CancelResponse.REJECT
        return CancelResponse.ACCEPT

    def _on_cancel_fault(self, error: Exception, _: ServerGoalHandle) -> CancelResponse:
        """Accepts: the goal ends, and the next tick of the robot tries to halt again."""
        with contextlib.suppress(Exception):
            self._on_fault(error)
        return CancelResponse.ACCEPT

    def _finish(self, goal: _Goal, result: CarryOut.Result) -> None:
        del self._goals[goal.goal_id]
        if goal.handle is not None:
            self._action.finish(goal.handle, result)
