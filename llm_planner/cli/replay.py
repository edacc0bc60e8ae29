# SPDX-License-Identifier: Apache-2.0
"""``llm-planner replay``: what happened in a recording, as text, as a picture, or in the dashboard."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from llm_planner.cli.dashboard import HostOption, PortOption
from llm_planner.cli.options import JsonOption
from llm_planner.cli.output import console, error_console, plain, print_json, writing
from llm_planner.cli.stop_signal import StopSignal
from llm_planner.core.clock import ManualClock, MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError, ending_words
from llm_planner.core.text import counted
from llm_planner.monitoring.rows import RowKind, RowSpan
from llm_planner.monitoring.timeline import Span, SpanKind, draw_timeline, window

if TYPE_CHECKING:
    from llm_planner.monitoring.summary import Summary

NUMBERS = ("segments", "moved s", "waited s", "suspended s", "written s")
_KINDS = {
    RowKind.GENERATION: SpanKind.GENERATION,
    RowKind.WAITING: SpanKind.WAITING,
    RowKind.EXECUTION: SpanKind.EXECUTION,
    RowKind.REFLEX: SpanKind.REFLEX,
}


def replay(
    path: Annotated[Path, typer.Argument(help="A recording, as `record` writes it.", exists=True, dir_okay=False)],
    png: Annotated[Path | None, typer.Option(help="Also draw a timeline into this file.")] = None,
    start_s: Annotated[float, typer.Option("--start", min=0.0, help="The picture begins here, in seconds.")] = 0.0,
    duration_s: Annotated[
        float | None, typer.Option("--duration", min=0.01, help="The picture's length, in seconds; all without.")
    ] = None,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Play it in the dashboard instead.")] = False,
    speed: Annotated[float, typer.Option(min=0.01, max=1000.0, help="How many times faster, in the dashboard.")] = 1.0,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    as_json: JsonOption = False,
) -> None:
    """Show what happened in a recording; needs no ROS. A recording that was cut counts as far as it goes.

    Example: llm-planner replay flight.mcap

    Example: llm-planner replay flight.mcap --dashboard
    """
    if dashboard and (png is not None or as_json):
        raise PlannerError(ErrorCode.INVALID_CONFIG, "--dashboard plays it; give that without --png and --json")
    if dashboard:
        _play(path, speed, host, port)
        return
    from llm_planner.monitoring.playback import Recording
    from llm_planner.monitoring.summary import summarize

    summary = summarize(Recording(path))
    if as_json:
        print_json({name: value for name, value in plain(summary).items() if name != "spans"})
    else:
        _print(path, summary)
    if png is not None:
        _draw(path, summary, png, start_s, duration_s)
        (error_console if as_json else console).print(f"wrote {png}", soft_wrap=True, markup=False)


def _print(path: Path, summary: "Summary") -> None:
    cut = ", cut at its end" if summary.is_cut else ""
    num_messages = sum(summary.counts.values())
    messages = f"{counted(num_messages, 'message')} of {counted(len(summary.counts), 'topic')}"
    console.print(f"{path.name}: {summary.duration_s:.1f} s, {messages}{cut}", markup=False)
    ended = ", ".join(f"{number} {ending_words(code)}" for code, number in summary.ended.most_common()) or "none"
    console.print(f"goals ended: {ended}", markup=False)
    if summary.num_restarts:
        console.print(f"the planner was restarted {counted(summary.num_restarts, 'time')}", style="yellow")
    if summary.median_error is not None:
        console.print(f"durations of segments: median error {100 * summary.median_error:.1f} %")
    if summary.num_lost or summary.num_broken:
        console.print(
            f"{counted(summary.num_lost, 'message')} lost, {summary.num_broken} without sense", style="yellow"
        )
    table = Table("robot", *(Column(name, justify="right") for name in NUMBERS), box=None)
    for robot in summary.robots.values():
        times = (robot.execution_s, robot.waiting_s, robot.suspension_s, robot.generation_s)
        table.add_row(robot.robot_id, str(robot.num_segments), *(f"{seconds:.1f}" for seconds in times))
    if summary.robots:
        console.print(table, markup=False)


def _draw(path: Path, summary: "Summary", png: Path, start_s: float, duration_s: float | None) -> None:
    spans = [_as_span(span) for span in summary.spans if span.kind in _KINDS]
    shown = window(spans, start_s, duration_s)
    with writing(png):
        draw_timeline(shown, png, path.stem, start_s)


def _as_span(span: RowSpan) -> Span:
    return Span(
        row=span.robot_id,
        kind=_KINDS[span.kind],
        start_s=span.start_s,
        end_s=span.start_s if span.end_s is None else span.end_s,
        label=span.label if span.kind is RowKind.EXECUTION else "",
        is_urgent=span.is_urgent,
        is_interrupted=span.is_interrupted,
    )


def _play(path: Path, speed: float, host: str, port: int) -> None:
    """Plays until the end, and shows the end until Ctrl-C."""
    from llm_planner.monitoring.board import PERIOD_S, Board
    from llm_planner.monitoring.hub import Hub
    from llm_planner.monitoring.playback import Recording
    from llm_planner.monitoring.player import play
    from llm_planner.monitoring.web import WebServer, build_app

    next(Recording(path).messages(), None)  # what is no recording is refused now
    stop = StopSignal()

    def rest(seconds: float) -> None:
        """Waits; the only place where Ctrl-C ends it, so that no lock is left taken."""
        if stop.wait(seconds):
            raise KeyboardInterrupt

    recorded = ManualClock()
    board = Board(recorded)
    hub = Hub(board.whole)
    server = WebServer(build_app(hub, lambda: board.whole()[1]), host, port)
    try:
        console.print(f"{path.name} plays at {server.url}; Ctrl-C ends", soft_wrap=True)
        with error_console.status("waiting for a browser") as status:
            while hub.num_clients == 0:
                rest(0.1)

            def show(played_s: float) -> None:
                status.update(f"{played_s:.0f} s; Ctrl-C ends")
                hub.publish(*board.news())
                rest(0.0)

            play(Recording(path), board, recorded, clock=MonotonicClock(), sleep=rest, speed=speed, show=show)
            status.update("the recording is over; Ctrl-C ends")
            while True:  # its time stands still
                hub.publish(*board.news())
                rest(PERIOD_S)
    except KeyboardInterrupt:
        pass
    finally:
        hub.close()
        server.close()
