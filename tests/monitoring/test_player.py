# SPDX-License-Identifier: Apache-2.0
"""A recording is played in its own time."""

from types import SimpleNamespace

import pytest

from llm_planner.core.clock import ManualClock
from llm_planner.monitoring.board import Board
from llm_planner.monitoring.playback import RecordedMessage
from llm_planner.monitoring.player import play


def played(times_s, speed=1.0):
    """Returns the real times at which messages that were recorded at ``times_s`` are told."""
    clock, time, told = ManualClock(), ManualClock(), []

    def messages():
        for at_s in times_s:
            yield RecordedMessage(at_s, "/reflexes", "llm_planner/msg/Reflex", lambda: told.append(clock.now_s()))

    recording = SimpleNamespace(messages=messages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("llm_planner.monitoring.player.retell", lambda message, *_: message.decode())
        play(recording, Board(time), time, clock=clock, sleep=clock.advance, speed=speed, show=lambda _: None)
    return told


def test_messages_come_as_they_were_recorded_or_faster():
    assert played([100.0, 101.0, 103.5]) == pytest.approx([0.0, 1.0, 3.5])
    assert played([100.0, 101.0, 103.5], speed=10.0) == pytest.approx([0.0, 0.1, 0.35])


@pytest.mark.parametrize("step_s", [20 * 365 * 86_400.0, -3_600.0])
def test_a_clock_that_was_set_meanwhile_is_not_waited_for(step_s):
    times_s = [100.0, 101.0, 102.0 + step_s, 103.0 + step_s]
    assert played(times_s) == pytest.approx([0.0, 1.0, 1.0, 2.0])


def test_what_is_shown_while_nothing_happens_goes_on_with_the_time():
    clock, time, shown = ManualClock(), ManualClock(), []
    times_s = (100.0, 101.0)
    recording = SimpleNamespace(messages=lambda: (RecordedMessage(at_s, "/x", "x", lambda: None) for at_s in times_s))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("llm_planner.monitoring.player.retell", lambda *_: None)
        play(recording, Board(time), time, clock=clock, sleep=clock.advance, speed=1.0, show=shown.append)
    assert shown == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0], abs=0.26)
    assert shown[1] < 0.5
