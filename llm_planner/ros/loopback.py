# SPDX-License-Identifier: Apache-2.0
"""A probe: does a message get from one process to another and back over DDS, and which participants are there?

python -m llm_planner.ros.loopback     # prints one JSON object
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

import rclpy
from rclpy.node import Node
from rclpy.utilities import get_rmw_implementation_identifier
from std_msgs.msg import String

from llm_planner.ros.graph import published, robot_nodes

TIMEOUT_S = 8.0
PERIOD_S = 0.05
DISCOVERY_S = 1.0  # to see the other nodes too
NUM_TRIPS = 20
PLANNER_TYPE = "llm_planner/msg/PlannerStatus"


def measure() -> dict[str, Any]:
    """Returns the round trips between this process and another, and which planners and robots can be seen."""
    topic = f"/llm_planner_doctor_{os.getpid()}"
    rclpy.init()
    node = rclpy.create_node(f"llm_planner_doctor_{os.getpid()}")
    command = [sys.executable, "-m", "llm_planner.ros.loopback", topic]
    began_s = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as partner:
        try:
            assert partner.stdout is not None
            partner.stdout.readline()  # it listens: a slow start is no fault of the transport
            trips_ms = _trips_ms(node, topic)
            _spin(node, began_s + DISCOVERY_S)
            planners = published(node, PLANNER_TYPE)
            robots = sorted(robot_nodes(node))
        finally:
            partner.kill()
    facts = {
        "rmw": get_rmw_implementation_identifier(),
        "domain": os.environ.get("ROS_DOMAIN_ID", "0"),
        "trips_ms": trips_ms,
        "planners": sorted(name.removesuffix("/status") for name in planners),
        "robots": robots,
    }
    node.destroy_node()
    rclpy.shutdown()
    return facts


def _trips_ms(node: Node, topic: str) -> list[float]:
    """Sends numbered messages until enough have come back, or the time is over; returns how long they took."""
    sent_s: dict[str, float] = {}
    trips_ms: list[float] = []

    def on_echo(message: String) -> None:
        if message.data in sent_s:
            trips_ms.append(round(1000 * (time.monotonic() - sent_s.pop(message.data)), 3))

    publisher = node.create_publisher(String, f"{topic}/there", 10)
    node.create_subscription(String, f"{topic}/back", on_echo, 10)
    until_s, number = time.monotonic() + TIMEOUT_S, 0
    while len(trips_ms) < NUM_TRIPS and time.monotonic() < until_s:
        number += 1
        sent_s[str(number)] = time.monotonic()
        publisher.publish(String(data=str(number)))
        _spin(node, time.monotonic() + PERIOD_S)
    return trips_ms


def _spin(node: Node, until_s: float) -> None:
    while (left_s := until_s - time.monotonic()) > 0:
        rclpy.spin_once(node, timeout_sec=left_s)


def echo(topic: str) -> None:
    """Sends back whatever comes, until the parent ends or kills this process."""
    rclpy.init()
    node = rclpy.create_node(f"llm_planner_doctor_{os.getpid()}")
    publisher = node.create_publisher(String, f"{topic}/back", 10)
    node.create_subscription(String, f"{topic}/there", publisher.publish, 10)
    parent = os.getppid()
    print("listening", flush=True)  # noqa: T201 -- to the parent
    while os.getppid() == parent:
        rclpy.spin_once(node, timeout_sec=0.2)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        echo(sys.argv[1])
    else:
        print(json.dumps(measure()))  # noqa: T201 -- a probe speaks on standard output
