# SPDX-License-Identifier: Apache-2.0
"""The alarm: calls at given times, in any order of setting, and none after the end."""

import threading

from llm_planner.core.clock import MonotonicClock
from llm_planner.serving.alarm import Alarm


def test_rings_at_each_time_and_not_before():
    clock, rung_at_s, enough = MonotonicClock(), [], threading.Event()

    def ring():
        rung_at_s.append(clock.now_s())
        if len(rung_at_s) == 2:
            enough.set()

    alarm = Alarm(clock, ring)
    start_s = clock.now_s()
    alarm.set(1e300)  # far beyond what a thread can wait for
    alarm.set(start_s + 0.15)
    alarm.start()
    alarm.set(start_s + 0.05)  # earlier than the one it waits for
    assert enough.wait(10.0)
    alarm.close()
    assert len(rung_at_s) == 2
    assert all(rung_s >= start_s + after_s for rung_s, after_s in zip(rung_at_s, (0.05, 0.15), strict=True))


def test_an_alarm_that_never_started_can_be_closed():
    Alarm(MonotonicClock(), lambda: None).close()
