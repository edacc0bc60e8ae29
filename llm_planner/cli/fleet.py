"""``llm-planner up`` and ``send``: a planner and simulated robots as processes, and a word to one of them."""

import math
import signal
import threading
import uuid
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from llm_planner.cli.dashboard import PortOption
from llm_planner.cli.emulate import FIRST_ADDRESS, addresses, emulated
from llm_planner.cli.options import (
    BackendOption,
    BaseUrlOption,
    ConfigOption,
    JsonOption,
    ModelOption,
    Overrun,
    OverrunOption,
    PolicyOption,
    ScopeOption,
    budget_scope_of,
)
from llm_planner.cli.output import console, error_console, plain, print_error, print_json, waiting
from llm_planner.cli.simulator import SimOption, Simulator, physical_world
from llm_planner.configuration import load_config, plain_parameters
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import OverrunStrategy, Urgency

if TYPE_CHECKING:
    from llm_planner.ros.composition import Fleet

DronesOption = Annotated[int, typer.Option(min=0, max=100, help="How many Tellos: drone_1, drone_2, ...")]
ArmsOption = Annotated[int, typer.Option(min=0, max=100, help="How many Indy7 arms: arm_1, ...")]


def up(
    drones: DronesOption = 3,
    arms: ArmsOption = 1,
    model: ModelOption = None,
    policy: PolicyOption = None,
    config: ConfigOption = None,
    backend: BackendOption = None,
    base_url: BaseUrlOption = None,
    scenario: Annotated[Path | None, typer.Option(help="YAML file with instructions to begin with.")] = None,
    time_scale: Annotated[float, typer.Option(min=0.01, help="How much faster than real time robots live.")] = 1.0,
    tello: Annotated[list[str] | None, typer.Option(help="Address of a real Tello for drone_1; again for drone_2.")] = (
        None
    ),
    sim: SimOption = Simulator.KINEMATIC,
    world: Annotated[str, typer.Option(help="With --sim mujoco: a bundled world (house, table), or a YAML file.")] = "",
    emulate: Annotated[int, typer.Option(min=0, max=100, help="How many drones are emulated Tellos, over UDP.")] = 0,
    metrics_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of Prometheus figures on 127.0.0.1; 0 for none.")
    ] = 0,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Show the fleet in a browser.")] = False,
    dashboard_port: PortOption = 8080,
    record: Annotated[
        Path | None, typer.Option(help="Record everything to this MCAP file; it must not exist yet.")
    ] = None,
) -> None:
    """Start a planner and simulated robots, each a ROS 2 process of its own, until Ctrl-C.

    The same as `ros2 launch llm_planner fleet_sim.launch.py`, where launch is not installed.
    """
    from llm_planner.ros.composition import Composition, Fleet

    given = {"engine.model": model, "scheduler.policy": policy, "backend": backend, "openai.base_url": base_url}
    overrides = {name: value for name, value in given.items() if value}
    load_config(config, overrides)  # a mistake is named here rather than in a log
    if config is not None and (plain := plain_parameters(config)):
        config, overrides = None, plain | overrides
    if record is not None and record.exists():
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"{record} exists; record to another file")
    composition = Composition(
        drones=drones, arms=arms, time_scale=time_scale, scenario=scenario, config=config, planner=overrides
    )
    if metrics_port:
        composition = replace(composition, planner=overrides | {"metrics_port": f"{metrics_port}"})
    composition = replace(composition, dashboard_port=dashboard_port if dashboard else None, record=record)
    composition = replace(composition, tellos=tuple(tello or addresses(FIRST_ADDRESS, emulate)))
    composition = replace(composition, world=physical_world(sim, world))
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    names = ", ".join(f"/{robot.name}" for robot in composition.robots) or "no robots"
    emulator = nullcontext() if tello or not emulate else emulated(composition.tellos, time_scale)
    with emulator, Fleet(composition.commands()) as fleet:
        console.print(f"planner /planner and {names} are starting; Ctrl-C stops them")
        example = 'llm-planner send drone_1 "fly 1 m forward, then turn right"'
        console.print(f"tell a robot something:  {example}", soft_wrap=True)
        if dashboard:
            console.print(f"dashboard:  http://127.0.0.1:{dashboard_port}/")
        _watch(fleet, stopped)


def _watch(fleet: "Fleet", stopped: threading.Event) -> None:
    """Returns when it is stopped; says once which processes that only look have ended, and goes on without them."""
    missed: set[str] = set()
    while not stopped.wait(0.2):
        ended = fleet.first_ended()
        if ended is not None:
            raise PlannerError(ErrorCode.ENGINE_FAILED, f"process {ended[0]} ended with status {ended[1]}")
        for name in fleet.onlookers_ended().keys() - missed:
            missed.add(name)
            error_console.print(f"the {name} has ended; the fleet goes on without it", style="yellow")


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
        commander = Commander(node, [robot], planner=planner_of(node, robot))
        if not (urgent and time_budget):
            commander.wait_until_ready(wait, on_wait=show)
        commander.instruct(robot, order)
        show(f"/{robot} is at work")
        outcome = commander.outcome(tag, timeout)
    if outcome is None:
        raise PlannerError(ErrorCode.ROBOT_SILENT, f"/{robot} was not done after {timeout:g} s")
    code = ErrorCode(outcome.error_code)
    if as_json:
        metrics = {name: plain(getattr(outcome.metrics, name)) for name in outcome.metrics.get_fields_and_field_types()}
        print_json({"plan": outcome.plan, "metrics": metrics, "error_code": int(code), "error_msg": outcome.error_msg})
    else:
        for segment in outcome.segments:
            console.print(f"{segment.duration_s:6.1f} s  {segment.segment.text}", markup=False)
        if code is ErrorCode.NONE:
            console.print("[green]done[/]")
        else:
            print_error(PlannerError(code, outcome.error_msg))
    raise typer.Exit(0 if code is ErrorCode.NONE else 1)
