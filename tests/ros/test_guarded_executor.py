# SPDX-License-Identifier: Apache-2.0
"""Whatever a callback raises, the node goes on: logged once per kind, counted."""

import threading

import pytest
import rclpy
from rclpy import executors
from rclpy.node import Node
from std_msgs.msg import String

from llm_planner.ros import guarded_executor
from llm_planner.ros.bridge import Bridge
from llm_planner.ros.guarded_executor import GuardedExecutor, num_callback_errors
from llm_planner.ros.steady import steady_timer
from llm_planner.srv import GetSegments
from tests.ros.nodes import wait_until

pytestmark = pytest.mark.ros


class Spun:
    """A node that is spun by a guarded executor, and what it logs."""

    def __init__(self, name, monkeypatch):
        self.node = rclpy.create_node(name)
        self.logged = []
        monkeypatch.setattr(self.node, "get_logger", lambda: self)
        self.executor = GuardedExecutor()
        self.executor.add_node(self.node)
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)

    def start(self):
        self._thread.start()

    def error(self, text):
        self.logged.append(text)

    def _spin(self):
        while not self._is_stopped.is_set():
            self.executor.spin_once(timeout_sec=0.1)

    @property
    def is_alive(self):
        return self._thread.is_alive()

    def stop(self):
        self._is_stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self.executor.shutdown()
        self.node.destroy_node()


@pytest.fixture
def spun(ros, monkeypatch):
    spun = Spun("spun", monkeypatch)
    yield spun
    spun.stop()


def fail(*_):
    raise OverflowError("int too large to convert to float" + "!" * 1000)


def test_callbacks_of_every_kind_may_fail(spun):
    seen = []
    spun.node.create_subscription(String, "~/in", lambda m: seen.append(m.data) or fail(), 10)
    spun.node.create_service(GetSegments, "~/ask", lambda *_: seen.append("service") or fail())
    once = steady_timer(spun.node, 0.01, lambda: once.cancel() or seen.append("timer") or fail())
    condition = spun.node.create_guard_condition(lambda: seen.append("guard condition") or fail())
    bridge = Bridge(spun.node)
    publisher = spun.node.create_publisher(String, "~/in", 10)
    client = spun.node.create_client(GetSegments, "~/ask")
    spun.start()
    wait_until(client.service_is_ready)
    condition.trigger()
    bridge.post(lambda: client.call_async(GetSegments.Request()))
    for number in range(3):
        bridge.post(lambda text=f"{number}": publisher.publish(String(data=text)))
    wait_until(lambda: {"timer", "guard condition", "service", "0", "1", "2"} <= set(seen))
    wait_until(lambda: num_callback_errors(spun.node) == 6)
    assert spun.is_alive
    (text,) = spun.logged  # they all failed in the same line
    assert "OverflowError" in text
    assert "int too large" in text
    assert len(text) < 800


def test_kinds_are_told_apart(spun):
    spun.start()
    for call in (fail, lambda: 1 / 0, fail):
        spun.executor.create_task(call)
    wait_until(lambda: num_callback_errors(spun.node) == 3)
    assert all(name in text for name, text in zip(("OverflowError", "ZeroDivisionError"), spun.logged, strict=True))


def test_after_a_message_that_cannot_be_taken_a_node_still_receives(spun, monkeypatch):
    received = []
    spun.node.create_subscription(String, "~/in", lambda m: received.append(m.data), 10)
    publisher = spun.node.create_publisher(String, "~/in", 10)
    take = GuardedExecutor._take_subscription
    broken = iter((True, True))
    monkeypatch.setattr(
        GuardedExecutor, "_take_subscription", lambda self, s: fail() if next(broken, False) else take(self, s)
    )
    spun.start()
    publisher.publish(String(data="after"))
    wait_until(lambda: received == ["after"])
    assert num_callback_errors(spun.node) == 2


def test_a_task_may_fail_but_an_executor_that_only_fails_ends(spun, monkeypatch):
    spun.executor.create_task(fail)
    spun.executor.spin_once(0.1)
    assert num_callback_errors(spun.node) == 1
    spun.executor.spin_once(0.0)
    monkeypatch.setattr(GuardedExecutor, "wait_for_ready_callbacks", fail)
    for _ in range(guarded_executor.MAX_FAILURES_IN_A_ROW - 1):
        spun.executor.spin_once(0.1)
    with pytest.raises(OverflowError):
        spun.executor.spin_once(0.1)


def test_a_callback_costs_one_wait(spun, monkeypatch):
    """rclpy wakes itself before and after each callback, and every wait builds the whole wait set again."""
    waits, calls = [], []
    wait_set = executors._rclpy.WaitSet
    monkeypatch.setattr(executors._rclpy, "WaitSet", lambda *sizes: waits.append(sizes) or wait_set(*sizes))
    steady_timer(spun.node, 0.001, lambda: calls.append(len(waits)))
    while len(calls) < 20:
        spun.executor.spin_once(1.0)
    assert calls == list(range(calls[0], calls[0] + 20))


def test_nodes_without_failures_have_none(ros):
    node = Node("quiet")
    assert num_callback_errors(node) == 0
    node.destroy_node()
