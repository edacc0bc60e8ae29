# SPDX-License-Identifier: Apache-2.0
"""``llm-planner send``: a word to a robot that runs."""

import contextlib
import math
import sys
import uuid
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from llm_planner.cli.options import JsonOption, Overrun, OverrunOption, ScopeOption, budget_scope_of, complete_robot
from llm_planner.cli.output import console, error_console, plain, print_error, print_json, waiting
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import OverrunStrategy, Urgency

if TYPE_CHECKING:
    import llm_planner.msg as msgs
    from llm_planner.core.skill import Value
    from llm_planner.ros.commander import Commander
    from llm_planner.srv import Instruct


class Approve(Enum):
    """Who decides whether a plan is executed."""

    AUTO = "auto"
    CONFIDENT = "confident"
    ASK = "ask"


STOPPED_BY_CTRL_C = "stopped by Ctrl-C in `llm-planner send`"
STOPPED_UNANSWERED = "stopped by `llm-planner send`, which got no answer to its instruction"
LAST_WORDS_S = 10.0
INTERRUPTED = 130  # exit status, as of a shell
MARKS = {0: "not run", 2: "ok", 3: "failed", 4: "skipped"}  # of SegmentOutcome.status


def send(
    robot: Annotated[str, typer.Argument(help="Name of the robot node, e.g. drone_1.", autocompletion=complete_robot)],
    instruction: Annotated[str, typer.Argument(help="What the robot shall do.")],
    scene: Annotated[str, typer.Option("--scene", "-s", help="What it sees; it describes that itself without.")] = "",
    world: Annotated[
        Path | None,
        typer.Option(help="YAML or JSON file with the things around it, seen from its home (docs/interfaces.md)."),
    ] = None,
    urgent: Annotated[bool, typer.Option("--urgent", help="Takes the place of what the robot does.")] = False,
    chat: Annotated[bool, typer.Option("--chat", help="It answers in words; the planner needs a chat model.")] = False,
    time_budget: Annotated[
        float, typer.Option("--time-budget", "--budget", help="Seconds until what --budget-scope says; 0 for none.")
    ] = 0.0,
    overrun: OverrunOption = Overrun.KILL,
    budget_scope: ScopeOption = None,
    wait: Annotated[
        float,
        typer.Option(min=0.0, help="How long to wait for the robot and for a planner that is loading, in seconds."),
    ] = 120.0,
    timeout: Annotated[float, typer.Option(min=0.1, help="How long to wait for the outcome, in seconds.")] = 120.0,
    approve: Annotated[
        Approve,
        typer.Option(
            help="Who decides: auto executes what the planner is sure of; confident also offers what may have been "
            "meant where it is not; ask shows every plan first."
        ),
    ] = Approve.CONFIDENT,
    plan: Annotated[
        str,
        typer.Option(
            help="A plan to execute without asking the model; the planner must be ready, its gate judges the plan."
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Tell a running robot something, wait until it is done, and show how it went.

    The robot receives it when the planner is ready; at once if it is an order to stop ("stop", "freeze"), which needs
    no planner, or urgent with a time budget, because then its reflex acts if the planner does not.

    Example: llm-planner send drone_1 "fly 1 m forward, then turn right"

    Example: llm-planner send drone_1 "come down at once" --urgent --budget 0.5

    Example: llm-planner send arm_1 "pick the cup" --approve ask
    """
    if not instruction.strip():
        raise PlannerError(ErrorCode.EMPTY_INSTRUCTION, "the instruction is empty; say what the robot shall do")
    if not (math.isfinite(time_budget) and time_budget >= 0):
        raise PlannerError(
            ErrorCode.INVALID_TIME_BUDGET, f"--time-budget is {time_budget}; give seconds above 0, or 0 for none"
        )
    if chat and urgent:
        raise PlannerError(ErrorCode.INVALID_CONFIG, "--chat asks for words and --urgent for motion; give one of them")
    from llm_planner.core.clock import MonotonicClock
    from llm_planner.planning.instruction.stop_words import is_stop
    from llm_planner.ros.commander import DISCOVERY_S, SIGN_OF_LIFE_S, Commander, planner_of, robot_name
    from llm_planner.ros.spinning import spinning
    from llm_planner.srv import Instruct

    order = Instruct.Request(
        instruction=instruction,
        scene=scene,
        world="" if world is None else _world(world),
        urgency=(Urgency.CHAT if chat else Urgency.URGENT if urgent else Urgency.NORMAL).value,
        time_budget_s=time_budget,
        overrun=OverrunStrategy[overrun.name].value,
        budget_scope=budget_scope_of(budget_scope, overrun).value,
        plan=plan,
        plan_only=approve is Approve.ASK and not plan,
        tag=uuid.uuid4().hex,
    )
    robot = robot_name(robot)
    with spinning("llm_planner_send") as node:
        with waiting() as show:
            show(f"looking for /{robot}")
            clock, search_s = MonotonicClock(), min(SIGN_OF_LIFE_S, max(wait, DISCOVERY_S))
            begun_at_s = clock.now_s()
            planner = planner_of(node, robot, timeout_s=search_s, on_wait=show)
            commander = Commander(node, [robot], planner=planner)
            if not (urgent and time_budget) and (plan or not is_stop(instruction)):
                left_s = max(0.0, wait - (clock.now_s() - begun_at_s))
                search_s = max(0.0, search_s - (clock.now_s() - begun_at_s), min(DISCOVERY_S, left_s))
                commander.wait_until_ready(left_s, sign_of_life_s=search_s, on_wait=show)
            outcome = _obeyed(commander, robot, order, timeout, show)
        if outcome is not None and approve is not Approve.AUTO and (chosen := _chosen(outcome)):
            order.plan, order.plan_only, order.tag = chosen, False, uuid.uuid4().hex
            with waiting() as show:
                outcome = _obeyed(commander, robot, order, timeout, show)
    if outcome is None:
        message = f"/{robot} was not done after {timeout:g} s and goes on; stop it with `llm-planner stop {robot}`"
        raise PlannerError(ErrorCode.ROBOT_SILENT, message)
    code = _show(outcome, as_json=as_json)
    is_done = code is ErrorCode.NONE and not outcome.candidates  # those were only shown
    raise typer.Exit(0 if is_done else INTERRUPTED if code is ErrorCode.STOPPED else 1)


def _world(path: Path) -> str:
    """Returns what a file says is around the robot, as JSON.

    Raises:
        PlannerError: INVALID_FILE if it cannot be read, INVALID_WORLD if no robot would take it.
    """
    from llm_planner.documents import DocumentError, json_of, read_yaml
    from llm_planner.ros.snapshot import Snapshot

    try:
        text = json_of(read_yaml(path))
    except DocumentError as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"{path} {error}") from error
    Snapshot.from_order(text)
    return text


def _show(outcome: "msgs.PlanOutcome", *, as_json: bool) -> ErrorCode:
    """Shows how it went; returns the code with which it ended."""
    from llm_planner.ros.conversions import to_error

    code, text = to_error(outcome.error_code, outcome.error_msg)
    if as_json:
        metrics = {name: plain(getattr(outcome.metrics, name)) for name in outcome.metrics.get_fields_and_field_types()}
        segments = [_segment_json(segment) for segment in outcome.segments]
        shown = {"plan": outcome.plan, "segments": segments, "metrics": metrics}
        shown["candidates"] = list(outcome.candidates)
        print_json({**shown, "error_code": int(code), "error_msg": text})
    elif code is ErrorCode.NONE and outcome.candidates:
        console.print(_choices(outcome), markup=False, soft_wrap=True)
        hint = "" if _can_choose() else ": confirm it in a terminal, or give it as --plan"
        console.print(f"[yellow]not executed[/]{hint}", soft_wrap=True)
    else:
        for segment in outcome.segments:
            console.print(_line(segment), markup=False, soft_wrap=True)
        if code is ErrorCode.NONE:
            console.print(f"[green]done[/]; {escape(text)}" if text else "[green]done[/]", soft_wrap=True)
        else:
            print_error(PlannerError(code, text))
            if outcome.candidates:
                console.print(f"Did you mean (--plan executes it):\n{_choices(outcome)}", markup=False, soft_wrap=True)
    return code


def _obeyed(
    commander: "Commander", robot: str, order: "Instruct.Request", timeout_s: float, show: Callable[[str], None]
) -> "msgs.PlanOutcome | None":
    """Tells a robot what to do and returns how it ended. The first Ctrl-C stops the robot, the second leaves it.

    A robot that does not answer is stopped too: it may have taken the instruction, and be about to carry it out.
    """
    is_accepted = False
    try:
        commander.instruct(robot, order)
        is_accepted = True
        show(f"/{robot} is at work; Ctrl-C stops it")
        return commander.outcome(order.tag, timeout_s)
    except KeyboardInterrupt:
        commander.stop(robot, STOPPED_BY_CTRL_C)
        if not is_accepted:  # the instruction may have been taken behind the first stop
            commander.stop(robot, STOPPED_BY_CTRL_C)
        show(f"/{robot} is stopped; waiting for its last words, Ctrl-C again leaves")
        if (outcome := commander.outcome(order.tag, LAST_WORDS_S)) is None:
            raise PlannerError(ErrorCode.STOPPED, f"/{robot} is stopped; its planner does not answer") from None
        return outcome
    except PlannerError as error:
        if is_accepted or error.code is not ErrorCode.SERVER_UNREACHABLE:
            raise
        show(f"/{robot} does not answer; it is told to stop")
        for _ in range(2):  # as above; neither may be answered
            with contextlib.suppress(PlannerError):
                commander.stop(robot, STOPPED_UNANSWERED)
        raise PlannerError(error.code, f"{error.message}; it was told to stop, too") from None


def _chosen(outcome: "msgs.PlanOutcome") -> str:
    """Returns the plan that a person confirms; empty for none, and without a terminal."""
    if not (outcome.candidates and _can_choose()):
        return ""
    error_console.print(outcome.error_msg or "the plan:", markup=False, soft_wrap=True)
    error_console.print(_choices(outcome), markup=False, soft_wrap=True)
    number = int(typer.prompt("execute which one? 0 for none", type=int, default=0, err=True))
    return outcome.candidates[number - 1] if 0 < number <= len(outcome.candidates) else ""


def _can_choose() -> bool:
    return sys.stdin.isatty() and error_console.is_terminal


def _choices(outcome: "msgs.PlanOutcome") -> str:
    """Returns the plans to choose from, a line each: in MiniSpec, and in words if the robot model is known here."""
    from llm_planner.planning.in_words import in_words
    from llm_planner.robots.library import RobotLibrary

    words = [""] * len(outcome.candidates)
    with contextlib.suppress(PlannerError):  # only the robot and its planner have the file of this model
        model = RobotLibrary().get(outcome.robot_model)
        words = [f"  ({in_words(model, plan)})" for plan in outcome.candidates]
    plans = zip(outcome.candidates, words, strict=True)
    return "\n".join(f"  {number}  {plan}{said}" for number, (plan, said) in enumerate(plans, start=1))


def _line(outcome: "msgs.SegmentOutcome") -> str:
    """Returns how a segment went, as one line: its mark, how long it took, its text, and its result."""
    if outcome.segment.is_replan:
        return "replanned"
    mark = MARKS.get(outcome.status, "?")
    took = f"{outcome.duration_s:6.1f} s" if outcome.status in (outcome.SUCCEEDED, outcome.FAILED) else " " * 8
    return "  ".join([f"{mark:7}", took, outcome.segment.text, *_findings(outcome)])


def _findings(outcome: "msgs.SegmentOutcome") -> list[str]:
    """Returns why a segment failed, and what the robot said, found or measured meanwhile."""
    found = [f"({outcome.reason})"] if outcome.reason else []
    found += [f"says: {text}" for text in outcome.said]
    value = _value(outcome.value)
    return found if value is None else [*found, f"= {value:g}" if type(value) is float else f"= {value}"]


def _segment_json(outcome: "msgs.SegmentOutcome") -> dict[str, object]:
    return {
        "index": outcome.segment.index,
        "text": outcome.segment.text,
        "is_replan": outcome.segment.is_replan,
        "status": MARKS.get(outcome.status, "?"),
        "reason": outcome.reason,
        "duration_s": outcome.duration_s,
        "value": _value(outcome.value),
        "said": list(outcome.said),
    }


def _value(message: "msgs.Value") -> "Value | None":
    from llm_planner.ros.conversions import to_value

    return to_value(message)
