# SPDX-License-Identifier: Apache-2.0
"""rclpy's action client, but that it forgets goals that have ended."""

from collections.abc import Mapping
from typing import Any

from rclpy.action.client import ActionClient
from rclpy.node import Node

from llm_planner.action import PlanTask


class PlanActionClient(ActionClient):
    """The client side of ``plan_task``.

    rclpy keeps a reference for each accepted goal until the action's status topic says that the goal has ended. A goal
    that was refused is never named there (``ros.action_server``), and a status may be lost. ``ros.remote_goal``
    has handles of its own and needs none of these references.

    Args:
        node: That asks.
        name: Of the action.
        options: Of rclpy's action client.
    """

    def __init__(self, node: Node, name: str, **options: Any) -> None:
        super().__init__(node, PlanTask, name, **options)

    async def execute(self, taken_data: Mapping[str, Any]) -> None:
        """Does what has come."""
        await super().execute(taken_data)
        self._goal_handles.clear()
