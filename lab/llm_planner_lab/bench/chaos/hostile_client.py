# SPDX-License-Identifier: Apache-2.0
"""Sends malformed messages to everything that a fleet listens to, found by the ROS graph."""

import random
from collections.abc import Sequence
from typing import Any

from rclpy.action.client import ActionClient
from rclpy.node import Node
from unique_identifier_msgs.msg import UUID

import llm_planner.srv as srvs
from llm_planner.action import PlanTask
from llm_planner.ros import qos
from llm_planner.ros.message_definitions import message_class
from llm_planner_lab.bench.chaos.malformed import draw

PLANNER = "/planner"
OWN = ("llm_planner/", "std_msgs/", "diagnostic_msgs/")


class HostileClient:
    """A stranger on the network; everything runs in the node's executor.

    Args:
        node: Of the campaign.
        robots: Names of the robots.
    """

    def __init__(self, node: Node, robots: Sequence[str]) -> None:
        self._node, self._robots = node, robots
        self._publishers: dict[str, tuple[Any, type]] = {}
        self._services: dict[str, tuple[Any, Any]] = {}
        self._action = ActionClient(node, PlanTask, f"{PLANNER}/plan_task")

    def find(self) -> None:
        """Looks for what the fleet listens to and serves."""
        owners = (PLANNER, *(f"/{robot}" for robot in self._robots))
        for topic, types in self._node.get_topic_names_and_types():
            is_ours = topic.startswith(tuple(f"{owner}/" for owner in owners)) and types[0].startswith(OWN)
            if is_ours and "_action/" not in topic and not topic.endswith("/stop") and topic not in self._publishers:
                kind = message_class(types[0])
                profile = qos.OUTCOMES if topic.endswith(("/status", "/outcome", "/goal_events")) else 10
                self._publishers[topic] = (self._node.create_publisher(kind, topic, profile), kind)
        for service, types in self._node.get_service_names_and_types():
            package, _, name = types[0].partition("/srv/")
            if package == "llm_planner" and service.startswith(owners) and service not in self._services:
                kind = getattr(srvs, name)
                self._services[service] = (self._node.create_client(kind, service), kind)

    @property
    def names(self) -> list[str]:
        """What it sends to."""
        return [*self._publishers, *self._services, f"{PLANNER}/plan_task"]

    def send(self, rng: random.Random, number: int, likely: Sequence[str]) -> int:
        """Sends ``number`` messages, in turn to everything; returns how many went out."""
        self.find()
        names, sent = self.names, 0
        for index in range(number):
            name = names[index % len(names)]
            try:
                self._send(name, rng, likely)
            except (AssertionError, OverflowError, UnicodeError, ValueError):
                continue  # rclpy itself refuses to send it
            sent += 1
        return sent

    def _send(self, name: str, rng: random.Random, likely: Sequence[str]) -> None:
        if name in self._publishers:
            publisher, kind = self._publishers[name]
            publisher.publish(draw(kind, rng, likely))
        elif name in self._services:
            client, kind = self._services[name]
            if client.service_is_ready():
                future = client.call_async(draw(kind.Request, rng, likely))
                future.add_done_callback(lambda _: None)
        elif self._action.server_is_ready():
            uuid = UUID(uuid=[rng.randrange(256) for _ in range(16)])
            self._action.send_goal_async(draw(PlanTask.Goal, rng, likely), goal_uuid=uuid)
