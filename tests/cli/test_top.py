# SPDX-License-Identifier: Apache-2.0
"""`llm-planner top` on a terminal: it follows the views until `q` or Ctrl-C."""

import os
import pty
import termios
from dataclasses import replace

import pytest

from llm_planner.cli import top
from llm_planner.serving.meter import Totals
from tests.cli.test_top_screen import make_goal, make_view


class Listener:
    """Hands out views, or None for silence, and then Ctrl-C."""

    def __init__(self, *views):
        self._views = iter(views)

    def next(self, _timeout_s):
        try:
            return next(self._views)
        except StopIteration:
            raise KeyboardInterrupt from None


@pytest.fixture
def shown(monkeypatch):
    """What was shown: view, tokens per second, silence."""
    calls = []

    def screen(view, measured, *, silent_s, max_goals, robots):
        assert max_goals > 0
        assert robots == ["drone_1"]
        calls.append((view, measured and round(measured.tokens_per_s), silent_s))
        return ""

    monkeypatch.setattr(top, "screen", screen)
    return calls


def watch(listener, first, keys=lambda: b""):
    top._watch(listener, first, lambda: ["drone_1"], keys)


def at(second, num_output_tokens, **changes):
    view = make_view(make_goal("drone_1"), **changes)
    return replace(view, loop=replace(view.loop, at_s=second, totals=Totals(num_output_tokens=num_output_tokens)))


def test_rates_are_of_the_last_seconds(shown):
    views = [at(0.5 * n, 50 * n if n < 10 else 450) for n in range(20)]
    watch(Listener(*views[1:]), views[0])
    assert [view for view, _, _ in shown] == views
    assert [rate for _, rate, _ in shown[:3]] == [None, 100, 100]
    assert shown[-1][1] == 0  # nothing came out for longer than the window


def test_silence_is_counted_and_ends_with_the_next_view(shown):
    watch(Listener(None, None, at(9.0, 0)), at(0.0, 0))
    assert [silent_s for _, _, silent_s in shown] == [0.0, 1.0, 2.0, 0.0]


def test_an_engine_that_restarted_has_no_rate_until_its_second_view(shown):
    watch(Listener(at(5.0, 3, num_restarts=1), at(5.5, 53, num_restarts=1)), at(0.0, 9000))
    assert [rate for _, rate, _ in shown] == [None, None, 100]


def test_an_engine_that_has_not_answered_has_none(shown):
    watch(Listener(at(5.0, 50), at(5.5, 100)), make_view(loop=None, age_s=None))
    assert [rate for _, rate, _ in shown] == [None, None, 100]


@pytest.mark.parametrize("key", [b"q", b"Q", b"xq"])
def test_q_quits(shown, key):
    controller, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    with top.pressed_keys(terminal) as keys:
        os.write(controller, b"x")  # any other key does nothing
        listener = Listener(None, None)
        listener.next = lambda _timeout_s: os.write(controller, key) and None
        watch(listener, at(0.0, 0), keys)
    assert len(shown) == 1
    assert termios.tcgetattr(terminal) == before
    os.close(controller)
    os.close(terminal)


def test_an_input_that_is_no_terminal_has_no_keys(tmp_path):
    with (tmp_path / "input").open("wb") as file, top.pressed_keys(file.fileno()) as keys:
        assert keys() == b""
