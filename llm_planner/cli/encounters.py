"""``llm-planner bench encounters``: somebody walks into a drone's way, in physics."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from llm_planner.cli.live import live_lab, planner_config
from llm_planner.cli.options import ConfigOption, ModelOption
from llm_planner.cli.output import console

PAGE = Path("docs/benchmarks/encounters.md")
SHOWN = ("planner", "encounters", "collisions", "answered_in_time", "flown", "with_reflex", "least_gap_m")


def encounters(
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
    page: Annotated[
        Path | None, typer.Option(help=f"Page to write; by default {PAGE} for 100 encounters or more, else none.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Encounters for each condition of the planner.")] = 100,
    profile: Annotated[str, typer.Option(help="Engine profile: how long the planner's steps take.")] = (
        "planner-small-cpu"
    ),
    model: ModelOption = None,
    config: ConfigOption = None,
) -> None:
    """Let people walk into the way of a drone with a body, and count collisions (needs MuJoCo).

    The planner answers in time, late, or never; the last row is without planner and reflex. About five minutes. Exit
    status 1 if planner or reflex did not prevent a collision.
    """
    from llm_planner.bench.encounters.benchmark import run_encounters, write_encounters
    from llm_planner.ros.robot_control import RobotControl

    with live_lab() as lab:
        document = run_encounters(
            planner_config(model, config, 1),
            RobotControl,
            num_seeds=seeds,
            profile=profile,
            on_progress=lab.on_progress,
        )
    rows = document["conditions"]
    table = Table(*(key.replace("_", " ") for key in SHOWN))
    for row in rows:
        table.add_row(*(str(row[key]) for key in SHOWN))
    console.print(table)
    for path in write_encounters(document, json, page or (PAGE if seeds >= 100 else None)):
        console.print(f"wrote {path}")
    raise typer.Exit(int(any(row["collisions"] for row in rows if row["planner"] != "nobody")))
