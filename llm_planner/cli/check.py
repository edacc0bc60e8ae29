# SPDX-License-Identifier: Apache-2.0
"""``llm-planner check``: what would the planner say to this plan?"""

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.table import Table

from llm_planner.cli.options import JsonOption, ModelsOption, RobotOption
from llm_planner.cli.output import console, print_error, print_json, segment_json
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.segment import ZERO_DURATION, Segment
from llm_planner.language.parser import IncrementalParser
from llm_planner.language.printer import to_text
from llm_planner.language.syntax import Part
from llm_planner.planning.safety.gate import SafetyGate
from llm_planner.robots.duration import expected_duration
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.model import RobotModel

HINT = "a plan is e.g. mf(50);tc(90); (docs/plan_language.md); for words use `llm-planner plan`"


def check(
    plan: Annotated[str, typer.Argument(help="A plan in MiniSpec (docs/plan_language.md), e.g. 'mf(50);tc(90);'.")],
    robot: RobotOption = "tello",
    models: ModelsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Parse a plan, judge it by the safety gate, and estimate how long the robot takes.

    Exit status 0 if every statement is admitted, 1 if not. So is a plan that says itself why it cannot be
    (`fail('...');`, `unclear('...');`): its robot gets what stands before that.

    Example: llm-planner check 'mf(50);tc(90);'

    Example: llm-planner check 'pick(red_box)->place(red_box,bin)' --robot indy7
    """
    model = RobotLibrary(models or []).get(robot)
    segments: list[Segment] = []
    refusal: PlannerError | None = None
    try:
        for segment in judge(model, plan):
            segments.append(segment)  # noqa: PERF402 (what came before a refusal is kept)
    except PlannerError as error:
        refusal = error
    if as_json:
        print_json(_as_json(segments, refusal))
    else:
        _print(segments, refusal)
    raise typer.Exit(1 if refusal else 0)


def judge(model: RobotModel, plan: str) -> Iterator[Segment]:
    """Yields the segments of a plan as a robot would get them, up to the first one that is refused.

    Raises:
        PlannerError: The 2xx code of the parser or of the safety gate.
    """
    gate = SafetyGate(model)
    index = 0
    for index, statement in enumerate(_statements(plan), start=1):
        calls = gate.admit(statement)
        expected = expected_duration(model, statement)
        yield Segment(index=index - 1, text=to_text(statement), calls=calls, expected=expected)
    if index == 0:
        raise PlannerError(ErrorCode.EMPTY_PLAN, "the plan has no statement")


def _statements(plan: str) -> Iterator[Part]:
    """Yields statements one character at a time, so that those before a syntax error are not lost."""
    parser = IncrementalParser()
    try:
        for character in plan:
            yield from parser.feed(character)
        yield from parser.finish()
    except PlannerError as error:
        raise PlannerError(error.code, f"{error.message}; {HINT}") from error


def _as_json(segments: list[Segment], refusal: PlannerError | None) -> dict[str, Any]:
    return {
        "error_code": int(refusal.code) if refusal else 0,
        "error_msg": refusal.message if refusal else "",
        "segments": [segment_json(segment) for segment in segments],
        "expected_s": sum((segment.expected for segment in segments), start=ZERO_DURATION),
    }


def _print(segments: list[Segment], refusal: PlannerError | None) -> None:
    table = Table("segment", "statement", "at least (s)", "median (s)", "p90 (s)", title=None)
    for segment in segments:
        expected = segment.expected
        times = [f"{seconds:.1f}" for seconds in (expected.min_s, expected.p50_s, expected.p90_s)]
        table.add_row(str(segment.index), segment.text, *times)
    if segments:
        console.print(table, markup=False)
    if refusal:
        print_error(refusal)
        return
    total = sum((segment.expected for segment in segments), start=ZERO_DURATION)
    console.print(f"[green]admitted[/]: about {total.p50_s:.1f} s on the robot, {total.p90_s:.1f} s at p90")
