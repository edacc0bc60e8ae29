# SPDX-License-Identifier: Apache-2.0
"""Quality of service of every topic, in one place; docs/interfaces.md shows the table."""

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

FEEDBACK_DEPTH = 64  # rclpy's 10 drops from 1000 messages per second on
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
