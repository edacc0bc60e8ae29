"""A robot as a ROS node: takes instructions, asks the planner, carries the plan out, publishes the outcome.

Without a driver the robot is kinematic: it moves by the duration model of its robot model, in real time or faster. With
one it is real. Plans run in the shipped interpreter either way, so loops, conditionals and variables work the same.
"""

import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from builtin_interfaces.msg import Time
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import Empty

import llm_planner.msg as msgs
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import setting
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.request import Urgency
from llm_planner.core.segment import Segment, SegmentReport
from llm_planner.monitoring.robot_view import parse_home
from llm_planner.robots.library import RobotLibrary
from llm_planner.ros import conversions, orders, parameters, process, qos
from llm_planner.ros.body import BodySettings, connect_body
from llm_planner.ros.bridge import Bridge
from llm_planner.ros.control_loop import ControlLoop
from llm_planner.ros.mission import Mission
from llm_planner.ros.planner_client import PlannerClient
from llm_planner.ros.robot_control import ReflexCause, ReflexEvent, RobotControl
from llm_planner.ros.robot_view import RobotViewPublisher
from llm_planner.ros.scenario import Event, load_scenario
from llm_planner.ros.snapshot import Snapshot
from llm_planner.srv import Instruct

PERIOD_S, SHORTEST_PERIOD_S = 0.25, 0.02
"""Of the robot's time, between two looks at the planner's life and the scenario; all else comes by itself. Each wait of
rclpy costs half a millisecond of processor time, so twenty robots that look often keep a core busy."""
MAX_REPLANS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotSettings:
    """Parameters of a robot node, beside those of its body (``ros.body``)."""

    robot_model: str = setting("tello", "Name of the robot model.")
    robot_models: tuple[str, ...] = setting((), "Extra directories with robot models, searched first.")
    planner: str = setting("/planner", "Full name of the planner node.")
    server_timeout_s: float = setting(
        5.0, "Without a sign of life from the planner for this long, a goal is lost.", minimum=0.1, maximum=3600.0
    )
    loading_timeout_s: float = setting(
        120.0, "How long a goal waits for a planner that loads its model.", minimum=0.0, maximum=3600.0
    )
    scenario: str = setting("", "A YAML file with instructions for robots by name, to begin with; empty for none.")
    home: str = setting(
        "", "Its home in the fleet's map, for the dashboard: X,Y,YAW in m and degrees; empty if unknown."
    )


class RobotNode(Node):
    """One robot. ``~/instruct`` takes an instruction, ``~/outcome`` tells how it ended, ``~/stop`` halts.

    Args:
        name: Node name, which is also the robot's name.
        clock: Source of monotonic time.

    Attributes:
        failure: None; the node never ends itself.
    """

    def __init__(
        self,
        name: str = "robot",
        *,
        clock: Clock | None = None,
        parameter_overrides: list[Parameter] | None = None,
    ) -> None:
        super().__init__(name, parameter_overrides=parameter_overrides)
        self.failure: PlannerError | None = None
        self._monotonic = clock or MonotonicClock()
        settings = parameters.declare(self, RobotSettings)
        self._model = RobotLibrary([Path(d) for d in settings.robot_models if d]).get(settings.robot_model)
        self._events = load_scenario(Path(settings.scenario), self.get_name()) if settings.scenario else []
        self._active_since_s: float | None = None
        self._client = PlannerClient(
            self,
            self._model.name,
            planner=settings.planner,
            server_timeout_s=settings.server_timeout_s,
            loading_timeout_s=settings.loading_timeout_s,
            clock=self._monotonic,
        )
        self._bridge = Bridge(self)
        body = parameters.declare(self, BodySettings)
        self._robot = RobotControl(
            self._model,
            clock=self._monotonic,
            time_scale=body.time_scale,
            connection=connect_body(self, self._bridge, self._model, body, self._monotonic),
            report=self._post_report,
            on_reflex=self._post_reflex,
        )
        self._control = ControlLoop(self._robot.tick)
        home = parse_home(settings.home)
        RobotViewPublisher(self, self._client.robot_id, self._robot, self._model, body.driver, home)
        self._mission: Mission | None = None  # which the robot carries out, or was the last to
        self._pending: list[Mission] = []  # whose outcome was not published yet
        self._heard_at_s = float("-inf")
        self._outcomes = self.create_publisher(msgs.PlanOutcome, "~/outcome", qos.OUTCOMES)
        self._reflexes = self.create_publisher(msgs.Reflex, "~/reflex", qos.REPORTS)
        self.create_service(Instruct, "~/instruct", self._on_instruct)
        self.create_subscription(Empty, "~/stop", self._on_stop, 10)
        self.create_timer(max(SHORTEST_PERIOD_S, PERIOD_S / max(1.0, body.time_scale)), self._tick)
        self._control.start()

    def end_goals(self) -> None:
        """Stops the robot and gives up its goals."""
        self._stop("the robot's node is shutting down")

    def close(self) -> None:
        """Frees the node."""
        self._control.close()
        self._robot.close()
        self.destroy_node()

    # Instructions

    def _on_instruct(self, order: Instruct.Request, response: Instruct.Response) -> Instruct.Response:
        try:
            self.instruct(order)
            response.accepted = True
        except PlannerError as error:
            response.error_code, response.error_msg = int(error.code), error.message
        return response

    def instruct(self, order: Instruct.Request, *, num_replans: int = 0) -> None:
        """Begins to do what is asked; a ``PlanOutcome`` will follow. Call it in the executor's thread.

        Raises:
            PlannerError: ROBOT_BUSY, INVALID_URGENCY, INVALID_TIME_BUDGET, or INVALID_CONFIG for a broken world.
        """
        urgency = conversions.to_urgency(order.urgency)
        self._require_free(urgency)
        world = Snapshot.from_json(order.world) if order.world else None
        robot = self._robot
        request = orders.to_request(
            order, robot_id=self._client.robot_id, model=self._model, view=robot.view, pose=robot.pose
        )
        if self._mission in self._pending:
            self._mission.world = robot.snapshot().to_json()
        if world is not None:
            robot.enter(world)
            request = replace(request, scene=order.scene or robot.view, start_pose=robot.pose)
        handle = self._client.ask(request, on_segment=self._on_segment)
        self._mission = Mission(order=order, handle=handle, asked_at=self._stamp(), num_replans=num_replans)
        self._pending.append(self._mission)
        handle.future.add_done_callback(functools.partial(self._on_result, self._mission))
        is_chat, patience_s = urgency is Urgency.CHAT, orders.patience_s(request, self._model)
        robot.begin(handle.goal_id, is_chat=is_chat, answer_within_s=patience_s)
        self._control.wake()

    def _require_free(self, urgency: Urgency) -> None:
        """Raises ROBOT_BUSY unless the robot is free, or an urgent instruction meets one that is not urgent."""
        busy = [mission for mission in self._pending if not mission.handle.is_done]
        can_supersede = urgency is Urgency.URGENT and all(m.order.urgency != Urgency.URGENT.value for m in busy)
        if busy and not can_supersede:
            raise PlannerError(
                ErrorCode.ROBOT_BUSY,
                f"{self._client.robot_id} is busy with {busy[-1].order.instruction!r}; wait, stop it, or be urgent",
            )

    def _on_stop(self, _: Empty) -> None:
        self._stop("stopped by the operator")

    def _stop(self, reason: str) -> None:
        """Halts the robot and gives its goals up; they end with CANCELLED."""
        for mission in self._pending:
            mission.is_given_up = True
            mission.handle.cancel()
        self._robot.cancel(reason)

    # Plans

    def _on_segment(self, segment: Segment) -> None:
        if self._mission is not None and not self._mission.is_given_up:
            self._mission.receive(segment, self._stamp())
            self._robot.add(segment)

    def _post_report(self, report: SegmentReport) -> None:
        self._bridge.post(functools.partial(self._on_report, report, self._stamp()))

    def _post_reflex(self, event: ReflexEvent) -> None:
        self._bridge.post(functools.partial(self._on_reflex, event, self._stamp()))

    def _on_report(self, report: SegmentReport, stamp: Time) -> None:
        """Passes on what the robot says; of a goal that was superseded or given up there is no more to say."""
        mission = self._mission
        if mission is not None and report.request_id == mission.handle.goal_id and not mission.is_given_up:
            mission.note(report, stamp)
            self._client.report(report)
            self._bridge.post(self._publish_outcomes)  # once the robot has ended what it reports

    def _on_result(self, mission: Mission, _: object) -> None:
        """Obeys the end of a plan. A lost planner is no order to stop: the robot's silence behaviour takes over."""
        result = mission.handle.result(0.0)
        is_partial = result.error_code is ErrorCode.PLAN_PARTIAL
        if mission is self._mission and (is_partial or result.error_code is ErrorCode.NONE):
            self._robot.complete(len(result.segments), is_partial=is_partial)
        elif mission is self._mission and mission.is_unanswered(result):
            mission.is_given_up = True
            self._robot.refuse(f"the planner has no answer to the emergency: {result.error_code.name}")
        elif mission is self._mission and result.error_code is not ErrorCode.SERVER_UNREACHABLE:
            mission.is_given_up = True
            self._robot.cancel(result.error_msg)
        self._control.wake()
        self._bridge.post(self._publish_outcomes)  # behind the robot's last reports

    def _on_reflex(self, event: ReflexEvent, stamp: Time) -> None:
        """Tells everybody, and ends the goal with the planner if no segment was running that has failed."""
        mission = self._mission if self._mission in self._pending else None
        is_over = event.is_over and mission is not None and bool(mission.reflexes)
        message = msgs.Reflex(
            robot_id=self._client.robot_id,
            goal_id=event.goal_id,
            cause=event.cause.value,
            reason=event.reason,
            action=event.action,
            started_at=mission.reflexes.pop().started_at if is_over and mission is not None else stamp,
            finished_at=stamp if event.is_over else Time(),
        )
        self._reflexes.publish(message)
        if event.is_over:
            self._bridge.post(self._publish_outcomes)
        if mission is None:
            return
        mission.reflexes.append(message)
        is_planned = event.goal_id == mission.handle.goal_id and event.cause is not ReflexCause.REFUSED
        if is_planned and not event.is_over and not mission.has_failed:
            mission.handle.cancel()

    def _publish_outcomes(self) -> None:
        """Publishes the outcome of every mission that is over, and plans again where a plan asked for it."""
        for mission in [m for m in self._pending if m.handle.is_done]:
            is_current = mission is self._mission
            if is_current and self._robot.is_active and not mission.is_settled:
                continue  # the planner is lost, the robot still at work
            if is_current and (self._robot.is_in_reflex or mission.is_in_reflex):
                continue  # begun, or over and not told yet
            self._pending.remove(mission)
            if is_current:
                mission.world = self._robot.snapshot().to_json()
            robot_id, model = self._client.robot_id, self._model.name
            self._outcomes.publish(mission.outcome(robot_id=robot_id, robot_model=model, now=self._stamp()))
            if is_current and self._robot.wants_replan and mission.num_replans < MAX_REPLANS:
                self.instruct(orders.again(mission.order), num_replans=mission.num_replans + 1)

    # Time

    def _tick(self) -> None:
        if self._client.heard_at_s > self._heard_at_s:
            self._heard_at_s = self._client.heard_at_s
            self._robot.hear(self._heard_at_s)
        self._publish_outcomes()
        self._follow_scenario()

    def _follow_scenario(self) -> None:
        """Gives the robot the instructions of the scenario that are due, counted from when the planner is active."""
        now_s = self._monotonic.now_s()
        if self._active_since_s is None and self._client.is_planner_active:
            self._active_since_s = now_s
        while self._events and self._active_since_s is not None:
            if now_s - self._active_since_s < self._events[0].at_s:
                return
            self._obey(self._events.pop(0))

    def _obey(self, event: Event) -> None:
        try:
            self.instruct(event.order)
        except PlannerError as error:
            self.get_logger().warning(f"scenario: {event.instruction!r} refused: {error}")

    def _stamp(self) -> Time:
        return self.get_clock().now().to_msg()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a robot node; returns the exit status."""
    return process.run(RobotNode, arguments)


if __name__ == "__main__":
    sys.exit(main())
