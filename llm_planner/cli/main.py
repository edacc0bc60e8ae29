# SPDX-License-Identifier: Apache-2.0
"""``llm-planner``: the commands, each in a file of its own, imported when it runs."""

import sys

import typer

from llm_planner import __version__
from llm_planner.cli.lazy import LazyCommand, laboratory_commands, lazy_group
from llm_planner.core.errors import PlannerError

COMMANDS = (
    LazyCommand("plan", "plan:plan", "Plan one instruction on this machine, without ROS and without moving anything."),
    LazyCommand(
        "check", "check:check", "Parse a plan, judge it by the safety gate, and estimate how long the robot takes."
    ),
    LazyCommand("up", "fleet:up", "Start a planner and simulated robots as ROS 2 nodes until Ctrl-C."),
    LazyCommand(
        "robot",
        "robot:robot",
        "Start a robot node until Ctrl-C; a planner must run somewhere (`llm-planner up --drones 0 --arms 0`).",
    ),
    LazyCommand("send", "send:send", "Tell a running robot something, wait until it is done, and show how it went."),
    LazyCommand("stop", "stop:stop", "Halt robots at once and end their goals; it works without a planner."),
    LazyCommand(
        "scene",
        "scene:scene",
        "Show what robots know of around them: names to use in an instruction, and where things are.",
    ),
    LazyCommand(
        "top",
        "top:top",
        "Show a running planner: queue, slots, KV cache, robots, and which goals lose utility or end next.",
    ),
    LazyCommand(
        "dashboard",
        "dashboard:dashboard",
        "Show a running planner and its robots in a browser until Ctrl-C; it changes nothing, but can stop robots.",
    ),
    LazyCommand(
        "record",
        "record:record",
        "Record all topics of a running planner and its robots until Ctrl-C, for `replay`, Foxglove and `ros2 bag`.",
    ),
    LazyCommand(
        "replay",
        "replay:replay",
        "Show what happened in a recording; needs no ROS. A recording that was cut counts as far as it goes.",
    ),
    LazyCommand(
        "demo",
        "demo:demo",
        "Start a planner, three drones and an arm, and let them carry out thirteen goals, three of them emergencies.",
    ),
    LazyCommand(
        "doctor",
        "doctor:doctor",
        "Check this installation: versions, ROS 2, transport, model, GPU, ports, disk, and robots given with --robot.",
    ),
    LazyCommand(
        "worlds", "worlds:worlds", "List the worlds for robots with bodies, check one, or draw it (needs MuJoCo)."
    ),
    LazyCommand(
        "robots",
        "robots:app",
        "List robot models, show what one can do, try a plan in physics, profile how long it takes, "
        "or describe it for other tools.",
    ),
    LazyCommand("cluster", "cluster:app", "Several machines that serve one model together, by vLLM."),
    LazyCommand("emulate", "emulate:app", "Emulate robots on the network, for drivers to try."),
)

LABORATORY = (
    "bench",
    "capacity",
    "chaos",
    "evaluate",
    "profile",
    "simulate",
    "timeline",
    "trace",
    "train-length-predictor",
    "train-planner",
)
"""Commands of the laboratory, which a wheel or a colcon build does not install."""

app = typer.Typer(
    name="llm-planner",
    cls=lazy_group((*COMMANDS, *laboratory_commands(LABORATORY))),
    help="Plans for a fleet of robots with one open-weight LLM, in time.\n\nExample: llm-planner up",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Runs the command line; an expected failure is one line (with ``--json`` one object) and exit status 1."""
    asked: dict[str, bool] = {}
    try:
        app(obj=asked)
    except PlannerError as error:
        from llm_planner.cli.output import print_error, print_json

        if asked.get("json"):
            print_json({"error_code": int(error.code), "error_msg": error.message})
        else:
            print_error(error)
        sys.exit(1)
