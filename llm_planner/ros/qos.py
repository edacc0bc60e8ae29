# SPDX-License-Identifier: Apache-2.0
"""Quality of service of every topic, in one place; docs/interfaces.md shows the table."""

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

FEEDBACK_DEPTH = 64  # rclpy's 10 drops from 1000 messages per second on
REQUESTS = QoSProfile(depth=256, reliability=ReliabilityPolicy.RELIABLE)
"""Requests of the action and replies to them. Every client receives the replies to all clients, so that with the usual
depth of 10 the one to a client that is slow for a moment is dropped; so is the request of one of many robots."""
ACTION_SERVICES = dict.fromkeys(
    ("goal_service_qos_profile", "result_service_qos_profile", "cancel_service_qos_profile"), REQUESTS
)
REPORTS = QoSProfile(depth=64, reliability=ReliabilityPolicy.RELIABLE)
HEARTBEATS = QoSProfile(depth=64, reliability=ReliabilityPolicy.RELIABLE)
STATUS = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
STATUSES = QoSProfile(  # to receive the latched status of several nodes: with depth 1 the last one hides the others
    depth=16, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
OUTCOMES = QoSProfile(depth=64, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
GOAL_EVENTS = QoSProfile(
    depth=1000, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
VIEW = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)  # the next one comes soon; no need to wait
VIEWS = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)  # to receive them: a busy moment loses none
