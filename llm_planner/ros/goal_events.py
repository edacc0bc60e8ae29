"""The planner's diary: every event of every goal as one line of JSON on a topic, for whoever records it."""

import json
from collections.abc import Callable, Mapping
from typing import IO, Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from llm_planner.core.interfaces import Clock
from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.core.segment import Segment, SegmentReport
from llm_planner.ros import qos
from llm_planner.simulation import recording
from llm_planner.simulation.trace import FORMAT, VERSION


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
        self._publish(recording.accepted(request, self._clock.now_s()))

    def segment(self, request_id: str, segment: Segment) -> None:
        """Says that a segment leaves."""
        self._publish(recording.segment_sent(request_id, segment, self._clock.now_s()))

    def reported(self, report: SegmentReport) -> None:
        """Says what a robot reported."""
        self._publish(recording.reported(report, self._clock.now_s()))

    def finished(self, result: PlanResult) -> None:
        """Says how a goal ended."""
        self._publish(recording.finished(result, self._clock.now_s()))

    def _publish(self, line: Mapping[str, Any]) -> None:
        """Publishes a line with its number: a gap in the numbers shows what was lost."""
        self._publisher.publish(String(data=json.dumps({"version": VERSION, "number": self._number, **line})))
        self._number += 1

    def close(self) -> None:
        """Takes the topic off the node again."""
        self._node.destroy_publisher(self._publisher)


class TraceRecorder:
    """Writes what a planner says of its goals to a file, line by line; what is written stays, whatever happens next.

    Args:
        node: Listens; spun by somebody else.
        planner: Full name of the planner node.
        file: Receives the lines, the header at once.
        name: Of the trace.
        has_past: Whether the events that the planner still remembers are recorded too.
        on_event: Hears how many events were written so far.
    """

    def __init__(
        self,
        node: Node,
        planner: str,
        file: IO[str],
        *,
        name: str,
        has_past: bool = False,
        on_event: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._file = file
        self._on_event = on_event
        self._next_number: int | None = None
        self.num_events = 0
        self.num_lost = 0
        header = {"format": FORMAT, "version": VERSION, "kind": "recording", "name": name}
        self._write({**header, "about": {"planner": planner}})
        durability = DurabilityPolicy.TRANSIENT_LOCAL if has_past else DurabilityPolicy.VOLATILE
        profile = QoSProfile(depth=qos.GOAL_EVENTS.depth, reliability=ReliabilityPolicy.RELIABLE, durability=durability)
        self._subscription = node.create_subscription(String, f"{planner}/goal_events", self._hear, profile)

    def _hear(self, message: String) -> None:
        line = json.loads(message.data)
        if line.pop("version") != VERSION:
            return  # another version's planner: nothing that this one could replay
        number = line.pop("number")
        if self._next_number is not None and number > self._next_number:
            self.num_lost += number - self._next_number
        self._next_number = number + 1  # a planner that was started again counts from 0
        self.num_events += 1
        self._write(line)
        self._on_event(self.num_events)

    def close(self) -> None:
        """Writes the end; call it when nobody spins the node any more."""
        self._write({"end": True, "num_events": self.num_events, "num_lost": self.num_lost})

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
