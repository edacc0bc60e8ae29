# SPDX-License-Identifier: Apache-2.0
"""The planner as a lifecycle node: ``configure`` loads the model, ``activate`` accepts goals.

It configures and activates itself unless ``autostart`` is false. Loading happens in a thread, so that the node shows
life meanwhile; only a lifecycle manager that asks for ``configure`` itself waits for it.
"""

import sys
import threading
import uuid
from collections.abc import Callable, Sequence

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import SetParametersResult
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter

import llm_planner.msg as msgs
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import NodeSettings, PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.ros import diagnostics, parameters, process, qos
from llm_planner.ros.capacity import CapacityService
from llm_planner.ros.guard import guarded
from llm_planner.ros.live_view import ViewPublisher
from llm_planner.ros.loading import ServerLoader
from llm_planner.ros.metrics_endpoint import MetricsEndpoint
from llm_planner.ros.plan_action import PlanAction
from llm_planner.ros.steady import steady_timer
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.planner_view import PlannerView
from llm_planner.serving.server import PlanServer

STATUS_PERIOD_S = 0.5
CLOSE_TIMEOUT_S = 3.0


ServerFactory = Callable[[PlannerConfig, GoalBook], PlanServer]


class PlannerNode(LifecycleNode):
    """The node ``planner``: one PlanTask action server in front of one ``PlanServer``.

    Args:
        build_server: Builds a server, not yet started, from a configuration and the book of the goals. May take long;
            is called in a thread of its own.
        clock: Source of time for heartbeats and the memory of finished goals.
        name: Node name; the interfaces live below it (``/planner/plan_task``).

    Attributes:
        failure: Why the node must end itself (loading failed, duplicate name, no engine left); None while all is well.
    """

    def __init__(
        self,
        build_server: ServerFactory,
        *,
        clock: Clock | None = None,
        name: str = "planner",
        parameter_overrides: list[Parameter] | None = None,
    ) -> None:
        super().__init__(name, parameter_overrides=parameter_overrides)
        self._build_server = build_server
        self._monotonic = clock or MonotonicClock()
        self._settings = parameters.declare(self, NodeSettings)
        parameters.declare_config(self)
        self.add_on_set_parameters_callback(self._on_set_parameters)
        self._config = PlannerConfig()
        self._loader: ServerLoader | None = None
        self._server: PlanServer | None = None
        self._is_active = False
        self._is_starting = True  # until it was active for the first time
        self._other_received_s = float("-inf")  # when another planner of this name published a status
        self._instance_id = uuid.uuid4().hex
        self._started_at = self.get_clock().now().to_msg()
        self.failure: PlannerError | None = None
        self._book = GoalBook(client_timeout_s=self._settings.client_timeout_s, memory_s=self._settings.result_memory_s)
        self._capacity = CapacityService(self, lambda: self._config, self._book)
        self._action: PlanAction | None = None  # from the first configure on: a double that ends itself never has one
        self._status = self.create_publisher(msgs.PlannerStatus, "~/status", qos.STATUS)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._view = ViewPublisher(self, lambda: self._server, self._describe)
        self._metrics = MetricsEndpoint(self, self._settings, lambda: self._server, self._describe)
        self.create_subscription(msgs.PlannerStatus, "~/status", self._on_status, qos.STATUS)
        steady_timer(self, STATUS_PERIOD_S, self._on_status_timer)
        steady_timer(self, diagnostics.PERIOD_S, self._publish_diagnostics)
        changes = self._service_change_state  # rclpy raises for a transition that is not possible from here
        changes.callback = guarded(self, changes.callback, lambda _error, _request, response: response)
        if self._settings.autostart:
            self._autostart_timer = steady_timer(self, self._settings.startup_check_s, self._autostart)
            self._start_loading()

    # Lifecycle

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Loads the model; waits for it only if it is not loaded yet."""
        try:
            loader = self._loader or self._start_loading()
            self._server = loader.wait()
        except PlannerError as error:
            self.get_logger().error(f"cannot configure: {error}")
            return TransitionCallbackReturn.FAILURE
        finally:
            self._loader = None
        self._action = self._action or PlanAction(self, self._monotonic, self._book, self._metrics.count)
        self._action.config = self._config
        self.get_logger().info(f"model {self._config.served_model} is ready")
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Accepts goals from now on."""
        assert self._action is not None  # ``on_configure`` made it
        self._action.server = self._server
        self._is_active, self._is_starting = True, False
        self._publish_status()
        self.get_logger().info(f"accepts goals on {self.get_fully_qualified_name()}/plan_task")
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Accepts no goals any more; the unfinished ones end."""
        self._end_all(PlannerError(ErrorCode.SHUTTING_DOWN, "the planner was deactivated; ask again when it is active"))
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Frees the model; a goal whose end is still on its way here ends now."""
        self._close_server()
        self._end_all(PlannerError(ErrorCode.SHUTTING_DOWN, "the planner was deactivated; ask again when it is active"))
        return super().on_cleanup(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Goes back to the beginning after a transition that failed unexpectedly."""
        self.get_logger().error("a transition failed: the planner must be configured again")
        self._end_all(PlannerError(ErrorCode.ENGINE_FAILED, "the planner failed; ask again when it is active"))
        self._close_server()
        return super().on_error(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Ends all goals and frees the model."""
        self.end_goals()
        self._close_server()
        self.end_goals()  # whose end by the server is still on its way here
        return super().on_shutdown(state)

    def end_goals(self) -> None:
        """Ends every goal with SHUTTING_DOWN; spin a little afterwards, so that the results go out."""
        self._end_all(PlannerError(ErrorCode.SHUTTING_DOWN, "the planner is shutting down"))

    def close(self) -> None:
        """Frees the model and the node."""
        self._metrics.close()
        self._close_server()
        if self._action is not None:
            self._action.close()
            self._action = None
        self.destroy_node()

    # Loading

    def _on_set_parameters(self, changed: list[Parameter]) -> SetParametersResult:
        """The planner's parameters count when it is configured; later changes would be lies."""
        names = parameters.names(PlannerConfig) & {parameter.name for parameter in changed}
        if names and (self._server is not None or self._loader is not None):
            reason = f"{', '.join(sorted(names))}: deactivate and clean up first; parameters are read by configure"
            return SetParametersResult(successful=False, reason=reason)
        return SetParametersResult(successful=True)

    def _start_loading(self) -> ServerLoader:
        self._config = parameters.read_config(self)
        self._loader = ServerLoader(lambda: self._build_server(self._config, self._book))
        return self._loader

    def _autostart(self) -> None:
        """Configures and activates as soon as the model is loaded; called by a timer until then."""
        if self._loader is not None and self._loader.is_loading:
            self._autostart_timer.timer_period_ns = int(0.05e9)
            return
        self._autostart_timer.cancel()
        if self._loader is None:
            return  # a lifecycle manager has taken over
        try:
            self._loader.wait()
        except PlannerError as error:
            self.failure = error
            return
        if self.trigger_configure() == TransitionCallbackReturn.SUCCESS:
            self.trigger_activate()

    def _close_server(self) -> None:
        """Closes the server, or the one that is still being loaded; gives up waiting after a few seconds."""
        loader, server = self._loader, self._server
        self._loader = self._server = None
        closing = server.close if server is not None else loader.close if loader is not None else None
        if closing is not None:
            thread = threading.Thread(target=closing, name="close-server", daemon=True)
            thread.start()
            thread.join(CLOSE_TIMEOUT_S)

    # Goals

    def _end_all(self, reason: PlannerError) -> None:
        if self._action is not None:
            self._action.end_all(reason)
            self._action.server = None
        self._is_active = False
        self._publish_status()

    # Signs of life

    def _on_status_timer(self) -> None:
        now_s = self._monotonic.now_s()
        for goal in self._book.abandoned(now_s):
            gone = PlannerError(
                ErrorCode.CLIENT_GONE,
                f"the client of {goal.request.robot_id} stopped its heartbeats for {self._settings.client_timeout_s} s",
            )
            if self._action is not None:
                self._action.end(goal.request.request_id, gone)
        self._book.forget(now_s)
        if self._server is not None and (error := self._server.status.error) is not None:
            self.failure = process.CrashError(error.code, error.message)
        self._publish_status()

    @property
    def _state(self) -> int:
        state = msgs.PlannerStatus.ACTIVE if self._is_active else msgs.PlannerStatus.INACTIVE
        return int(msgs.PlannerStatus.LOADING if self._loader is not None else state)

    def _publish_status(self) -> None:
        self._status.publish(
            msgs.PlannerStatus(
                instance_id=self._instance_id,
                started_at=self._started_at,
                state=self._state,
                model=self._config.served_model,
                policy=self._config.scheduler.policy,
                goals=[
                    msgs.GoalProgress(
                        goal_id=g.request.request_id, robot_id=g.request.robot_id, num_segments=len(g.segments)
                    )
                    for g in self._book.unfinished()
                ],
            )
        )

    def _on_status(self, other: msgs.PlannerStatus) -> None:
        """Ends this node, while it is starting, if another one has its name and was there first.

        A message alone proves nothing: any client can send one.
        """
        if other.instance_id == self._instance_id:
            return
        self._other_received_s = self._monotonic.now_s()
        if not self._is_starting or not self._has_double():
            return
        if other.state == msgs.PlannerStatus.ACTIVE or self._is_junior_to(other):
            self.failure = PlannerError(
                ErrorCode.DUPLICATE_NODE,
                f"another planner runs as {self.get_fully_qualified_name()}; stop it, or start this one under another "
                "name or namespace",
            )

    def _is_junior_to(self, other: msgs.PlannerStatus) -> bool:
        """Returns whether this planner yields to the other; both sides decide alike."""

        def seniority(instance_id: str, started_at: Time) -> tuple[int, int, str]:
            return (started_at.sec, started_at.nanosec, instance_id)

        return seniority(other.instance_id, other.started_at) < seniority(self._instance_id, self._started_at)

    def _has_double(self) -> bool:
        """Returns whether the ROS graph knows a second node of this name that publishes a status, and one came lately.

        The graph remembers a node that was killed for some seconds.
        """
        if self._monotonic.now_s() - self._other_received_s > 4 * STATUS_PERIOD_S:
            return False
        own = (self.get_name(), self.get_namespace())
        publishers = self.get_publishers_info_by_topic(self._status.topic_name)
        return sum((info.node_name, info.node_namespace) == own for info in publishers) > 1

    def _describe(self) -> PlannerView:
        now_s = self._monotonic.now_s()
        return diagnostics.view(self, self._config, self._server, self._state, self._book, now_s)

    def _publish_diagnostics(self) -> None:
        status = diagnostics.describe(
            self, self._config, self._server, is_active=self._is_active, has_double=self._has_double()
        )
        report = DiagnosticArray(status=[status])
        report.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(report)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the planner node; returns the exit status."""
    from llm_planner.assembly import build_server

    return process.run(lambda: PlannerNode(build_server), arguments)


if __name__ == "__main__":
    sys.exit(main())
