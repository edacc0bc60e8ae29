# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench overload``: order, batch limit and shedding apart, and the default against all policies."""

import json
from pathlib import Path
from typing import Annotated

import typer

from llm_planner.cli.output import console
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.bench.overload.benchmark import FIRST_SEED, OverloadBench, document
from llm_planner_lab.reports import DIRECTORY, write_report

PARTS = ("factors", "comparison")


def overload(
    output: Annotated[Path, typer.Option(help="Directory for overload.json and overload.md.")] = DIRECTORY,
    parts: Annotated[
        str, typer.Option(help=f"What to run, with commas between: {', '.join(PARTS)}; the rest stays as it was.")
    ] = ",".join(PARTS),
    seeds: Annotated[int, typer.Option(min=1, help="Traces of each load.")] = 3,
    first_seed: Annotated[int, typer.Option(min=0, help="Seed of the first trace; the others follow.")] = FIRST_SEED,
    duration: Annotated[float, typer.Option(min=1.0, help="Seconds in which requests arrive.")] = 20.0,
) -> None:
    """Say what order, batch limit and load shedding each bring, and where the default is not the best policy."""
    bench = OverloadBench(num_seeds=seeds, first_seed=first_seed, duration_s=duration, note=console.print)
    runs = {"factors": bench.factors, "comparison": bench.comparisons}
    names = parts.split(",")
    if unknown := sorted(set(names) - set(runs)):
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no part {', '.join(unknown)}; known are {', '.join(PARTS)}")
    path = output / "overload.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    found = {**known, **document(bench, {name: runs[name]() for name in names})}
    for written in write_report("overload", found, path, output / "overload.md"):
        console.print(f"wrote {written}")
