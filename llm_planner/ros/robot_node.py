# SPDX-License-Identifier: Apache-2.0
"""A robot as a ROS node: takes instructions, asks the planner, carries the plan out, publishes the outcome.

Without a driver the robot is kinematic: it moves by the duration model of its robot model, in real time or faster. With
one it is real. Plans run in the shipped interpreter either way, so loops, conditionals and variables work the same.
"""

import contextlib
import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builtin_interfaces.msg import Time
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import Empty

import llm_planner.msg as msgs
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import setting
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.pose import Pose
from llm_planner.core.segment import SegmentReport
from llm_planner.core.skill import SkillCall
from llm_planner.monitoring.robot_view import parse_home
from llm_planner.robots.default_scene import default_scene
from llm_planner.robots.library import RobotLibrary
from llm_planner.ros import parameters, process, qos, robot_view
from llm_planner.ros.battery import BatteryPublisher
from llm_planner.ros.body import GAZEBO, MUJOCO, BodySettings, connect_body, first_skill
from llm_planner.ros.bridge import Bridge
from llm_planner.ros.control_loop import ControlLoop
from llm_planner.ros.frames import FramesPublisher
from llm_planner.ros.guard import guarded
from llm_planner.ros.instruction_action import InstructionAction
from llm_planner.ros.missions import Missions
from llm_planner.ros.planner_client import MIN_SERVER_TIMEOUT_S, PlannerClient
from llm_planner.ros.robot_control import ReflexEvent, RobotControl
from llm_planner.ros.robot_identity import RobotIdentity
from llm_planner.ros.robot_view import RobotViewPublisher
from llm_planner.ros.scenario import Event, load_scenario
from llm_planner.ros.snapshot import Snapshot
from llm_planner.ros.steady import steady_timer
from llm_planner.srv import Instruct, Stop

PERIOD_S, SHORTEST_PERIOD_S = 0.25, 0.02
"""Of the robot's time, between two checks of the planner's status, the scenario and of who watches; all else is
event-driven. Each wait of rclpy costs half a millisecond of processor time, so twenty robots that look often keep a
core busy."""
MAX_REASON = 300  # characters of an unexpected error that travel
STOPPED_BY_OPERATOR = "stopped by the operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotSettings:
    """Parameters of a robot node, besides those of its body (``ros.body``)."""

    robot_model: str = setting("tello", "Name of the robot model.")
    robot_models: tuple[str, ...] = setting((), "Extra directories with robot models, searched first.")
    planner: str = setting("/planner", "Full name of the planner node.")
    server_timeout_s: float = setting(
        5.0,
        "Without a sign of life from the planner for this long, a goal is lost.",
        minimum=MIN_SERVER_TIMEOUT_S,
        maximum=3600.0,
    )
    loading_timeout_s: float = setting(
        120.0, "How long a goal waits for a planner that loads its model.", minimum=0.0, maximum=3600.0
    )
    scenario: str = setting("", "A YAML file with instructions for robots by name, to begin with; empty for none.")
    startup_check_s: float = setting(
        1.0, "How long a node that starts looks for another robot of its name.", minimum=0.0, maximum=60.0
    )
    default_scene: bool = setting(
        False, "Whether a robot that takes worlds begins among a few things (robots/default_scene.py)."
    )
    home: str = setting(
        "", "Its home in the fleet's map, for the dashboard: X,Y,YAW in m and degrees; empty if unknown."
    )


class RobotNode(Node):
    """One robot. ``~/instruct`` takes an instruction, ``~/outcome`` tells how it ended, ``~/stop`` halts.

    ``~/carry_out`` is the same as an action: an instruction with progress, a result and a cancel. Of a drone that takes
    off by itself, ``~/stop`` is there before, and the others once that is over.

    No callback ends the node: whatever fails unexpectedly first halts the robot, then is logged, counted and shown.

    Args:
        name: Node name, which is also the robot's name.
        clock: Source of monotonic time.

    Attributes:
        failure: Another robot has this name; None else: nothing but that makes the node end itself.
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
            on_error=self._on_fault,
        )
        self._bridge = Bridge(self, self._on_fault)
        body = parameters.declare(self, BodySettings)
        identity = RobotIdentity(self, self._model.name, body.driver, self._monotonic, self._on_double)
        self._identity = identity
        self._require_own_name(identity, settings.startup_check_s)
        home = parse_home(settings.home)  # what is wrong is found before anything is connected
        self._first_skill = first_skill(body, self._model)
        self._robot = RobotControl(
            self._model,
            clock=self._monotonic,
            time_scale=body.time_scale,
            connection=connect_body(self, self._bridge, self._guard, self._model, body, self._monotonic),
            report=self._post_report,
            on_reflex=self._post_reflex,
            on_stop=self._post_stop,
        )
        try:
            self._serve(settings, body, identity, home)
        except BaseException:
            self._robot.close()
            raise

    def _serve(self, settings: RobotSettings, body: BodySettings, identity: RobotIdentity, home: Pose | None) -> None:
        """Begins to take instructions, and to say how the robot is."""
        identity.say(self._robot.unsupported_skills)
        if lacking := sorted(self._robot.unsupported_skills.intersection(s.skill for s in self._model.silence)):
            self.get_logger().warning(
                f"driver {body.driver} does not support {', '.join(lacking)}, which this robot would do without a "
                f"planner (silence of robot model {self._model.name})"
            )
        if settings.default_scene:
            self._robot.enter(Snapshot(objects=default_scene(self._model.kind)))
        self._control = ControlLoop(self._guard(self._robot.tick))
        self._missions = Missions(
            self,
            self._client,
            self._robot,
            self._model,
            bridge=self._bridge,
            wake=self._control.wake,
            publish=self._publish,
        )
        view = RobotViewPublisher(self, self._client.robot_id, self._robot, self._model, body.driver, home)
        self._received_at_s = float("-inf")
        self._outcomes = self.create_publisher(msgs.PlanOutcome, "~/outcome", qos.OUTCOMES)
        self._reflexes = self.create_publisher(msgs.Reflex, "~/reflex", qos.REPORTS)
        self._action: InstructionAction | None = None
        self.create_service(Stop, "~/stop", guarded(self, self._on_stop, self._on_stop_fault))
        self.create_subscription(Empty, "~/stop", self._guard(self._on_stop_topic), 10)
        self._shown: list[RobotViewPublisher | FramesPublisher | BatteryPublisher] = [view]
        if body.driver not in (MUJOCO, GAZEBO):  # where bodies are, their world says
            robot_id, clock = self._client.robot_id, self._monotonic
            self._shown.append(FramesPublisher(self, robot_id, self._robot, self._model, home, clock))
        if self._robot.has_battery:
            self._shown.append(BatteryPublisher(self, self._robot))
        self._show_timer = steady_timer(self, robot_view.PERIOD_S, self._guard(self._show))
        self._show_timer.cancel()  # until there is a subscriber
        steady_timer(self, max(SHORTEST_PERIOD_S, PERIOD_S / max(1.0, body.time_scale)), self._guard(self._tick))
        if self._first_skill and self._robot.pose.z_m <= 0.0:
            self._robot.stop("it begins in the air", (SkillCall(self._first_skill),))
        else:
            self._take_instructions()
        self._control.start()

    def _take_instructions(self) -> None:
        """Lets the robot be instructed, unless what it was to do first has failed: then the node ends."""
        if self._first_skill and self._robot.own_failure.startswith(f"{self._first_skill}: "):
            self.failure = PlannerError(
                ErrorCode.SKILL_FAILED,
                f"{self._robot.own_failure}: the drone did not take off (is there light, and room above it?), or is in "
                "the air all the same; it is told to land",
            )
            return
        self.create_service(Instruct, "~/instruct", guarded(self, self._on_instruct, self._on_instruct_fault))
        self._action = InstructionAction(self, self._missions, self._on_fault)

    def _require_own_name(self, identity: RobotIdentity, period_s: float) -> None:
        """Looks for another robot of this name before anything moves.

        Raises:
            PlannerError: DUPLICATE_NODE if there is one.
        """
        identity.look_around(period_s, lambda: self.failure is not None)
        if self.failure is not None:
            self.destroy_node()
            raise self.failure

    def _on_double(self, problem: PlannerError) -> None:
        self.failure = problem

    def end_goals(self) -> None:
        """Stops the robot and gives up its goals."""
        self._guard(self._missions.shut_down)("the robot's node is shutting down")

    def close(self) -> None:
        """Frees the node."""
        self._control.close()
        try:
            self._robot.close()
        finally:
            if self._action is not None:
                self._action.close()
            self.destroy_node()

    def _guard(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        return guarded(self, callback, self._on_fault)

    def _on_fault(self, error: Exception, *_: object) -> None:
        """Halts the robot; safe to use from any thread."""
        self._missions.fail(f"the robot's node failed: {error!r}"[:MAX_REASON])

    # Instructions

    def _on_instruct(self, order: Instruct.Request, response: Instruct.Response) -> Instruct.Response:
        try:
            self._missions.instruct(order)
            response.accepted = True
        except PlannerError as error:
            response.error_code, response.error_msg = int(error.code), error.message
        return response

    def _on_instruct_fault(
        self, error: Exception, _: Instruct.Request, response: Instruct.Response
    ) -> Instruct.Response:
        response.accepted = False
        response.error_code = int(ErrorCode.SKILL_FAILED)
        response.error_msg = f"the robot's node failed: {error!r}"[:MAX_REASON]
        with contextlib.suppress(Exception):  # the driver cannot halt: its next tick reports it
            self._on_fault(error)
        return response

    # Stops

    def _on_stop_topic(self, _: Empty) -> None:
        self._missions.stop(STOPPED_BY_OPERATOR)

    def _on_stop(self, request: Stop.Request, response: Stop.Response) -> Stop.Response:
        stopped = self._missions.stop(request.reason[:MAX_REASON] or STOPPED_BY_OPERATOR)
        response.was_busy, response.instruction = stopped.was_busy, stopped.instruction
        if stopped.failure:
            response.error_code, response.error_msg = int(ErrorCode.SKILL_FAILED), stopped.failure[:MAX_REASON]
        return response

    def _on_stop_fault(self, error: Exception, _: Stop.Request, response: Stop.Response) -> Stop.Response:
        response.was_busy, response.error_code = True, int(ErrorCode.SKILL_FAILED)
        response.error_msg = f"the robot could not halt: {error!r}"[:MAX_REASON]
        with contextlib.suppress(Exception):  # the driver cannot halt: its next tick tries again
            self._on_fault(error)
        return response

    # What the robot says, from its control thread

    def _post_report(self, report: SegmentReport) -> None:
        self._bridge.post(functools.partial(self._missions.on_report, report, self._stamp()))

    def _post_reflex(self, event: ReflexEvent) -> None:
        self._bridge.post(functools.partial(self._missions.on_reflex, event, self._stamp()))

    def _post_stop(self, failure: str) -> None:
        if failure:
            self._bridge.post(self.get_logger().error, f"failed: {failure}")
        self._bridge.post(self._missions.publish_outcomes)

    def _publish(self, message: msgs.PlanOutcome | msgs.Reflex) -> None:
        (self._reflexes if isinstance(message, msgs.Reflex) else self._outcomes).publish(message)

    # Time

    def _tick(self) -> None:
        self._identity.check()
        if self._client.received_at_s > self._received_at_s:
            self._received_at_s = self._client.received_at_s
            self._robot.receive(self._received_at_s)
        self._bridge.drain()  # an outcome comes behind what the robot has reported
        self._missions.publish_outcomes()
        if self._action is None and self.failure is None and not self._robot.is_stopping:
            self._take_instructions()
        if self._action is not None:
            self._follow_scenario()
        if self._show_timer.is_canceled() and any(shown.is_watched for shown in self._shown):
            self._show_timer.reset()

    def _show(self) -> None:
        """Publishes what is watched; the timer rests while nothing is."""
        for shown in self._shown:
            shown.tick()
        if not any(shown.is_watched for shown in self._shown):
            self._show_timer.cancel()

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
            self._missions.instruct(event.order)
        except PlannerError as error:
            self.get_logger().warning(f"scenario: {event.instruction!r} refused: {error}")

    def _stamp(self) -> Time:
        return self.get_clock().now().to_msg()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a robot node; returns the exit status."""
    return process.run(RobotNode, arguments, is_interruptible=True)  # to connect to a robot may take a while


if __name__ == "__main__":
    sys.exit(main())
