"""``llm-planner``: the commands, each in a file of its own."""

import sys

import typer

from llm_planner import __version__
from llm_planner.cli import (
    bench,
    capacity,
    check,
    cluster,
    dashboard,
    demo,
    doctor,
    emulate,
    fleet,
    plan,
    profile,
    record,
    replay,
    robot,
    robots,
    simulate,
    timeline,
    top,
    trace,
    train_length_predictor,
    train_planner,
    worlds,
)
from llm_planner.cli.output import print_error, print_json
from llm_planner.core.errors import PlannerError

app = typer.Typer(
    name="llm-planner",
    help="Plans for a fleet of robots with one open-weight LLM, in time.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("plan")(plan.plan)
app.command("check")(check.check)
app.command("up")(fleet.up)
app.command("robot")(robot.robot)
app.command("send")(fleet.send)
app.command("top")(top.top)
app.command("dashboard")(dashboard.dashboard)
app.command("record")(record.record)
app.command("replay")(replay.replay)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
app.command("train-planner")(train_planner.train_planner)
app.command("train-length-predictor")(train_length_predictor.train_length_predictor)
app.command("timeline")(timeline.timeline)
app.command("profile")(profile.profile)
app.add_typer(robots.app, name="robots")
app.command("worlds")(worlds.worlds)
app.add_typer(bench.app, name="bench")
app.add_typer(trace.app, name="trace")
app.add_typer(cluster.app, name="cluster")
app.add_typer(capacity.app, name="capacity")
app.add_typer(simulate.app, name="simulate")
app.add_typer(emulate.app, name="emulate")


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
        if "--json" in sys.argv:
            print_json({"error_code": int(error.code), "error_msg": error.message})
        else:
            print_error(error)
        sys.exit(1)
