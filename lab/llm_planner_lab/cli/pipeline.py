# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench pipeline``: token budgets and micro-batches on a simulated pipeline."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Table

from llm_planner.cli.output import console, error_console
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.bench.pipeline.benchmark import PipelineBench, changed_profile, run_pipeline
from llm_planner_lab.bench.pipeline.figures import draw_pipeline
from llm_planner_lab.bench.pipeline.offline import OFFLINE
from llm_planner_lab.bench.pipeline.published import TABLE_1, Workload
from llm_planner_lab.bench.pipeline.timeline import timelines
from llm_planner_lab.reports import write_report
from llm_planner_lab.simulation.pipeline.profile import DEFAULT_PIPELINE, find_pipeline


def pipeline(
    profile: Annotated[str, typer.Option(help="Pipeline profile: a name or a YAML file.")] = DEFAULT_PIPELINE,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Page to write, figures next to it; docs/benchmarks/pipeline.md is one.")
    ] = None,
    is_quick: Annotated[
        bool, typer.Option("--quick", help="The workloads only: no online scenario, no sweeps.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Traces of the online scenario.")] = 1,
    workload: Annotated[
        list[str] | None,
        typer.Option(help="Requests/prompt tokens/output tokens; again for more. All ten if left out."),
    ] = None,
    stages: Annotated[int | None, typer.Option(help="Stages, instead of the profile's.")] = None,
    bandwidth: Annotated[float | None, typer.Option(min=0.001, help="Mbps, instead of the profile's.")] = None,
    token_budget: Annotated[int | None, typer.Option(help="Static budget, instead of the profile's.")] = None,
) -> None:
    """Compare schedulers of a pipeline in virtual time: vLLM's, the paper's and ours, on the workloads of Table 1.

    Everything takes about six minutes; --workload and --quick leave parts out.
    """
    if page is not None and (is_quick or workload):
        raise PlannerError(ErrorCode.INVALID_CONFIG, "--page needs everything: leave --quick and --workload out")
    bench = PipelineBench(
        profile=profile,
        workloads=tuple(map(_workload, workload)) if workload else tuple(TABLE_1),
        num_stages=stages,
        bandwidth_mbps=bandwidth,
        token_budget=token_budget,
        num_online_seeds=0 if is_quick else seeds,
        has_sweeps=not is_quick,
    )
    document = run_pipeline(bench, error_console.print)
    console.print(_table(document))
    written = write_report("pipeline", document, json, page)
    if page is not None:
        written += draw_pipeline(document, timelines(changed_profile(bench), OFFLINE), page.parent / "figures")
    for path in written:
        console.print(f"wrote {path}")


def pipeline_fit(
    output: Annotated[Path, typer.Option(help="Profile to write.")],
    profile: Annotated[str, typer.Option(help="Pipeline profile that the fit starts from.")] = DEFAULT_PIPELINE,
    evaluations: Annotated[int, typer.Option(min=1, help="Most evaluations; each simulates ten workloads.")] = 150,
    from_data_sheet: Annotated[
        bool, typer.Option("--from-data-sheet", help="Begin with the numbers of the device's data sheet instead.")
    ] = False,
) -> None:
    """Fit the six physical numbers of a pipeline profile to the Baseline columns of Table 1; half an hour."""
    from llm_planner_lab.bench.pipeline.fit import DATA_SHEET, Physical, fit, write_fitted

    began = find_pipeline(profile)
    start = DATA_SHEET if from_data_sheet else Physical.of(began)
    numbers, report = fit(began, start, evaluations, on_progress=error_console.print)
    write_fitted(numbers.into(began), output)
    for row in report["baseline_errors"]:
        console.print(f"{row['name']}: completion {row['completion']:+.1%}, processing {row['processing']:+.1%}")
    console.print(f"wrote {output} (loss {report['loss']:.4f} after {report['num_evaluations']} evaluations)")


def pipeline_lengths(
    profile: Annotated[str, typer.Option(help="Pipeline profile: a name or a YAML file.")] = DEFAULT_PIPELINE,
    seeds: Annotated[int, typer.Option(min=1, help="Draws of the lengths.")] = 3,
) -> None:
    """Simulate what it gains to know or to predict how many tokens requests will bring.

    It takes minutes.
    """
    from llm_planner_lab.bench.pipeline.lengths import KNOWN, run_lengths

    rows = run_lengths(find_pipeline(profile), seeds, on_progress=error_console.print)
    table = Table("workload", "skew", "KV", *KNOWN, title="completion relative to knowing nothing", box=SIMPLE)
    for row in rows:
        cells = [f"{row[known]['relative']:.3f}" for known in KNOWN]
        table.add_row(row["name"], f"{row['skew']:g}", f"{row['memory']:.0%}", *cells)
    console.print(table)
    for known, text in KNOWN.items():
        console.print(f"{known}: {text}")


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
