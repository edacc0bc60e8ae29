# SPDX-License-Identifier: Apache-2.0
"""The planner's event log: every event of every goal as one line of JSON on a topic, for recorders."""

import json
from collections.abc import Mapping
from typing import Any

from rclpy.node import Node
from std_msgs.msg import String

from llm_planner.core.interfaces import Clock
from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.core.segment import Segment, SegmentReport
from llm_planner.ros import qos
from llm_planner.serving import event_log
from llm_planner.serving.event_log import VERSION


class GoalEvents:
    """Publishes ``~/goal_events``.

    Args:
        node: The planner.
        clock: Stamps the events; only differences mean anything.
    """

    def __init__(self, node: Node, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._publisher = node.create_publisher(String, "~/goal_events", qos.GOAL_EVENTS)
        self._number = 0

    def accepted(self, request: PlanRequest) -> None:
        """Says that a goal was taken."""
        self._publish(event_log.accepted(request, self._clock.now_s()))

    def segment(self, request_id: str, segment: Segment) -> None:
        """Says that a segment leaves."""
        self._publish(event_log.segment_sent(request_id, segment, self._clock.now_s()))

    def reported(self, report: SegmentReport) -> None:
        """Says what a robot reported."""
        self._publish(event_log.reported(report, self._clock.now_s()))

    def finished(self, result: PlanResult) -> None:
        """Says how a goal ended."""
        self._publish(event_log.finished(result, self._clock.now_s()))

    def _publish(self, line: Mapping[str, Any]) -> None:
        """Publishes a line with its number: a gap in the numbers shows what was lost."""
        self._publisher.publish(String(data=json.dumps({"version": VERSION, "number": self._number, **line})))
        self._number += 1

    def close(self) -> None:
        """Takes the topic off the node again."""
        self._node.destroy_publisher(self._publisher)
