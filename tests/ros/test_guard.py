# SPDX-License-Identifier: Apache-2.0
"""A callback that fails ends nothing: the error is handled first, then logged once per place."""

import pytest
import rclpy
from std_msgs.msg import Empty

from llm_planner.ros.guard import guarded
from tests.ros.nodes import Spinner, wait_until

pytestmark = pytest.mark.ros


class Logs:
    """Stands for a node that logs."""

    def __init__(self):
        self.errors = []

    def get_logger(self):
        return self

    def error(self, text):
        self.errors.append(text)


def test_an_error_is_handled_before_it_is_logged_and_logged_once():
    logs, handled = Logs(), []

    def divide(number):
        return 1 / number

    def on_error(error, number):
        handled.append((type(error), number, len(logs.errors)))
        return -1

    call = guarded(logs, divide, on_error)
    assert [call(n) for n in (1, 0, 2, 0, 0)] == [1, -1, 0.5, -1, -1]
    assert handled == [(ZeroDivisionError, 0, 0)] + [(ZeroDivisionError, 0, 1)] * 2
    (text,) = logs.errors
    assert "divide failed: ZeroDivisionError('division by zero')" in text
    assert "return 1 / number" in text


def test_a_handler_that_fails_is_logged_too():
    logs = Logs()

    def fail(*_):
        raise OSError("worse")

    call = guarded(logs, lambda: 1 / 0, fail)
    assert (call(), call()) == (None, None)
    assert ["OSError('worse')" in text for text in logs.errors] == [True, False]


def test_a_node_goes_on_after_a_callback_that_failed(ros):
    node = rclpy.create_node("fragile")
    errors, received = [], []

    def receive(message):
        received.append(message)
        raise OverflowError("int too large to convert to float")

    node.create_subscription(Empty, "~/in", guarded(node, receive, lambda error, _: errors.append(error)), 10)
    publisher = node.create_publisher(Empty, "~/in", 10)
    spinner = Spinner(node)
    try:
        for number in (1, 2):
            publisher.publish(Empty())
            wait_until(lambda number=number: len(received) == number)
        assert [type(error) for error in errors] == [OverflowError] * 2
    finally:
        spinner.stop()
        node.destroy_node()
