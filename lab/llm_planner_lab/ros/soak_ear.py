# SPDX-License-Identifier: Apache-2.0
"""Counts the messages of a fleet: which numbers never came, and which took too long."""

import json
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from std_msgs.msg import String

from llm_planner.ros.graph import robot_nodes
from llm_planner.ros.message_definitions import message_class
from llm_planner_lab.ros.quantiles import Quantiles

LATE_SHARE, LATE_S = 0.2, 0.005
PERIODS_S = {"status": 0.5, "diagnostics": 1.0, "robot view": 0.2, "planner view": 0.25}
SPOKEN_BY_MANY = frozenset({"report", "heartbeat", "diagnostics"})
"""Topics with several publishers, whose numbers say nothing together: reports are counted where they arrive."""


@dataclass(slots=True)
class Kind:
    """What was received on topics of one kind.

    Attributes:
        period_s: Between two messages of one topic; None if there is none.
        ways_s: From a publisher's stamp until a callback had the message, the wait for other callbacks included.
        transport_s: Until the middleware had it.
        numbers: By topic, the least and greatest number of its publisher, and how many came.
    """

    period_s: float | None
    ways_s: list[float] = field(default_factory=list)
    transport_s: list[float] = field(default_factory=list)
    numbers: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def receive(self, topic: str, number: int, way_s: float, transport_s: float) -> None:
        """Notes a message."""
        least, most, count = self.numbers.get(topic, (number, number, 0))
        self.numbers[topic] = (min(least, number), max(most, number), count + 1)
        self.ways_s.append(way_s)
        self.transport_s.append(transport_s)

    def num_late(self, ways_s: Sequence[float]) -> int:
        """Returns how many of these took too long; 0 without a period."""
        limit_s = math.inf if self.period_s is None else min(LATE_SHARE * self.period_s, LATE_S)
        return sum(way_s > limit_s for way_s in ways_s)

    @property
    def num_lost(self) -> int:
        """How many numbers are missing between the first and the last of each topic."""
        return sum(most - least + 1 - count for least, most, count in self.numbers.values())

    def report(self, *, has_numbers: bool) -> dict[str, Any]:
        """Returns the kind in figures."""
        num_received = len(self.ways_s)
        quantiles = Quantiles.of(self.ways_s) if self.ways_s else None
        transport = Quantiles.of(self.transport_s) if self.transport_s else None
        return {
            "received": num_received,
            "lost": self.num_lost if has_numbers else None,
            **_late([self] if self.period_s is not None else []),
            "way_p50_ms": quantiles and quantiles.p50_ms,
            "way_p99_ms": quantiles and quantiles.p99_ms,
            "way_max_ms": quantiles and quantiles.max_ms,
            "transport_p50_ms": transport and transport.p50_ms,
            "transport_p99_ms": transport and transport.p99_ms,
        }


class Ear:
    """Subscribes to every topic of a planner and of all robots that can be seen; counts while it is told to.

    Args:
        node: Spun by the caller.
        planner: Full name of the planner node.
    """

    def __init__(self, node: Node, planner: str) -> None:
        self.is_counting = False
        self._kinds: dict[str, Kind] = {}
        self._reports: Counter[tuple[str, str]] = Counter()  # (goal, started or ended)
        self._segments: Counter[str] = Counter()
        self._done: set[str] = set()
        owners = {planner, *robot_nodes(node)}
        for topic, types in node.get_topic_names_and_types():
            owner, _, name = topic.rpartition("/")
            if owner in owners or topic == "/diagnostics":
                self._listen(node, topic, types[0], _kind(name, is_planner=owner == planner))

    def report(self) -> dict[str, dict[str, Any]]:
        """Returns, by kind of topic and for all that have a period, what was received, lost and late."""
        kinds = {name: kind.report(has_numbers=name not in SPOKEN_BY_MANY) for name, kind in self._kinds.items()}
        periodic = [kind for kind in self._kinds.values() if kind.period_s is not None]
        numbered = [kind for name, kind in self._kinds.items() if name not in SPOKEN_BY_MANY]
        total = {
            "lost": sum(kind.num_lost for kind in numbered),
            "of": sum(len(kind.ways_s) + kind.num_lost for kind in numbered),
            **_late(periodic),
        }
        return {**kinds, "all": total}

    def report_of_reports(self) -> dict[str, int]:
        """Returns how many of the robots' reports reached the planner, of the goals that began and ended meanwhile."""
        expected = sum(2 * self._segments[goal] for goal in self._done)
        return {"goals": len(self._done), "expected": expected, "lost": expected - self._num_reports()}

    def _num_reports(self) -> int:
        return sum(count for (goal, _), count in self._reports.items() if goal in self._done)

    def _listen(self, node: Node, topic: str, message_type: str, name: str) -> None:
        offered = [info.qos_profile.reliability for info in node.get_publishers_info_by_topic(topic)]
        if not offered:
            return  # spoken to, not by, the fleet
        is_reliable = all(reliability is ReliabilityPolicy.RELIABLE for reliability in offered)
        profile = QoSProfile(
            depth=1000,
            reliability=ReliabilityPolicy.RELIABLE if is_reliable else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.VOLATILE,
        )
        kind = self._kinds.setdefault(name, Kind(PERIODS_S.get(name)))
        node.create_subscription(
            message_class(message_type), topic, partial(self._receive, kind, topic), profile, raw=True
        )

    def _receive(self, kind: Kind, topic: str, data: bytes, info: Mapping[str, int]) -> None:
        if not self.is_counting:
            return
        sent_ns, came_ns = info["source_timestamp"], info["received_timestamp"]
        way_s, transport_s = (time.time_ns() - sent_ns) / 1e9, (came_ns - sent_ns) / 1e9
        kind.receive(topic, info["publication_sequence_number"], way_s, transport_s)
        if topic.endswith("/goal_events"):
            self._note(json.loads(deserialize_message(data, String).data))

    def _note(self, line: Mapping[str, Any]) -> None:
        """Counts segments and reports of goals whose beginning was received."""
        goal = str(line["request_id"])
        match line["event"]:
            case "accepted":
                self._segments[goal] = 0
            case "segment" if goal in self._segments:
                self._segments[goal] += 1
            case "report" if goal in self._segments:
                self._reports[goal, str(line["status"])] += 1
            case "finished" if goal in self._segments and not line["error_code"]:
                self._done.add(goal)


def _late(kinds: Sequence[Kind]) -> dict[str, float | None]:
    """Returns the shares of messages that the callback had too late, that the middleware had, and the difference.

    That difference are messages that the middleware had in time: what made them late is this process, and no robot.
    """
    num_received = sum(len(kind.ways_s) for kind in kinds)
    if not num_received:
        return dict.fromkeys(("late_share", "late_share_of_transport", "late_share_of_listener"))
    late = sum(kind.num_late(kind.ways_s) for kind in kinds)
    late_there = sum(kind.num_late(kind.transport_s) for kind in kinds)
    return {
        "late_share": round(late / num_received, 5),
        "late_share_of_transport": round(late_there / num_received, 5),
        "late_share_of_listener": round((late - late_there) / num_received, 5),
    }


def _kind(name: str, *, is_planner: bool) -> str:
    return f"{'planner' if is_planner else 'robot'} view" if name == "view" else name
