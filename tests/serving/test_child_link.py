# SPDX-License-Identifier: Apache-2.0
"""One child as its parent holds it: silence that is measured, and children that end in the midst of a message."""

import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.clock import MonotonicClock
from llm_planner.serving import child_link
from llm_planner.serving.child_link import ChildLink, Timeouts
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.messages import Cancel, Heartbeat
from tests.serving.builders import make_loop

TIMEOUTS = Timeouts(heartbeat_interval_s=0.02, least_hang_timeout_s=0.3, hang_timeout_s=0.3, start_timeout_s=20.0)


def half_a_message(connection: Connection, factory: Callable[[], PlannerLoop], _: float) -> None:
    """A child that is ready, and hangs in the midst of a message."""
    connection.send(Heartbeat(factory().status, 0.0))
    os.write(connection.fileno(), struct.pack("!i", 1_000_000) + b"the beginning")
    time.sleep(600)


def half_a_message_and_an_end(connection: Connection, factory: Callable[[], PlannerLoop], _: float) -> None:
    """A child that is ready, and dies in the midst of a message."""
    connection.send(Heartbeat(factory().status, 0.0))
    os.write(connection.fileno(), struct.pack("!i", 1_000_000) + b"the beginning")
    os._exit(9)


def an_end_behind_a_helper(connection: Connection, factory: Callable[[], PlannerLoop], _: float) -> None:
    """A child that dies and leaves a helper, which holds its end of the pipe and reads nothing."""
    if helper := os.fork():
        connection.send(Heartbeat(factory().status, float(helper)))
        time.sleep(0.5)  # the pipe is filled meanwhile
        os._exit(9)
    time.sleep(600)


def nonsense(connection: Connection, factory: Callable[[], PlannerLoop], _: float) -> None:
    """A child that is ready, and sends what cannot be unpickled."""
    connection.send(Heartbeat(factory().status, 0.0))
    connection.send_bytes(b"nonsense")
    time.sleep(600)


def start(monkeypatch, run_child, on_message=lambda _: None) -> ChildLink:
    monkeypatch.setattr(child_link, "run_child", run_child)
    return ChildLink(make_loop, MonotonicClock(), TIMEOUTS, on_message)


@pytest.mark.parametrize("run_child", [half_a_message, half_a_message_and_an_end, nonsense])
def test_a_child_that_fails_in_the_midst_of_a_message_blocks_nothing(monkeypatch, run_child):
    link = start(monkeypatch, run_child)
    link.watch(threading.Event())
    assert link.is_ready
    assert link.has_hung == (run_child is half_a_message)
    link.end(0.0)


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_helper_that_a_child_leaves_behind_blocks_nothing(monkeypatch):
    said = []
    link = start(monkeypatch, an_end_behind_a_helper, said.append)
    for _ in range(1000):  # more than the pipe holds: the writer blocks
        link.send(Cancel("x" * 10_000))
    link.watch(threading.Event())
    link.end(0.0)
    helper = int(said[0].longest_turn_s)
    assert helper > 0  # 0 would kill everything that runs this test
    os.kill(helper, signal.SIGKILL)


def test_a_message_that_raises_gives_the_child_up(monkeypatch):
    def fail(_: object) -> None:
        raise ZeroDivisionError

    link = start(monkeypatch, half_a_message, fail)
    link.watch(threading.Event())
    assert not link.has_hung
    link.end(0.0)


@given(st.floats(0.0, 1e6), st.integers(0, 10_000))
def test_the_longest_silence_follows_the_longest_step_between_two_limits(longest_turn_s, num_hangs):
    timeouts = Timeouts()
    limit_s = timeouts.silence_limit_s(longest_turn_s, num_hangs)
    assert timeouts.least_hang_timeout_s <= limit_s <= timeouts.hang_timeout_s
    assert limit_s >= min(timeouts.hang_timeout_s, 10 * longest_turn_s)
    assert timeouts.silence_limit_s(longest_turn_s, num_hangs + 1) >= min(timeouts.hang_timeout_s, 2 * limit_s)
    assert timeouts.silence_limit_s(0.01, 0) == 5.0
    assert timeouts.silence_limit_s(1.0, 0) == 10.0


class JumpingClock:
    """Goes on by a minute whenever it is read, as if this process had been stopped."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now_s(self) -> float:
        self._now_s += 60.0
        return self._now_s


def test_a_standstill_of_the_parent_is_no_silence_of_the_child(monkeypatch):
    """A machine that was suspended: the child had no chance to say anything either."""
    monkeypatch.setattr(child_link, "run_child", half_a_message)
    link = ChildLink(make_loop, JumpingClock(), Timeouts(heartbeat_interval_s=0.02), lambda _: None)
    closing = threading.Event()
    threading.Timer(1.0, closing.set).start()
    link.watch(closing)
    assert closing.is_set()
    assert not link.has_hung
    link.end(0.0)
