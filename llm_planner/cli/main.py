"""``llm-planner``: the commands, each in a file of its own, imported when it runs."""

import sys

import typer

from llm_planner import __version__
from llm_planner.cli.lazy import LazyCommand, lazy_group
from llm_planner.core.errors import PlannerError

COMMANDS = (
    LazyCommand("plan", "plan:plan", "Plan one instruction on this machine, without ROS and without moving anything."),
    LazyCommand(
        "check", "check:check", "Parse a plan, judge it by the safety gate, and estimate how long the robot takes."
    ),
    LazyCommand(
        "up", "fleet:up", "Start a planner and simulated robots, each a ROS 2 process of its own, until Ctrl-C."
    ),
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
    LazyCommand("train-planner", "train_planner:train_planner", "Train the planner model on generated tasks."),
    LazyCommand(
        "train-length-predictor",
        "train_length_predictor:train_length_predictor",
        "Train a predictor of response lengths on what a model really answers.",
    ),
    LazyCommand(
        "timeline",
        "timeline:timeline",
        "Show who waited, who moved and when the engine worked: a PNG, and a Chrome trace that opens in Perfetto.",
    ),
    LazyCommand(
        "profile",
        "profile:profile",
        "Measure prefill, decoding, offloading, resuming, evicting and the planner's own time; "
        "write an engine profile.",
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
    LazyCommand("bench", "bench:app", "Benchmarks of scheduling, in virtual time and on a real planner."),
    LazyCommand(
        "chaos",
        "chaos:chaos",
        "Start a fleet, inject faults from a seeded schedule, and check every call that every robot made.",
    ),
    LazyCommand("trace", "trace:app", "Compose, record and replay traces of robots' requests."),
    LazyCommand("cluster", "cluster:app", "Several machines that serve one model together, by vLLM."),
    LazyCommand("capacity", "capacity:app", "Predict what a server can do, and plan how many are needed."),
    LazyCommand("simulate", "simulate:app", "Simulate schedulers on lengths alone, without an engine."),
    LazyCommand("emulate", "emulate:app", "Emulate robots on the network, for drivers to try."),
)

app = typer.Typer(
    name="llm-planner",
    cls=lazy_group(COMMANDS),
    help="Plans for a fleet of robots with one open-weight LLM, in time.",
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
    try:
        app()
    except PlannerError as error:
        from llm_planner.cli.output import print_error, print_json

        if "--json" in sys.argv:
            print_json({"error_code": int(error.code), "error_msg": error.message})
        else:
            print_error(error)
        sys.exit(1)
