"""The control loop goes on whatever its tick does."""

import pytest

from llm_planner.ros.control_loop import ControlLoop
from tests.ros.nodes import wait_until

pytestmark = pytest.mark.ros


def test_a_tick_that_fails_ends_no_reflex(caplog):
    ticks = []

    def tick():
        ticks.append(1)
        if len(ticks) == 1:
            raise RuntimeError("a broken sensor")
        return 0.001

    loop = ControlLoop(tick)
    loop.start()
    wait_until(lambda: len(ticks) > 3)
    loop.close()
    loop.close()
    num_ticks = len(ticks)
    assert "control loop failed" in caplog.text
    assert len(ticks) == num_ticks


def test_a_loop_that_sleeps_can_be_woken():
    ticks = []

    def tick():
        ticks.append(1)
        return 3600.0

    loop = ControlLoop(tick)
    loop.start()
    wait_until(lambda: len(ticks) == 1)
    loop.wake()
    wait_until(lambda: len(ticks) >= 2)
    loop.close()
