# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench physics``: success by family with and without bodies, and the speed of a fleet."""

from pathlib import Path
from typing import Annotated

import typer

from llm_planner.cli.output import console
from llm_planner_lab.progress import progress_bar

PAGE = Path("docs/benchmarks/physics.md")


def physics(
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
    page: Annotated[Path | None, typer.Option(help=f"Page to write, such as {PAGE}.")] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Held-out tasks of each family.")] = 10,
    drones: Annotated[int, typer.Option(min=0, max=100, help="Drones of the fleet whose speed is measured.")] = 10,
    arms: Annotated[int, typer.Option(min=0, max=100, help="Arms of that fleet.")] = 4,
    seconds: Annotated[float, typer.Option(min=1.0, help="Of virtual time in which the speed is measured.")] = 20.0,
) -> None:
    """Carry out reference plans with bodies and without, by family; measure how fast a fleet lives (needs MuJoCo)."""
    from llm_planner_lab.bench.physics.benchmark import run_physics
    from llm_planner_lab.reports import write_report

    with progress_bar("carrying out plans") as on_progress:
        document = run_physics(
            tasks_per_family=tasks, drones=drones, arms=arms, seconds=seconds, on_progress=on_progress
        )
    rows, speed = document["families"], document["speed"]
    for row in rows:
        counts = f"kinematic {row['kinematic']:3}  with bodies {row['physical']:3} of {row['tasks']}"
        console.print(f"{row['family']:18} {counts}")
    fleet = f"{speed['drones']} drones, {speed['arms']} arms"
    console.print(f"{fleet}: {speed['cpu_factor']:g} x real time (processor time)")
    for path in write_report("physics", document, json, page):
        console.print(f"wrote {path}")
