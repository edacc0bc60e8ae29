# SPDX-License-Identifier: Apache-2.0
"""The screen of ``llm-planner top``: a view of a planner as text."""

from collections.abc import Collection, Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from llm_planner.core.errors import code_name
from llm_planner.core.text import counted
from llm_planner.serving.meter import Rates
from llm_planner.serving.planner_view import PlannerView
from llm_planner.serving.view import GoalView, LoopView

BAR_WIDTH = 20
STALE_S = 2.0
COLUMNS = ("robot", "goal", "plan", "age", "tok", "KV", "robot's progress", "util", "falls", "ends")
NARROW = frozenset({"robot", "plan", "robot's progress", "ends"})
WIDE_FROM = 92
"""Columns of a terminal that shows every column of the goals; a narrower one shows ``NARROW``."""
NUMBERS = frozenset({"age", "tok", "KV", "util", "falls", "ends"})
LEGEND = "seconds until utility falls (negative: it does), until the goal ends in error"
_STATES = {"running": "generating", "ready": "due", "waiting": "queued", "suspended": "suspended", "planned": "planned"}
_STATE_STYLES = {"running": "bold green", "ready": "yellow", "waiting": "yellow", "suspended": "cyan", "planned": "dim"}


def screen(
    view: PlannerView,
    measured: Rates | None,
    *,
    silent_s: float = 0.0,
    max_goals: int | None = None,
    robots: Collection[str] = (),
) -> RenderableType:
    """Returns what the terminal shows.

    Args:
        view: Of the planner.
        measured: What happened between the view before and this one, if that is known.
        silent_s: For how long nothing came after this view.
        max_goals: Most rows of the table of goals.
        robots: Names of the robots that can be seen now, whether or not the planner knows them.
    """
    parts: list[RenderableType] = [_headline(view)]
    if silent_s > 0:
        text = f"the planner has been silent for {silent_s:.0f} s: what is shown is old"
        parts.append(Text(text, style="bold red"))
    if view.error_code:
        parts.append(Text(f"{view.error_msg} [{code_name(view.error_code)} {view.error_code}]", style="bold red"))
    if view.loop is None:
        parts.append(Text("the engine has not answered yet"))
        return Group(*parts)
    if view.age_s is not None and view.age_s > STALE_S:
        parts.append(Text(f"the engine has not answered for {view.age_s:.1f} s: a long step?", style="yellow"))
    parts += [_slots(view.loop), _memory(view.loop), _engine(measured), Text()]
    if view.loop.goals:
        parts += [_Goals(view.loop, max_goals), Text(LEGEND, style="dim")]
    else:
        parts.append(Text(_next_step(robots)))
    if idle := [*_idle(view), *_untold(view, robots)]:
        parts.append(f"idle    {', '.join(idle)}")
    return Group(*parts)


def _next_step(robots: Collection[str]) -> str:
    if not robots:
        return "no goals and no robots; start some: llm-planner up"
    return f'no goals; tell a robot something: llm-planner send {min(robots)} "..."'


def _headline(view: PlannerView) -> Text:
    style = "bold green" if view.state == "ACTIVE" and view.is_ready else "bold yellow"
    text = Text.assemble((view.planner, "bold"), "  ", (view.state, style))
    text.append(f"  model {view.model}  policy {view.policy}")
    if view.num_restarts:
        text.append(f"  engine restarts {view.num_restarts}", "yellow")
    return text


def _slots(loop: LoopView) -> Text:
    status = loop.status
    bar = _bar([(status.num_running, "green")], loop.max_num_seqs)
    counts = (
        f" {status.num_running} of {loop.max_num_seqs} busy, {status.num_ready} due, {status.num_suspended} suspended"
    )
    return Text.assemble("slots   ", bar, f"{counts}; {counted(status.num_goals, 'goal')}")


def _memory(loop: LoopView) -> Text:
    total, free, prefix = loop.status.num_kv_blocks, loop.status.num_free_kv_blocks, loop.num_prefix_kv_blocks
    used = total - free - prefix
    bar = _bar([(prefix, "blue"), (used, "green")], total)
    return Text.assemble(
        "KV      ",
        bar,
        f" {used} used, {prefix} prefixes, {free} free; {loop.num_offloaded_kv_blocks} offloaded",
    )


def _bar(shares: Sequence[tuple[int, str]], total: int) -> Text:
    """Returns a bar whose parts add up exactly; what is left of ``total`` stays dim."""
    text, end, done = Text(), 0, 0
    for amount, style in shares:
        end += amount
        width = round(BAR_WIDTH * end / max(1, total)) - done
        text.append("█" * width, style)
        done += width
    return text.append("░" * (BAR_WIDTH - done), "dim")


def _engine(measured: Rates | None) -> Text:
    if measured is None:
        return Text("engine  (one moment)", style="dim")
    decision = "-" if measured.decision_s is None else f"{1000 * measured.decision_s:.2f} ms"
    return Text(
        f"engine  {measured.tokens_per_s:.0f} tokens/s ({measured.computed_tokens_per_s:.0f} computed), "
        f"{measured.steps_per_s:.0f} steps/s, {100 * measured.busy_share:.0f} % busy, decision {decision}"
    )


class _Goals:
    """The table of goals, with as many columns as there is room for."""

    def __init__(self, loop: LoopView, max_goals: int | None) -> None:
        self._loop, self._max_goals = loop, max_goals

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        yield _goals(self._loop, self._max_goals, COLUMNS if options.max_width >= WIDE_FROM else NARROW)


def _goals(loop: LoopView, max_goals: int | None, columns: Collection[str]) -> Table:
    shown = sorted(loop.goals, key=_next_loss_s)[:max_goals]
    num_hidden = loop.status.num_goals - len(shown)
    table = Table(
        *(
            Column(name, no_wrap=name in NUMBERS, overflow="fold", justify="right" if name in NUMBERS else "left")
            for name in COLUMNS
            if name in columns
        ),
        box=None,
        padding=(0, 1, 0, 0),
        caption=f"and {num_hidden} more" if num_hidden > 0 else None,
        caption_justify="left",
    )
    for goal in shown:
        table.add_row(*(cell for name, cell in zip(COLUMNS, _row(goal), strict=True) if name in columns))
    return table


def _next_loss_s(goal: GoalView) -> float:
    return min((s for s in (goal.falls_in_s, goal.ends_in_s) if s is not None), default=float("inf"))


def _row(goal: GoalView) -> tuple[RenderableType, ...]:
    style = "bold red" if goal.urgency == "urgent" else ""
    return (
        Text(goal.robot_id, style=style),
        Text(goal.urgency, style=style),
        Text(_STATES.get(goal.state, goal.state), style=_STATE_STYLES.get(goal.state, "")),
        f"{goal.age_s:.1f}",
        str(goal.num_output_tokens),
        "off" if goal.is_offloaded else str(goal.num_kv_blocks),
        _robot(goal),
        "" if goal.utility is None else f"{goal.utility:.2f}",
        _left(goal.falls_in_s),
        _left(goal.ends_in_s),
    )


def _robot(goal: GoalView) -> Text:
    if goal.num_executed >= goal.num_segments:
        return Text(f"waits {max(0.0, -goal.robot_busy_s):.1f} s", style="yellow")
    known = f"{goal.num_segments}" + ("" if goal.state == "planned" else "+")
    left = f"{goal.robot_busy_s:.1f} s left" if goal.robot_busy_s > 0 else "late"
    return Text(f"segment {goal.num_executed + 1} of {known}, {left}")


def _left(seconds: float | None) -> Text:
    if seconds is None:
        return Text("-", style="dim")
    return Text(f"{seconds:.1f}", style="bold red" if seconds <= 0 else "yellow" if seconds < 1.0 else "")


def _idle(view: PlannerView) -> Iterator[str]:
    """Yields the robots that had a goal not long ago."""
    yield from (
        f"{escape(robot.robot_id)} ({robot.idle_s:.0f} s"
        + (f", after {code_name(robot.error_code)}" if robot.error_code else "")
        + (f": {escape(robot.findings)}" if robot.findings else "")
        + ")"
        for robot in view.idle_robots
    )


def _untold(view: PlannerView, robots: Collection[str]) -> Iterator[str]:
    """Yields the robots that the planner has nothing to tell of."""
    goals = () if view.loop is None else view.loop.goals
    known = {robot.robot_id for robot in view.idle_robots} | {goal.robot_id for goal in goals}
    if view.loop is not None and view.loop.status.num_goals > len(goals):
        return  # some robot that is busy is not among those shown
    yield from (f"{escape(robot)} (no goal yet)" for robot in sorted(robots) if robot not in known)
