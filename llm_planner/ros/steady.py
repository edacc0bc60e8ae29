# SPDX-License-Identifier: Apache-2.0
"""Timers that follow the steady clock of the machine."""

from collections.abc import Callable

from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node
from rclpy.timer import Timer


def steady_timer(node: Node, period_s: float, callback: Callable[[], None]) -> Timer:
    """Returns a timer of a node that neither a step of the system time nor a simulated ``/clock`` stops or hurries.

    rclpy's timers follow the node's ROS clock unless told otherwise: after the system time was set back by 30 s they
    are silent for 30 s, and after it was set forward they fire in a burst.

    Args:
        node: Spun by an executor.
        period_s: Between two calls, > 0.
        callback: Called in the executor's thread.
    """
    return node.create_timer(period_s, callback, clock=Clock(clock_type=ClockType.STEADY_TIME))
