# SPDX-License-Identifier: Apache-2.0
"""``llm-planner plan``: one plan without ROS, streamed to the terminal."""

import gc
import time
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_planner.cli.options import (
    BackendOption,
    BaseUrlOption,
    ConfigOption,
    JsonOption,
    ModelOption,
    ModelsOption,
    Overrun,
    OverrunOption,
    RobotOption,
    ScopeOption,
    budget_scope_of,
    complete_policy,
)
from llm_planner.cli.output import console, plain, print_error, print_json, segment_json
from llm_planner.configuration import load_config
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.garbage import without_collections
from llm_planner.core.request import OverrunStrategy, PlanRequest, PlanResult, Urgency
from llm_planner.core.segment import Segment
from llm_planner.core.text import counted
from llm_planner.core.validation import MAX_PLAN_TOKENS
from llm_planner.serving.events import Finished, SegmentReady

if TYPE_CHECKING:
    from llm_planner.serving.loop import PlannerLoop

EXIT_PARTIAL = 3
POLICY = "fcfs_stream"  # nothing else is to be scheduled


def plan(
    instruction: Annotated[str, typer.Argument(help="What the robot shall do, e.g. 'look for the cat'.")],
    robot: RobotOption = "tello",
    models: ModelsOption = None,
    scene: Annotated[str, typer.Option("--scene", "-s", help="What the robot sees, e.g. 'chair_1, cat_2'.")] = "",
    model: ModelOption = None,
    config: ConfigOption = None,
    backend: BackendOption = None,
    base_url: BaseUrlOption = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help=f"Scheduling policy; by default as in --config, or {POLICY}.", autocompletion=complete_policy
        ),
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="Answer in words instead of a plan; needs a chat model.")
    ] = False,
    chat_segments: Annotated[
        str | None, typer.Option(help="What a chat is answered in: sentence or paragraph.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, max=10.0, help="0 is greedy; by default as in --config, or 0.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, max=MAX_PLAN_TOKENS, help="Most tokens of the plan.")] = 512,
    budget: Annotated[
        float | None, typer.Option("--budget", "--time-budget", help="Time budget in seconds; none without.")
    ] = None,
    overrun: OverrunOption = Overrun.KILL,
    budget_scope: ScopeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plan one instruction on this machine, without ROS and without moving anything.

    Segments appear as soon as a robot could begin with them. Exit status 0 if the whole plan passed the safety gate, 3
    if it was closed in time and only its beginning is there, 1 for any other end.
    With --chat the robot answers in words, sentence by sentence.

    Example: llm-planner plan "fly 1 m forward, then turn right"

    Example: llm-planner plan "put the red box into the bin" --robot indy7 --scene "red_box, bin" --json
    """
    urgency = Urgency.CHAT if chat else Urgency.NORMAL
    overrides = {
        "backend": backend,
        "openai.base_url": base_url,
        "engine.model": model,
        "scheduler.policy": policy,
        "temperature": temperature,
        "chat_segments": chat_segments,
        "robot_models": tuple(map(str, models)) if models else None,
    }
    given = {name: value for name, value in overrides.items() if value is not None}
    settings = load_config(config, given, defaults={"scheduler.policy": POLICY})
    request = PlanRequest(
        request_id="cli",
        robot_id="cli",
        robot_model=robot,
        instruction=instruction,
        scene=scene,
        urgency=urgency,
        max_tokens=max_tokens,
        time_budget_s=budget,
        overrun=OverrunStrategy[overrun.name],
        budget_scope=budget_scope_of(budget_scope, overrun),
    )
    with without_collections():
        from llm_planner.assembly import build_admission, build_loop
        from llm_planner.engine_profile import cached_profile

        build_admission(settings).check(request, {})
        with console.status("loading the model") if console.is_terminal and not as_json else nullcontext():
            loop = build_loop(settings, do_clients_report=False, own_profile=cached_profile, rehearsed=(robot,))
        gc.freeze()  # before collections go on: none looks at what was loaded, not even at the end of the program
    with closing(loop):
        result = _run(loop, request, show=not as_json)
    if as_json:
        print_json(_as_json(result))
    elif result.error_code is ErrorCode.PLAN_PARTIAL:
        console.print(f"[yellow]partial[/]: {result.error_msg}", soft_wrap=True)
    elif result.error_code is not ErrorCode.NONE:
        print_error(PlannerError(result.error_code, result.error_msg))
    else:
        metrics = result.metrics
        amounts = f"{counted(len(result.segments), 'segment')}, {counted(metrics.num_output_tokens, 'token')}"
        first_ms = 1000 * (metrics.response_time_s or 0.0)
        console.print(f"[green]complete[/]: {amounts}, first segment after {first_ms:.0f} ms")
    raise typer.Exit({ErrorCode.NONE: 0, ErrorCode.PLAN_PARTIAL: EXIT_PARTIAL}.get(result.error_code, 1))


def _run(loop: "PlannerLoop", request: PlanRequest, *, show: bool) -> PlanResult:
    """Returns the result of a request, which the loop serves alone; waits while there is nothing to do.

    Raises:
        PlannerError: ENGINE_FAILED if there will never be anything to do, although the request has not ended.
    """
    clock = MonotonicClock()
    start_s = clock.now_s()
    events = loop.submit(request, start_s)
    while True:
        for event in events:
            if isinstance(event, Finished):
                return event.result
            if isinstance(event, SegmentReady) and show:
                _print_segment(event.segment, clock.now_s() - start_s, is_chat=request.urgency is Urgency.CHAT)
        now_s = clock.now_s()
        wakeup_s = loop.next_wakeup_s(now_s)
        if wakeup_s is None:
            raise PlannerError(ErrorCode.ENGINE_FAILED, "the plan has not ended, and nothing is left to do for it")
        time.sleep(max(0.0, wakeup_s - now_s))
        events = loop.step(clock.now_s())


def _print_segment(segment: Segment, elapsed_s: float, *, is_chat: bool) -> None:
    console.print(f"[dim]{1000 * elapsed_s:7.0f} ms[/]  ", end="")
    console.print(segment.text.strip(), markup=False, style="bold", end="")
    console.print(f"  [dim]about {segment.expected.p50_s:.1f} s {'to read' if is_chat else 'on the robot'}[/]")


def _as_json(result: PlanResult) -> dict[str, Any]:
    return {
        "plan": result.plan,
        "segments": [segment_json(segment) for segment in result.segments],
        "metrics": plain(result.metrics),
        "error_code": int(result.error_code),
        "error_msg": result.error_msg,
    }
