# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench measures``: what each measure saves of an urgent goal's time."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from llm_planner.cli.output import console


def measures(
    profile: Annotated[str, typer.Option(help="Engine profile: a name or a YAML file.")] = "llama3-8b-rtx4090",
    weights: Annotated[float, typer.Option(min=0.0, help="Weights that a decode step reads, GB.")] = 16.1,
    bandwidth: Annotated[float, typer.Option(min=1.0, help="Memory bandwidth of the device, GB/s.")] = 1008.0,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
    page: Annotated[Path | None, typer.Option(help="Page to write, such as docs/benchmarks/measures.md.")] = None,
) -> None:
    """Compute from a profile what each measure saves of the time until an urgent robot moves.

    A reserved slot, a cached prefix, a shorter scene, drafts, a smaller batch, quantised weights, and eviction. Nothing
    is run: the estimator that decides about time budgets is asked.
    """
    from llm_planner.prediction.profile import find_profile
    from llm_planner_lab.bench.measures import run_measures
    from llm_planner_lab.reports import write_report

    document = run_measures(find_profile(profile), weights, bandwidth)
    table = Table("measure", "by itself [s]", "with those above [s]", title=f"{document['plain_s']:.3f} s without any")
    for row in document["rows"]:
        table.add_row(row["measure"], f"{row['alone_s']:.3f}", f"{row['together_s']:.3f}")
    console.print(table)
    for path in write_report("measures", document, json, page):
        console.print(f"wrote {path}")
