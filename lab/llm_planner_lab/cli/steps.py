# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench steps``: what forced tokens and drafts save."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from llm_planner.cli.options import SeedOption, ThreadsOption
from llm_planner.cli.output import console
from llm_planner_lab.cli.shared import numbers, write_json

JsonFile = Annotated[Path | None, typer.Option("--json", help="Also write the figures here.")]


def steps(
    backend: Annotated[str, typer.Option(help="torch or vllm: what runs the model.")] = "torch",
    model: Annotated[
        str, typer.Option("--model", "-m", help="Checkpoint directory, or the name of a bundled model.")
    ] = "planner-small",
    modes: Annotated[str, typer.Option(help="Of the setting engine.lookahead, with commas between.")] = (
        "off,forced,prompt,always,auto"
    ),
    blocks: Annotated[
        str, typer.Option(help="How conditions are sent, with commas between: whole, or open (part by part).")
    ] = "whole",
    batch: Annotated[str, typer.Option(help="How many tasks are planned together: numbers with commas between.")] = "1",
    families: Annotated[
        str, typer.Option(help="Of tasks, with commas between; the eleven of TimelyLLM if empty.")
    ] = "",
    per_family: Annotated[int, typer.Option(min=1, help="Held-out tasks of each family.")] = 10,
    warm_up: Annotated[int, typer.Option(min=0, help="Other tasks of each family, planned before; not counted.")] = 5,
    threads: ThreadsOption = 0,
    cpu_time: Annotated[bool, typer.Option(help="Count processor time: less disturbed by other programs.")] = False,
    seed: SeedOption = 0,
    json: JsonFile = None,
) -> None:
    """Count model steps and seconds per first segment, with and without forced tokens and drafts."""
    from llm_planner_lab.bench.steps import ELEVEN, StepsBench, run_steps

    documents = []
    for size in numbers("--batch", batch, int, least=1):
        bench = StepsBench(
            backend=backend,
            model=model,
            modes=tuple(filter(None, modes.split(","))),
            blocks=tuple(filter(None, blocks.split(","))),
            batch=size,
            families=tuple(filter(None, families.split(","))) or ELEVEN,
            per_family=per_family,
            warm_up=warm_up,
            threads=threads,
            cpu_time=cpu_time,
            seed=seed,
        )
        documents.append(run_steps(bench, console.print))
        console.print(_table(documents[-1]))
    if json is not None:
        write_json(documents, json)


def _table(document: dict[str, Any]) -> Table:
    table = Table(
        "lookahead",
        "steps per token",
        "of the whole plan",
        "tokens of the first segment",
        f"first segment, {'CPU ' * document['is_processor_time']}ms: mean",
        "p50",
        "p95",
        "n",
        title=f"{document['model']} on {document['device']}, {document['batch']} together",
        caption="the same plans" if document["same_plans"] else "[bold red]PLANS DIFFER[/]",
    )
    for mode, families in document["modes"].items():
        figures = families["all"]
        times_s = figures.get("first_segment_s", {})
        table.add_row(
            mode,
            *(f"{figures.get(key, float('nan')):.3f}" for key in ("steps_per_token", "plan_steps_per_token")),
            f"{figures.get('tokens', float('nan')):.1f}",
            *(f"{1000 * times_s.get(key, float('nan')):.1f}" for key in ("mean", "p50", "p95")),
            str(figures["n"]),
        )
    return table
