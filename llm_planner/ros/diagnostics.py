"""The planner's health as a diagnostic status."""

import dataclasses

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.node import Node

from llm_planner.core.config import PlannerConfig
from llm_planner.serving.server import PlanServer, ServerStatus


def describe(node: Node, config: PlannerConfig, server: PlanServer | None, is_active: bool) -> DiagnosticStatus:
    """Returns how a planner node is: queue, KV cache, restarts, model."""
    values: dict[str, object] = {"model": config.engine.model, "policy": config.scheduler.policy}
    if server is None:
        level, message = DiagnosticStatus.WARN, "no model is loaded"
    else:
        status = server.status
        level, message = _judge(status, is_active)
        values |= {"num_restarts": status.num_restarts, "num_unfinished": len(status.request_ids)}
        values |= dataclasses.asdict(status.loop) if status.loop is not None else {}
    return DiagnosticStatus(
        level=level,
        name=f"{node.get_name()}: planner",
        message=message,
        hardware_id=node.get_fully_qualified_name(),
        values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
    )


def _judge(status: ServerStatus, is_active: bool) -> tuple[bytes, str]:
    if status.error is not None:
        return DiagnosticStatus.ERROR, str(status.error)
    if not status.is_ready:
        return DiagnosticStatus.WARN, "the engine is starting"
    return (DiagnosticStatus.OK, "accepts goals") if is_active else (DiagnosticStatus.WARN, "inactive")
