# SPDX-License-Identifier: Apache-2.0
"""Receives what a planner and its robots publish, for a dashboard; sends nothing."""

from collections.abc import Callable
from functools import partial

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node
from rclpy.subscription import Subscription
from std_msgs.msg import String

import llm_planner.msg as msgs
from llm_planner.core.text import node_name
from llm_planner.monitoring import receiving
from llm_planner.monitoring.alerts import MAX_ENTRIES
from llm_planner.monitoring.board import Board
from llm_planner.monitoring.fleet import MAX_ROBOTS
from llm_planner.ros import qos
from llm_planner.ros.graph import robot_nodes
from llm_planner.ros.steady import steady_timer

SEARCH_PERIOD_S = 1.0
LEVELS = {
    DiagnosticStatus.OK: 0,
    DiagnosticStatus.WARN: 1,
    DiagnosticStatus.ERROR: 2,
    DiagnosticStatus.STALE: 2,
}


class FleetListener:
    """Subscribes to everything that a dashboard shows. Views, which are published for listeners only, can be let go.

    Args:
        node: Spun by the caller.
        planner: Full name of the planner node.
        board: Gets what is received.

    Raises:
        PlannerError: INVALID_CONFIG if no node can have this name.
    """

    def __init__(self, node: Node, planner: str, board: Board) -> None:
        self._node = node
        self._planner = node_name(planner)
        self._board = board
        self._is_watching = False
        self._views: list[Subscription] = []
        self._robots: set[str] = set()
        node.create_subscription(String, f"{self._planner}/goal_events", self._on_event, qos.GOAL_EVENTS)
        node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 10)
        steady_timer(node, SEARCH_PERIOD_S, self._search)

    def watch(self, is_watching: bool) -> None:
        """Subscribes to views, or ends that. Call it in the thread of the executor."""
        if is_watching == self._is_watching:
            return
        self._is_watching = is_watching
        for subscription in self._views:
            self._node.destroy_subscription(subscription)
        self._views.clear()
        if is_watching:
            with self._board.changing() as (state, now_s):
                state.resume(now_s)
            self._listen(f"{self._planner}/view", self._on_planner)
            for robot in self._robots:
                self._watch_robot(robot)

    def _search(self) -> None:
        for robot in sorted(robot_nodes(self._node) - self._robots)[: MAX_ROBOTS - len(self._robots)]:
            self._robots.add(robot)
            self._node.create_subscription(msgs.Reflex, f"{robot}/reflex", self._on_reflex, qos.REPORTS)
            if self._is_watching:
                self._watch_robot(robot)

    def _watch_robot(self, robot: str) -> None:
        self._listen(f"{robot}/view", partial(self._on_robot, robot))

    def _listen(self, topic: str, callback: Callable[[String], None]) -> None:
        self._views.append(self._node.create_subscription(String, topic, callback, qos.VIEWS))

    def _on_planner(self, message: String) -> None:
        with self._board.changing() as (state, now_s):
            receiving.receive_planner(state, self._planner, message.data, now_s)

    def _on_event(self, message: String) -> None:
        with self._board.changing() as (state, now_s):
            receiving.receive_event(state, self._planner, message.data, now_s)

    def _on_robot(self, robot: str, message: String) -> None:
        with self._board.changing() as (state, now_s):
            receiving.receive_robot(state, robot, message.data, now_s)

    def _on_reflex(self, message: msgs.Reflex) -> None:
        is_over = bool(message.finished_at.sec or message.finished_at.nanosec)
        with self._board.changing() as (state, now_s):
            state.receive_reflex(message.robot_id, message.reason, message.action, is_over=is_over, now_s=now_s)

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        with self._board.changing() as (state, now_s):
            for status in message.status[:MAX_ENTRIES]:
                state.receive_diagnostic(status.name, LEVELS.get(status.level, 2), status.message, now_s)
