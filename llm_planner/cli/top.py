# SPDX-License-Identifier: Apache-2.0
"""``llm-planner top``: what a running planner does right now, refreshed until `q` or Ctrl-C."""

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live

from llm_planner.cli.options import JsonOption, PlannerOption
from llm_planner.cli.output import console, plain, print_json
from llm_planner.cli.top_screen import screen
from llm_planner.monitoring.pace import Pace
from llm_planner.serving.planner_view import PlannerView

if TYPE_CHECKING:
    from llm_planner.ros.live_view import ViewListener

SECOND_LOOK_TIMEOUT_S = 1.0


def top(
    planner: PlannerOption = "/planner",
    once: Annotated[bool, typer.Option("--once", help="Print it once; so does an output that is no terminal.")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="How long to look for the planner, in seconds.")] = 5.0,
    as_json: JsonOption = False,
) -> None:
    """Show a running planner: queue, slots, KV cache, robots, and which goals lose utility or end next.

    `q` quits. Exit status 1 if no planner answers.

    Example: llm-planner top

    Example: llm-planner top --once --json
    """
    from llm_planner.ros.graph import robot_nodes
    from llm_planner.ros.live_view import ViewListener
    from llm_planner.ros.spinning import spinning

    with spinning("llm_planner_top") as node:
        listener = ViewListener(node, planner)
        before = listener.first(timeout)
        now = listener.fresh(before, SECOND_LOOK_TIMEOUT_S)
        pace = Pace()
        pace.take(before.loop)
        pace.take(now.loop)

        def robots() -> list[str]:
            return sorted(name.removeprefix("/") for name in robot_nodes(node))

        if as_json:
            print_json({**plain(now), "rates": plain(pace.rates), "robots": robots()})
        elif once or not console.is_terminal:
            console.print(screen(now, pace.rates, robots=robots()))
        else:
            with pressed_keys(sys.stdin.fileno()) as keys:
                _watch(listener, now, robots, keys)


@contextmanager
def pressed_keys(terminal: int) -> Iterator[Callable[[], bytes]]:
    """Yields what returns the keys that were pressed since it was called last; none where the input is no terminal."""
    try:
        before = termios.tcgetattr(terminal)
    except termios.error:
        yield lambda: b""
        return
    tty.setcbreak(terminal)
    try:
        yield lambda: os.read(terminal, 64) if select.select([terminal], [], [], 0.0)[0] else b""
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _watch(
    listener: "ViewListener", first: PlannerView, robots: Callable[[], Collection[str]], keys: Callable[[], bytes]
) -> None:
    """Refreshes the screen with every view, or with the time since the last one, until `q` or Ctrl-C."""
    shown, pace, silent_s = first, Pace(), 0.0
    pace.take(first.loop)
    with suppress(KeyboardInterrupt), Live(console=console, screen=True, auto_refresh=False) as live:
        while b"q" not in keys().lower():
            max_goals = max(1, console.height - 12)
            picture = screen(shown, pace.rates, silent_s=silent_s, max_goals=max_goals, robots=robots())
            live.update(picture, refresh=True)
            following = listener.next(1.0)
            silent_s = silent_s + 1.0 if following is None else 0.0
            if following is not None:
                shown = following
                pace.take(shown.loop)
