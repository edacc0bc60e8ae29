# SPDX-License-Identifier: Apache-2.0
"""Records what a planner and its robots publish; sends nothing, and deserializes nothing."""

from collections.abc import Callable, Sequence
from functools import partial

import yaml
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.monitoring.recorder import McapRecorder
from llm_planner.ros.graph import robot_nodes
from llm_planner.ros.message_definitions import definition, message_class
from llm_planner.ros.steady import steady_timer

SEARCH_PERIOD_S = 0.5
FLUSH_PERIOD_S = 1.0
DEPTH = 1000
COMMON = frozenset({"/diagnostics", "/rosout", "/tf", "/tf_static", "/clock"})
OF_A_WORLD = ("clock", "world/markers")
"""In the namespace of the planner."""


class FleetRecorder:
    """Subscribes to every topic of a planner and of robot nodes as soon as it is there, and to a few common ones.

    Args:
        node: Spun by the caller.
        planner: Name of the planner node.
        recorder: Receives the messages.
        on_message: Receives how many messages were written so far.

    Attributes:
        failure: Why nothing is written any more (a full disk, say); None while all is well.
    """

    def __init__(
        self,
        node: Node,
        planner: str,
        recorder: McapRecorder,
        on_message: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._node = node
        self._planner = node.resolve_topic_name(planner.rstrip("/"))
        self._recorder = recorder
        self._on_message = on_message
        namespace = self._planner.rpartition("/")[0]
        self._common = COMMON | {f"{namespace}/{name}" for name in OF_A_WORLD}
        self._known: set[str] = set()
        self.failure: PlannerError | None = None
        steady_timer(node, SEARCH_PERIOD_S, self._search)
        steady_timer(node, FLUSH_PERIOD_S, lambda: self._try(recorder.flush))

    @property
    def topics(self) -> frozenset[str]:
        """What has been looked at so far."""
        return frozenset(self._known)

    def _search(self) -> None:
        owners = {self._planner, *robot_nodes(self._node)}
        for topic, types in self._node.get_topic_names_and_types():
            is_ours = topic in self._common or topic.rpartition("/")[0] in owners
            if is_ours and topic not in self._known and len(types) == 1:
                self._begin(topic, types[0])

    def _begin(self, topic: str, message_type: str) -> None:
        profile = self._profile(topic)
        if profile is None:
            return  # it has no publisher yet
        self._known.add(topic)
        try:
            kind, text = message_class(message_type), definition(message_type)
        except LookupError as error:
            self._node.get_logger().warning(f"{topic} is not recorded: {error}")
            return
        channel = self._recorder.add_channel(topic, message_type, text, offered_qos(self._offers(topic)))
        self._node.create_subscription(kind, topic, partial(self._receive, channel), profile, raw=True)

    def _profile(self, topic: str) -> QoSProfile | None:
        """Returns a quality of service that every publisher of the topic can serve."""
        offered = self._offers(topic)
        if not offered:
            return None
        is_reliable = all(profile.reliability is ReliabilityPolicy.RELIABLE for profile in offered)
        is_latched = all(profile.durability is DurabilityPolicy.TRANSIENT_LOCAL for profile in offered)
        return QoSProfile(
            depth=DEPTH,
            reliability=ReliabilityPolicy.RELIABLE if is_reliable else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if is_latched else DurabilityPolicy.VOLATILE,
        )

    def _offers(self, topic: str) -> list[QoSProfile]:
        return [info.qos_profile for info in self._node.get_publishers_info_by_topic(topic)]

    def _receive(self, channel: int, data: bytes, info: dict[str, int]) -> None:
        sent_ns, number = info["source_timestamp"], info.get("publication_sequence_number") or 0
        self._try(lambda: self._recorder.add(channel, data, published_ns=sent_ns, sequence=number))
        self._on_message(self._recorder.num_messages)

    def _try(self, write: Callable[[], None]) -> None:
        if self.failure is not None:
            return
        try:
            write()
        except OSError as error:
            message = f"the recording ends: {error.strerror}; what was written so far can be read"
            self.failure = PlannerError(ErrorCode.INVALID_FILE, message)


def offered_qos(profiles: Sequence[QoSProfile]) -> str:
    """Returns what publishers offer as rosbag2 writes it into a bag (format 9, from Jazzy on)."""
    return yaml.safe_dump([_offer(profile) for profile in profiles], sort_keys=False)


def _offer(profile: QoSProfile) -> dict[str, object]:
    return {
        "history": profile.history.name.lower(),
        "depth": profile.depth,
        "reliability": profile.reliability.name.lower(),
        "durability": profile.durability.name.lower(),
        "deadline": _time(profile.deadline),
        "lifespan": _time(profile.lifespan),
        "liveliness": profile.liveliness.name.lower(),
        "liveliness_lease_duration": _time(profile.liveliness_lease_duration),
        "avoid_ros_namespace_conventions": bool(profile.avoid_ros_namespace_conventions),
    }


def _time(duration: Duration) -> dict[str, int]:
    seconds, nanoseconds = divmod(duration.nanoseconds, 10**9)
    return {"sec": seconds, "nsec": nanoseconds}
