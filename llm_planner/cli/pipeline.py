"""``llm-planner bench pipeline``: token budgets and micro-batches on a simulated pipeline."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Table

from llm_planner.bench.pipeline.benchmark import PipelineBench, run_pipeline, write_pipeline
from llm_planner.bench.pipeline.published import TABLE_1, Workload
from llm_planner.cli.output import console, error_console
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.simulation.pipeline.profile import DEFAULT_PIPELINE


def pipeline(
    profile: Annotated[str, typer.Option(help="Pipeline profile: a name or a YAML file.")] = DEFAULT_PIPELINE,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(help="Requests/prompt tokens/output tokens; again for more. All ten if left out."),
    ] = None,
    stages: Annotated[int | None, typer.Option(help="Stages, instead of the profile's.")] = None,
    bandwidth: Annotated[float | None, typer.Option(min=0.001, help="Mbps, instead of the profile's.")] = None,
    token_budget: Annotated[int | None, typer.Option(help="Static budget, instead of the profile's.")] = None,
) -> None:
    """Compare schedulers of a pipeline in virtual time: vLLM's, the paper's and ours, on the workloads of Table 1."""
    bench = PipelineBench(
        profile=profile,
        workloads=tuple(map(_workload, workload)) if workload else tuple(TABLE_1),
        num_stages=stages,
        bandwidth_mbps=bandwidth,
        token_budget=token_budget,
    )
    document = run_pipeline(bench, error_console.print)
    console.print(_table(document))
    for path in write_pipeline(document, json):
        console.print(f"wrote {path}")


def _workload(text: str) -> Workload:
    numbers = [int(number) for number in text.split("/") if number.isdecimal()]
    if len(numbers) != 3 or min(numbers) < 1:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG, f"--workload takes three numbers from 1 on, as 64/256/256, not {text!r}"
        )
    return Workload(*numbers)


def _table(document: dict[str, Any]) -> Table:
    names = list(document["setup"]["schedulers"])
    table = Table("workload", *names, title="completion in seconds, simulated; in brackets the paper's", box=SIMPLE)
    for row in document["workloads"]:
        published = row["published"] or {}
        cells = []
        for name in names:
            cell = f"{row[name]['completion_s']:.1f}"
            if name in published:
                cell += f" ({published[name]['completion_s']:.1f})"
            cells.append(cell)
        table.add_row(row["name"], *cells)
    return table
