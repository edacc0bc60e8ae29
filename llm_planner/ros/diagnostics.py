# SPDX-License-Identifier: Apache-2.0
"""The health of nodes as diagnostic statuses, and what a planner is doing as a view."""

import dataclasses
from collections.abc import Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode
from llm_planner.ros.guarded_executor import num_callback_errors
from llm_planner.ros.steady import steady_timer
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.planner_view import IdleRobot, PlannerView
from llm_planner.serving.server import PlanServer, ServerStatus

PERIOD_S = 1.0
MAX_FINDINGS = 80
MAX_IDLE_ROBOTS = 100
"""Most idle robots that a view names; any client may ask once as any robot."""
STATES = ("LOADING", "INACTIVE", "ACTIVE")  # by the numbers of msg/PlannerStatus


def describe(
    node: Node, config: PlannerConfig, server: PlanServer | None, *, is_active: bool, has_double: bool
) -> DiagnosticStatus:
    """Returns how a planner node is: queue, KV cache, restarts, model, failed callbacks."""
    values: dict[str, object] = {
        "model": config.served_model,
        "policy": config.scheduler.policy,
        "num_callback_errors": num_callback_errors(node),
    }
    if server is None:
        level, message = DiagnosticStatus.WARN, "no model is loaded"
    else:
        status = server.status
        level, message = _judge(status, is_active)
        values |= {"num_restarts": status.num_restarts, "num_unfinished": len(status.request_ids)}
        values |= {"num_replicas": status.num_replicas, "num_ready": status.num_ready}
        values |= dataclasses.asdict(status.loop) if status.loop is not None else {}
    if has_double:
        name = node.get_fully_qualified_name()
        level, message = DiagnosticStatus.ERROR, f"another planner runs as {name}: goals reach both; stop one of them"
    return _status(node, "planner", level, message, values)


class CallbackHealth:
    """Tells ``/diagnostics`` once a second how many callbacks of a node have failed.

    Args:
        node: An observer; a planner reports this with its own diagnostics.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        steady_timer(node, PERIOD_S, self._tick)

    def _tick(self) -> None:
        num_errors = num_callback_errors(self._node)
        level, message = DiagnosticStatus.OK, "runs"
        if num_errors:
            level, message = DiagnosticStatus.WARN, f"{num_errors} callbacks failed; see its log"
        status = _status(self._node, "callbacks", level, message, {"num_callback_errors": num_errors})
        report = DiagnosticArray(status=[status])
        report.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(report)


def _status(node: Node, what: str, level: bytes, message: str, values: Mapping[str, object]) -> DiagnosticStatus:
    return DiagnosticStatus(
        level=level,
        name=f"{node.get_name()}: {what}",
        message=message,
        hardware_id=node.get_fully_qualified_name(),
        values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
    )


def view(
    node: Node, config: PlannerConfig, server: PlanServer | None, state: int, book: GoalBook, now_s: float
) -> PlannerView:
    """Returns what a planner node is doing."""
    status = None if server is None else server.status
    loop = None if status is None else status.view
    error = None if status is None else status.error
    idle = (
        IdleRobot(
            robot_id=goal.request.robot_id,
            idle_s=now_s - (goal.ended_at_s or now_s),
            error_code=goal.result.error_code if goal.result is not None else ErrorCode.NONE,
            findings="" if goal.result is None else goal.result.findings[:MAX_FINDINGS],
        )
        for goal in book.last_of_idle_robots()[-MAX_IDLE_ROBOTS:]
    )
    return PlannerView(
        planner=node.get_fully_qualified_name(),
        state=STATES[state],
        model=config.served_model,
        policy=config.scheduler.policy,
        is_ready=status is not None and status.is_ready,
        num_restarts=0 if status is None else status.num_restarts,
        num_goals=len(book.unfinished()),
        error_code=ErrorCode.NONE if error is None else error.code,
        error_msg="" if error is None else error.message,
        age_s=None if loop is None else now_s - loop.at_s,
        loop=loop,
        idle_robots=tuple(idle),
    )


def _judge(status: ServerStatus, is_active: bool) -> tuple[bytes, str]:
    if status.error is not None:
        return DiagnosticStatus.ERROR, str(status.error)
    if not status.is_ready:
        return DiagnosticStatus.WARN, "the engine is starting"
    if status.num_ready < status.num_replicas:
        return DiagnosticStatus.WARN, f"{status.num_ready} of {status.num_replicas} engines plan"
    if status.silent_s is not None:
        return DiagnosticStatus.WARN, f"the engine has not answered for {status.silent_s:.1f} s"
    return (DiagnosticStatus.OK, "accepts goals") if is_active else (DiagnosticStatus.WARN, "inactive")
