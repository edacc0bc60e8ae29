# SPDX-License-Identifier: Apache-2.0
"""Plays a recording to a board in its own time, or faster, so that a browser sees what happened."""

from collections.abc import Callable

from llm_planner.core.clock import ManualClock
from llm_planner.core.interfaces import Clock
from llm_planner.monitoring.board import PERIOD_S, Board
from llm_planner.monitoring.playback import Recording, retell

MOST_SILENT_S = 600.0
"""Between two messages; more, or less than nothing, is a clock that was set while others recorded."""


def play(
    recording: Recording,
    board: Board,
    time: ManualClock,
    *,
    clock: Clock,
    sleep: Callable[[float], None],
    speed: float,
    show: Callable[[float], None],
) -> None:
    """Tells a board what was recorded, message by message, and returns at the end.

    Args:
        recording: What is played.
        board: Learns it.
        time: The board's clock: the recording's time goes on here.
        clock: Real time.
        sleep: Waits.
        speed: How many times faster than it was.
        show: Called four times a real second, with the seconds that have been played.
    """
    began_s, first_s, last_s, played_s, shown_s = clock.now_s(), None, 0.0, 0.0, 0.0
    for message in recording.messages():
        if first_s is None:
            first_s = last_s = message.at_s
        silent_s, last_s = message.at_s - last_s, message.at_s
        played_s += silent_s if 0.0 <= silent_s <= MOST_SILENT_S else 0.0
        while (ahead_s := played_s / speed - (clock.now_s() - began_s)) > 0:
            time.advance_to(first_s + (clock.now_s() - began_s) * speed)
            sleep(min(ahead_s, PERIOD_S))
            shown_s = _show(show, clock.now_s(), shown_s, time.now_s() - first_s)
        time.advance_to(first_s + played_s)
        with board.changing() as (state, now_s):
            retell(message, state, now_s)
        shown_s = _show(show, clock.now_s(), shown_s, played_s)
    show(0.0 if first_s is None else time.now_s() - first_s)


def _show(show: Callable[[float], None], now_s: float, shown_s: float, played_s: float) -> float:
    if now_s - shown_s < PERIOD_S:
        return shown_s
    show(played_s)
    return now_s
