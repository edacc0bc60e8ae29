# SPDX-License-Identifier: Apache-2.0
"""Timers of the steady clock go on whatever happens to the system time and to a simulated one."""

import pytest
import rclpy
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock

from llm_planner.ros.steady import steady_timer
from tests.ros.nodes import Spinner, wait_until

pytestmark = pytest.mark.ros


class SteppedNode:
    """A node whose ROS clock is what is published on ``/clock``."""

    def __init__(self):
        self.node = rclpy.create_node("stepped", parameter_overrides=[Parameter("use_sim_time", value=True)])
        self._publisher = self.node.create_publisher(Clock, "/clock", 10)
        self.spinner = Spinner(self.node)

    def step_to(self, seconds):
        message = Clock()
        message.clock.sec = seconds
        self._publisher.publish(message)
        wait_until(lambda: self.node.get_clock().now().nanoseconds == seconds * 10**9, what=f"{seconds} s on the clock")

    def stop(self):
        self.spinner.stop()
        self.node.destroy_node()


@pytest.fixture
def stepped(ros):
    stepped = SteppedNode()
    yield stepped
    stepped.stop()


def test_a_clock_that_is_set_back_silences_no_timer(stepped):
    stepped.step_to(100)
    steady, ordinary = [], []
    stepped.node.create_timer(0.01, lambda: ordinary.append(1))
    steady_timer(stepped.node, 0.01, lambda: steady.append(1))
    stepped.step_to(70)
    num_steady, num_ordinary = len(steady), len(ordinary)
    wait_until(lambda: len(steady) >= num_steady + 5, what="ticks after the step")
    assert len(ordinary) <= num_ordinary + 1  # what the helper is for


def test_a_clock_that_is_set_forward_causes_no_burst(stepped):
    stepped.step_to(100)
    ticks = []
    steady_timer(stepped.node, 3600.0, lambda: ticks.append(1))
    stepped.step_to(100_000)
    stepped.step_to(200_000)
    assert ticks == []
