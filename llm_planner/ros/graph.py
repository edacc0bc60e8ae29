# SPDX-License-Identifier: Apache-2.0
"""Which planners and robots the ROS graph knows; commands that ask need no more than rclpy."""

from rclpy.node import Node, NodeNameNonExistentError

OUTCOME = "/outcome"  # every robot node has this topic
OUTCOME_TYPE = "llm_planner/msg/PlanOutcome"
HEARTBEAT, HEARTBEAT_TYPE = "/heartbeat", "llm_planner/msg/Heartbeat"


def robot_nodes(node: Node) -> set[str]:
    """Returns the full names of the robot nodes that can be seen now, by a topic that each of them publishes."""
    return {name.removesuffix(OUTCOME) for name in published(node, OUTCOME_TYPE) if name.endswith(OUTCOME)}


def published(node: Node, kind: str) -> list[str]:
    """Returns the topics of a type that have a publisher; ROS also names those that are only subscribed to."""
    topics = node.get_topic_names_and_types()
    return [name for name, kinds in topics if kind in kinds and node.count_publishers(name)]


def planner_asked_by(node: Node, robot: str) -> str | None:
    """Returns the full name of the planner that a robot node sends heartbeats to; None while the robot is not found.

    Args:
        node: That looks.
        robot: Name of the robot node, without the leading slash.
    """
    namespace, _, name = f"/{robot}".rpartition("/")
    try:
        topics = node.get_publisher_names_and_types_by_node(name, namespace or "/")
    except NodeNameNonExistentError:
        return None
    return next((topic.removesuffix(HEARTBEAT) for topic, kinds in topics if HEARTBEAT_TYPE in kinds), None)
