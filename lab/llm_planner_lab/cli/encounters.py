# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench encounters``: a person, an animal or a ball comes into a drone's way, in physics."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from llm_planner.cli.options import ConfigOption, ModelOption
from llm_planner.cli.output import console
from llm_planner_lab.bench.encounters.kinds import Begin, Kind
from llm_planner_lab.cli.live import live_lab, planner_config

PAGE = Path("docs/benchmarks/encounters.md")
SHOWN = {
    "set": "begin",
    "planner": "planner",
    "asked": "asking",
    "n": "encounters",
    "collisions": "collisions",
    "in time": "answered_in_time",
    "used": "used",
    "overridden": "overridden",
    "reflex": "with_reflex",
    "gap m": "least_gap_m",
}


def encounters(
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
    page: Annotated[
        Path | None,
        typer.Option(help=f"Page to write; by default {PAGE} for 100 encounters with people or more, else none."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Encounters for each condition of the planner.")] = 100,
    first_seed: Annotated[int, typer.Option(min=0, help="The first of them; earlier ones were used for tuning.")] = 400,
    kind: Annotated[Kind, typer.Option(help="What comes; an animal is a bird at the drone's height.")] = Kind.PERSON,
    begin: Annotated[
        list[Begin] | None, typer.Option(help="Where it begins: outside the drone's sight or near; by default both.")
    ] = None,
    profile: Annotated[str, typer.Option(help="Engine profile: how long the planner's steps take.")] = (
        "planner-small-cpu"
    ),
    model: ModelOption = None,
    config: ConfigOption = None,
) -> None:
    """Let people walk into the way of a drone with a body, and count collisions (needs MuJoCo).

    The planner answers in time, late, or never; the last row is without planner and reflex. Five to ten minutes on two
    cores. Exit status 1 if planner and reflex together did not prevent a collision.
    """
    from llm_planner.ros.robot_control import RobotControl
    from llm_planner_lab.bench.encounters.benchmark import run_encounters
    from llm_planner_lab.reports import write_report

    begins = begin or list(Begin)
    with live_lab() as lab:
        document = run_encounters(
            planner_config(model, config, 1),
            RobotControl,
            seeds=range(first_seed, first_seed + seeds),
            profile=profile,
            on_progress=lab.on_progress,
            kind=kind,
            begins=begins,
        )
    rows = document["conditions"]
    table = Table(*SHOWN)
    for row in rows:
        table.add_row(*(str(row[key]) for key in SHOWN.values()))
    console.print(table)
    is_whole = seeds >= 100 and kind is Kind.PERSON and len(begins) == len(Begin)
    for path in write_report("encounters", document, json, page or (PAGE if is_whole else None)):
        console.print(f"wrote {path}")
    raise typer.Exit(int(any(row["collisions"] for row in rows if row["planner"] in _PROTECTED)))


_PROTECTED = ("in time", "late", "dead")
