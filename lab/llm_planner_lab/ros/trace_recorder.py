# SPDX-License-Identifier: Apache-2.0
"""Records the event log of a running planner into a trace file."""

import json
from collections.abc import Callable, Mapping
from typing import IO, Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from llm_planner.ros import qos
from llm_planner.serving.event_log import FORMAT, VERSION


class TraceRecorder:
    """Writes what a planner says of its goals to a file, line by line; what is written stays, whatever happens next.

    Args:
        node: Listens; spun by the caller.
        planner: Full name of the planner node.
        file: Receives the lines, the header at once.
        name: Of the trace.
        has_past: Whether the events that the planner still remembers are recorded too.
        on_event: Receives how many events were written so far.
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
        self._subscription = node.create_subscription(String, f"{planner}/goal_events", self._receive, profile)

    def _receive(self, message: String) -> None:
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
        """Writes the end; call it when the node is no longer spun."""
        self._write({"end": True, "num_events": self.num_events, "num_lost": self.num_lost})

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
