# SPDX-License-Identifier: Apache-2.0
"""The control loop goes on whatever its tick does."""

import pytest

from llm_planner.ros.control_loop import ControlLoop
from llm_planner.ros.guard import guarded
from tests.ros.nodes import wait_until
from tests.ros.test_guard import Logs

pytestmark = pytest.mark.ros


def test_a_tick_that_fails_ends_no_reflex():
    logs, errors, ticks = Logs(), [], []

    def tick():
        ticks.append(1)
        if len(ticks) == 1:
            raise RuntimeError("a broken sensor")
        return 0.001

    loop = ControlLoop(guarded(logs, tick, errors.append))
    loop.start()
    wait_until(lambda: len(ticks) > 3)
    loop.close()
    loop.close()
    num_ticks = len(ticks)
    assert [repr(error) for error in errors] == ["RuntimeError('a broken sensor')"]
    assert len(logs.errors) == 1
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
