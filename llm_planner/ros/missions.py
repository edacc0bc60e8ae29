# SPDX-License-Identifier: Apache-2.0
"""What a robot is told to do: one mission at a time, from the instruction to its outcome.

Every message is bound to the mission that it belongs to: a segment by the callback that the mission's handle has, a
report and a reflex by the goal that they name. What comes of an older goal changes nothing of the current one.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from builtin_interfaces.msg import Time
from rclpy.node import Node

import llm_planner.msg as msgs
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanMetrics, PlanRequest, Urgency
from llm_planner.core.segment import Segment, SegmentReport
from llm_planner.core.skill import SkillCall
from llm_planner.planning.instruction.stop_words import begins_with_stop, immediate_plan, is_stop, plan_of_cry
from llm_planner.robots.effect import Gripper
from llm_planner.robots.model import RobotModel
from llm_planner.ros import conversions, metrics, orders
from llm_planner.ros.bridge import Bridge
from llm_planner.ros.mission import Follower, Mission
from llm_planner.ros.plan_handle import CARRIED_OUT, PlanHandle
from llm_planner.ros.planner_client import PlannerClient, require_sendable
from llm_planner.ros.robot_control import ReflexCause, ReflexEvent, RobotControl
from llm_planner.ros.snapshot import Snapshot
from llm_planner.srv import Instruct

MAX_REPLANS = 3


class Stopped(NamedTuple):
    """What a robot was stopped in.

    Attributes:
        was_busy: Whether it had a goal, or moved on its own account.
        instruction: What it was doing; empty if nothing had been asked of it.
        failure: Why the stop failed at once, or the one before it, which was not confirmed until now; empty else.
    """

    was_busy: bool
    instruction: str
    failure: str = ""


class Missions:
    """The missions of one robot; everything runs in the node's executor thread.

    Args:
        node: Of the robot: tells the time, and logs.
        client: Asks the planner.
        robot: Carries out.
        model: Of the robot.
        bridge: Makes a call behind what is under way.
        wake: Makes the robot tick at once.
        publish: Publishes an outcome or a reflex.
    """

    def __init__(
        self,
        node: Node,
        client: PlannerClient,
        robot: RobotControl,
        model: RobotModel,
        *,
        bridge: Bridge,
        wake: Callable[[], None],
        publish: Callable[[msgs.PlanOutcome | msgs.Reflex], None],
    ) -> None:
        self._node, self._client, self._robot, self._model = node, client, robot, model
        self._bridge, self._wake, self._publish = bridge, wake, publish
        self._current: Mission | None = None  # which the robot carries out, or was the last to
        self._pending: list[Mission] = []  # whose outcome was not published yet
        self._obeyed: list[tuple[msgs.PlanOutcome, Follower | None]] = []  # at once, but not carried out yet
        self._held: Mission | None = None  # the planner is asked once it has ended what was given up
        self._reflex: tuple[Mission | None, Time] = (None, Time())  # in which mission the last one began, and when

    def instruct(self, order: Instruct.Request, *, num_replans: int = 0, follower: Follower | None = None) -> None:
        """Begins to do what is asked; a ``PlanOutcome`` will follow.

        An order that acts at once (``planning.instruction.stop_words``) is obeyed, whatever the robot does, and needs
        no planner. One that begins with a stop ends what the robot does; then comes what else it says. A cry at a robot
        that would refuse any other instruction stops it.

        Args:
            order: What is asked.
            num_replans: How many plans before this one asked for a new plan.
            follower: Is told how it goes.

        Raises:
            PlannerError: EMPTY_INSTRUCTION, ROBOT_BUSY, INVALID_URGENCY, INVALID_TIME_BUDGET, INVALID_WORLD for a world
                that is broken or that the robot does not take, or as of ``require_sendable``. The robot goes on with
                what it does then, unless the order began with a stop.
            Exception: As of ``stop``, for an order that acts at once.
        """
        if not order.instruction.strip():
            raise PlannerError(ErrorCode.EMPTY_INSTRUCTION, "the instruction is empty; say what the robot shall do")
        if skill := self._skill_at_once(order):
            self._obey_at_once(skill, order, follower)
            return
        urgency = conversions.to_enum(Urgency, order.urgency)
        if self._in_the_way(order) and not order.plan and begins_with_stop(order.instruction):
            self.stop(f"stopped by the instruction {order.instruction!r}")  # what else it says comes then
        if skill := self._skill_of_cry(order):
            self._obey_at_once(skill, order, follower)
            return
        self._require_free(order)
        world = Snapshot.from_order(order.world) if order.world else None
        robot = self._robot
        request = orders.to_request(
            order,
            robot_id=self._client.robot_id,
            model=self._model,
            view=robot.view,
            pose=robot.pose,
            unsupported_skills=robot.unsupported_skills,
        )
        require_sendable(request)
        if self._current in self._pending:
            self._current.world = robot.snapshot().to_json()
        if world is not None:
            robot.enter(world)
            request = replace(request, scene=order.scene or robot.view, start_pose=robot.pose)
        mission = Mission(
            order=order,
            goal_id=request.request_id,
            asked_at=self._stamp(),
            num_replans=num_replans,
            follower=follower,
        )
        is_chat, answer_timeout_s = urgency is Urgency.CHAT, orders.answer_timeout_s(request, self._model)
        robot.begin(mission.goal_id, is_chat=is_chat, answer_within_s=answer_timeout_s)
        if self._held is not None:
            self._held.handle.fail(PlannerError(ErrorCode.SUPERSEDED, "an urgent instruction took its place"))
            self._held = None
        self._ask(mission, request)
        self._current = mission
        self._pending.append(mission)
        self._wake()

    def _ask(self, mission: Mission, request: PlanRequest) -> None:
        """Asks the planner, or holds the mission: a planner refuses a robot that has a goal which it has not ended."""
        if any(other is not mission for other in self._in_the_way(mission.order)):
            self._held = mission
            mission.held_since_s = self._client.now_s()
            mission.handle = PlanHandle(request, send_report=self._client.report, request_cancel=_end_unasked)
        else:
            mission.handle = self._client.ask(request, on_segment=functools.partial(self._on_segment, mission))
        on_result = self._bridge.guard(functools.partial(self._on_result, mission))
        mission.handle.future.add_done_callback(on_result)

    def _skill_at_once(self, order: Instruct.Request) -> str:
        """Returns the skill that an order calls for at once; empty for any other order, which is a task.

        To let go is a task for the planner if the robot is free, and for who only chats; this robot may be unable to.
        """
        skill = "" if order.plan else immediate_plan(self._model, order.instruction).removesuffix("();")
        can_do = self._can_do_at_once(skill, order)
        if skill and is_stop(order.instruction):
            return skill if can_do else self._model.stop_skill
        is_busy = self._robot.is_active or any(not mission.handle.is_done for mission in self._pending)
        return skill if can_do and is_busy else ""

    def _skill_of_cry(self, order: Instruct.Request) -> str:
        """Returns the skill that ends what a busy robot does, where an order that it would refuse may be a cry."""
        if order.plan or not self._busy_with(order):
            return ""
        skill = plan_of_cry(self._model, order.instruction).removesuffix("();")
        return skill if not skill or self._can_do_at_once(skill, order) else self._model.stop_skill

    def _can_do_at_once(self, skill: str, order: Instruct.Request) -> bool:
        named = [self._model.skill(spelling) for spelling in order.allowed_skills]
        is_allowed = not named or self._model.skills.get(skill) in named
        return is_allowed and skill not in self._robot.unsupported_skills and order.urgency != Urgency.CHAT.value

    def _obey_at_once(self, skill: str, order: Instruct.Request, follower: Follower | None) -> None:
        """Does what a stop does, then calls the skill, unless that is the same, or only to be shown.

        Letting go comes first: whatever moved is halted before.

        The outcome follows once that is done or has failed; its asker knows first that the order was taken.
        """
        asked_at, plan, stop_skill = self._stamp(), f"{skill}();", self._model.stop_skill
        is_shown = order.plan_only and skill != stop_skill
        calls = () if is_shown or skill == stop_skill else (SkillCall(stop_skill), SkillCall(skill))
        if self._model.skills[skill].effect == Gripper(is_open=True) and not self._robot.is_unconfirmed:
            calls = calls[::-1]  # a hand in the gripper waits for no confirmation, unless the arm may still move
        self.stop(f"stopped by the instruction {order.instruction!r}", calls)
        outcome = msgs.PlanOutcome(
            robot_id=self._client.robot_id,
            robot_model=self._model.name,
            tag=order.tag,
            instruction=order.instruction,
            urgency=order.urgency,
            asked_at=asked_at,
            plan="" if is_shown else plan,
            candidates=[plan] if is_shown else [],
            metrics=metrics.from_metrics(PlanMetrics()),
        )
        self._obeyed.append((outcome, follower))

    def _tell_obeyed(self) -> None:
        """Publishes how the orders went that were obeyed at once."""
        obeyed, self._obeyed = self._obeyed, []
        for outcome, follower in obeyed:
            if not outcome.error_code and (failure := self._robot.own_failure):
                outcome.error_code, outcome.error_msg = int(ErrorCode.SKILL_FAILED), failure
            outcome.finished_at, outcome.world = self._stamp(), self._robot.snapshot().to_json()
            self._publish(outcome)
            if follower is not None:
                follower.note_outcome(outcome, is_last=True)

    def _require_free(self, order: Instruct.Request) -> None:
        """Raises ROBOT_BUSY unless the robot is free, or the order takes the place of what it does."""
        if busy := self._busy_with(order):
            is_replaceable = any(mission.order.urgency != Urgency.URGENT.value for mission in busy)
            way_out = "replace it by an urgent instruction (`send --urgent`), " if is_replaceable else ""
            raise PlannerError(
                ErrorCode.ROBOT_BUSY,
                f"{self._client.robot_id} is busy with {busy[-1].order.instruction!r}; wait, {way_out}or stop it: "
                f"`llm-planner stop {self._client.robot_id}`",
            )

    def _busy_with(self, order: Instruct.Request) -> list[Mission]:
        """Returns what an order has to wait for: also what a robot carries out to its end without a planner."""
        in_the_way = [mission for mission in self._in_the_way(order) if not mission.is_given_up]
        current = self._current
        if in_the_way or current not in self._pending or current.is_given_up or _supersedes(order):
            return in_the_way
        return [current] if self._robot.is_active and not current.is_settled else []

    def _in_the_way(self, order: Instruct.Request) -> list[Mission]:
        """Returns what the planner has not ended, and would not end for a new goal (``PlanRequest.supersedes``)."""
        unfinished = [mission for mission in self._pending if not mission.handle.is_done]
        return [m for m in unfinished if not _supersedes(order) or m.order.urgency == order.urgency]

    def stop(self, reason: str, calls: Sequence[SkillCall] = ()) -> Stopped:
        """Halts the robot, whatever it does, and gives its goals up; they end with STOPPED.

        Args:
            reason: Why.
            calls: What it does then; the model's stop skill if empty.

        Raises:
            Exception: Whatever the driver raises; the goals end nevertheless.
        """
        unfinished = [mission for mission in self._pending if not mission.handle.is_done or mission is self._current]
        failure = self._robot.own_failure if self._robot.is_unconfirmed else ""
        try:
            was_busy = self._halt(reason, calls)
        finally:
            for mission in unfinished:
                mission.stopped_because = reason
                self._give_up(mission)
        self._wake()
        instruction = unfinished[-1].order.instruction if unfinished else ""
        return Stopped(was_busy or bool(unfinished), instruction, self._robot.own_failure or failure)

    def _halt(self, reason: str, calls: Sequence[SkillCall] = ()) -> bool:
        """Stops the robot, whatever it does; returns whether it did anything."""
        for outcome, _ in self._obeyed:
            if outcome.plan not in ("", f"{self._model.stop_skill}();"):  # it is not carried out to the end
                outcome.error_code, outcome.error_msg = int(ErrorCode.STOPPED), reason
        return self._robot.stop(reason, calls)

    def call_off(self, follower: Follower, reason: str) -> bool:
        """Stops the robot if it carries out what a follower asked for; returns False if that has ended.

        What another instruction has taken the place of needs no stop, and ends by itself.

        Raises:
            Exception: As of ``stop``.
        """
        if not any(mission.follower is follower for mission in self._pending):
            return False
        if self._current is not None and self._current.follower is follower:
            self.stop(reason)
        return True

    def shut_down(self, reason: str) -> None:
        """Halts the robot, whatever it does, and ends its goals with CANCELLED; the planner is told, not waited for."""
        try:
            self._halt(reason)
        finally:
            for mission in self._pending:
                self._give_up(mission)
            self._bridge.post(self._end_all, reason)  # behind the robot's last reports, and behind the cancels

    def _end_all(self, reason: str) -> None:
        self._tell_obeyed()
        for mission in list(self._pending):
            mission.handle.fail(PlannerError(ErrorCode.CANCELLED, reason))
            self._publish_outcome(mission)

    @staticmethod
    def _give_up(mission: Mission) -> None:
        mission.is_given_up = True
        mission.handle.cancel()

    def fail(self, reason: str) -> None:
        """Halts the robot after an unexpected error; safe to use from any thread.

        The goal that it carries out fails, or is cancelled where no segment of it has; so are other unfinished goals.
        """
        was_active, goal_id = self._robot.is_active, self._robot.goal_id
        try:
            self._robot.fail(reason)
        finally:
            self._bridge.post(functools.partial(self._cancel_all_but, goal_id if was_active else "", reason))

    def _cancel_all_but(self, failed_id: str, reason: str) -> None:
        for mission in self._pending:
            if mission.goal_id != failed_id or not mission.has_failed:
                mission.fault = mission.fault or reason
                self._give_up(mission)

    # Plans

    def _on_segment(self, mission: Mission, segment: Segment) -> None:
        mission.receive(segment, self._stamp())
        self._robot.add(mission.goal_id, segment)
        self._wake()

    def on_report(self, report: SegmentReport, stamp: Time) -> None:
        """Takes the robot's word on a segment; the planner gets it if it has the goal, and that was not given up."""
        mission = self._find(report.request_id)
        if mission is None:
            return
        mission.note(report, stamp)
        if mission is self._current and mission is not self._held and not mission.is_given_up:
            self._client.report(report)
        if mission.follower is not None:
            mission.follower.follow(mission.segments)
        self._bridge.post(self.publish_outcomes)  # once the robot has ended what it reports

    def _find(self, goal_id: str) -> Mission | None:
        return next((mission for mission in self._pending if mission.goal_id == goal_id), None)

    def _on_result(self, mission: Mission, _: object) -> None:
        """Obeys the end of a plan. A lost planner is no order to stop: the robot's silence behaviour takes over."""
        result = mission.handle.result(0.0)
        if result.error_code in CARRIED_OUT:
            num_segments = len(result.segments)  # none of a plan that is only shown
            is_partial = result.error_code is ErrorCode.PLAN_PARTIAL and num_segments > 0
            self._robot.complete(mission.goal_id, num_segments, is_partial=is_partial)
        elif mission.is_unanswered(result):
            mission.is_given_up = True
            self._robot.refuse(mission.goal_id, f"the planner has no answer to the emergency: {result.error_code.name}")
        elif result.error_code is not ErrorCode.SERVER_UNREACHABLE:
            mission.is_given_up = True
            self._robot.cancel(mission.goal_id, result.error_msg)
        self._wake()
        self._bridge.post(self.publish_outcomes)  # behind the robot's last reports

    def on_reflex(self, event: ReflexEvent, stamp: Time) -> None:
        """Publishes a reflex, and ends the goal with the planner if no segment was running that has failed."""
        if not event.is_over:
            self._reflex = (self._find(event.last_goal_id), stamp)
        mission, started_at = self._reflex
        message = msgs.Reflex(
            robot_id=self._client.robot_id,
            goal_id=event.goal_id,
            cause=event.cause.value,
            reason=event.reason,
            action=event.action,
            started_at=started_at,
            finished_at=stamp if event.is_over else Time(),
        )
        self._publish(message)
        if event.is_over:
            self._bridge.post(self.publish_outcomes)
        if mission is None:
            return
        if event.is_over:
            mission.reflexes.pop()  # its beginning
        mission.reflexes.append(message)
        mission.is_in_reflex = not event.is_over
        is_planned = event.goal_id == mission.goal_id and event.cause is not ReflexCause.REFUSED
        if is_planned and not event.is_over and not mission.has_failed:
            mission.handle.cancel()

    def publish_outcomes(self) -> None:
        """Publishes the outcome of every mission that is over, and asks the planner for what it can take now."""
        is_stopping = self._robot.is_stopping  # once: it may end meanwhile
        if not is_stopping:
            self._tell_obeyed()
        for mission in [m for m in self._pending if m.handle.is_done]:
            is_current = mission is self._current
            if is_current and self._robot.is_active and not mission.is_settled:
                continue  # the planner is lost, the robot still at work
            if is_current and (self._robot.is_in_reflex or mission.is_in_reflex):
                continue  # begun, or over and not told yet
            if is_current and mission.stopped_because:
                if is_stopping:
                    continue
                if failure := self._robot.own_failure:
                    mission.stopped_because = f"{mission.stopped_because}; {failure}"
            self._publish_outcome(mission)
        if self._held is not None:
            self._go_on_with(self._held)

    def _go_on_with(self, held: Mission) -> None:
        """Asks for a mission that was held, with what is left of its time budget, once nothing is in its way.

        An emergency that waits too long is left to the reflex.
        """
        request, is_free = held.handle.request, self._in_the_way(held.order) == [held]
        if request.time_budget_s is not None:
            left_s = round(held.held_since_s + request.time_budget_s - self._client.now_s(), 3)
            if left_s <= 0 and (is_free or request.urgency is not Urgency.URGENT):
                self._held = None
                what = f"the planner had not ended what was stopped within {request.time_budget_s:g} s"
                held.handle.fail(PlannerError(ErrorCode.BUDGET_EXCEEDED, what))
                return
            request = replace(request, time_budget_s=left_s)
        if is_free:
            self._held = None
            self._ask(held, request)

    def _publish_outcome(self, mission: Mission) -> None:
        self._pending.remove(mission)
        if mission is self._current:
            mission.world = self._robot.snapshot().to_json()
        robot_id, model = self._client.robot_id, self._model.name
        outcome = mission.outcome(robot_id=robot_id, robot_model=model, now=self._stamp())
        goes_on = self._wants_replan(mission) and self._ask_again(mission)
        if goes_on:
            outcome.segments[-1].segment.is_last = False
        self._publish(outcome)
        if mission.follower is not None:
            mission.follower.note_outcome(outcome, is_last=not goes_on)

    def _wants_replan(self, mission: Mission) -> bool:
        """Returns whether a plan was carried out that asked for a new one, and was not stopped since."""
        is_carried_out = mission.handle.result(0.0).error_code in CARRIED_OUT and not mission.is_given_up
        return is_carried_out and mission.num_replans < MAX_REPLANS and self._robot.wants_replan(mission.goal_id)

    def _ask_again(self, mission: Mission) -> bool:
        """Asks for the new plan that a plan asked for; returns whether that was taken."""
        order, num_replans = orders.again(mission.order), mission.num_replans + 1
        try:
            self.instruct(order, num_replans=num_replans, follower=mission.follower)
        except PlannerError as error:
            self._node.get_logger().warning(f"the plan asks for a new one, which is refused: {error}")
            return False
        return True

    def _stamp(self) -> Time:
        return self._node.get_clock().now().to_msg()


def _end_unasked(handle: PlanHandle) -> None:
    handle.fail(PlannerError(ErrorCode.CANCELLED, "cancelled before the planner was asked"))


def _supersedes(order: Instruct.Request) -> bool:
    """Whether an order takes the place of what is not urgent (``PlanRequest.supersedes``)."""
    return order.urgency == Urgency.URGENT.value and not order.plan_only
