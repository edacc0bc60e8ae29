"""``llm-planner send``: a word to a robot that runs."""

import math
import uuid
from typing import Annotated

import typer

from llm_planner.cli.options import JsonOption, Overrun, OverrunOption, ScopeOption, budget_scope_of
from llm_planner.cli.output import console, plain, print_error, print_json, waiting
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import OverrunStrategy, Urgency


def send(
    robot: Annotated[str, typer.Argument(help="Name of the robot node, e.g. drone_1.")],
    instruction: Annotated[str, typer.Argument(help="What the robot shall do.")],
    scene: Annotated[str, typer.Option("--scene", "-s", help="What it sees; it describes that itself without.")] = "",
    urgent: Annotated[bool, typer.Option("--urgent", help="Takes the place of what the robot does.")] = False,
    chat: Annotated[bool, typer.Option("--chat", help="It answers in words; the planner needs a chat model.")] = False,
    time_budget: Annotated[
        float, typer.Option("--time-budget", "--budget", help="Seconds until what --budget-scope says; 0 for none.")
    ] = 0.0,
    overrun: OverrunOption = Overrun.KILL,
    budget_scope: ScopeOption = None,
    wait: Annotated[
        float, typer.Option(min=0.0, help="How long to wait for a planner that is still loading, in seconds.")
    ] = 120.0,
    timeout: Annotated[float, typer.Option(min=0.1, help="How long to wait for the outcome, in seconds.")] = 120.0,
    as_json: JsonOption = False,
) -> None:
    """Tell a running robot something, wait until it is done, and show how it went.

    The robot hears of it when the planner is ready; at once if it is urgent and has a time budget, because then its
    reflex acts if the planner does not.
    """
    if not (math.isfinite(time_budget) and time_budget >= 0):
        raise PlannerError(
            ErrorCode.INVALID_TIME_BUDGET, f"--time-budget is {time_budget}; give seconds above 0, or 0 for none"
        )
    from llm_planner.ros.commander import Commander, planner_of
    from llm_planner.ros.conversions import to_error
    from llm_planner.ros.spinning import spinning
    from llm_planner.srv import Instruct

    tag = uuid.uuid4().hex
    order = Instruct.Request(
        instruction=instruction,
        scene=scene,
        urgency=(Urgency.CHAT if chat else Urgency.URGENT if urgent else Urgency.NORMAL).value,
        time_budget_s=time_budget,
        overrun=OverrunStrategy[overrun.name].value,
        budget_scope=budget_scope_of(budget_scope, overrun).value,
        tag=tag,
    )
    with spinning("llm_planner_send") as node, waiting() as show:
        show(f"looking for /{robot}")
        commander = Commander(node, [robot], planner=planner_of(node, robot, on_wait=show))
        if not (urgent and time_budget):
            commander.wait_until_ready(wait, on_wait=show)
        commander.instruct(robot, order)
        show(f"/{robot} is at work")
        outcome = commander.outcome(tag, timeout)
    if outcome is None:
        raise PlannerError(ErrorCode.ROBOT_SILENT, f"/{robot} was not done after {timeout:g} s")
    code, text = to_error(outcome.error_code, outcome.error_msg)
    if as_json:
        metrics = {name: plain(getattr(outcome.metrics, name)) for name in outcome.metrics.get_fields_and_field_types()}
        print_json({"plan": outcome.plan, "metrics": metrics, "error_code": int(code), "error_msg": text})
    else:
        for segment in outcome.segments:
            console.print(f"{segment.duration_s:6.1f} s  {segment.segment.text}", markup=False)
        if code is ErrorCode.NONE:
            console.print("[green]done[/]")
        else:
            print_error(PlannerError(code, text))
    raise typer.Exit(0 if code is ErrorCode.NONE else 1)
