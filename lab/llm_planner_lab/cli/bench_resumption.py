# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench resumption``: how often robots wait for resumed generations, with much and with little memory."""

import json
from pathlib import Path
from typing import Annotated

import typer

from llm_planner.cli.output import console
from llm_planner_lab.bench.resumption import FIRST_SEED, ResumptionBench
from llm_planner_lab.reports import DIRECTORY, write_report


def resumption(
    output: Annotated[Path, typer.Option(help="Directory for resumption.json and resumption.md.")] = DIRECTORY,
    label: Annotated[str, typer.Option(help="Name of this run on the page; runs of other names stay on it.")] = "now",
    seeds: Annotated[int, typer.Option(min=2, help="Traces of each load.")] = 10,
    first_seed: Annotated[int, typer.Option(min=0, help="Seed of the first trace; the others follow.")] = FIRST_SEED,
    duration: Annotated[float, typer.Option(min=1.0, help="Seconds in which requests arrive.")] = 60.0,
) -> None:
    """Measure how often robots wait for resumed generations, with much and with little memory, in virtual time."""
    bench = ResumptionBench(num_seeds=seeds, first_seed=first_seed, duration_s=duration, note=console.print)
    path = output / "resumption.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for written in write_report("resumption", bench.document(label, known), path, output / "resumption.md"):
        console.print(f"wrote {written}")
