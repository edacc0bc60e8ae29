# SPDX-License-Identifier: Apache-2.0
"""``llm-planner simulate admission``: which jobs may hold KV memory, when output lengths are uncertain."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from llm_planner.cli.output import console
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.cli.live import live_lab
from llm_planner_lab.cli.shared import numbers, write_json

LENGTHS = Path(__file__).resolve().parents[2] / "profiles" / "lengths" / "azure_conv_2023.csv"
"""Of production requests."""


def admission(
    lengths: Annotated[
        Path | None,
        typer.Option(
            help="CSV with ContextTokens, GeneratedTokens or prompt_tokens, output_tokens; by default the "
            "Azure conversation trace."
        ),
    ] = None,
    policies: Annotated[
        str,
        typer.Option(
            help="Names with commas between; live/NAME for a policy of the planner, behind its own scheduler. By "
            "default all of the paper, and live/tardiness_safe."
        ),
    ] = "",
    interval: Annotated[
        list[str] | None,
        typer.Option(help="Predicted: 1:1000 for all, bins:100, or relative:0.1 around the truth; repeat for more."),
    ] = None,
    n: Annotated[str, typer.Option(help="Jobs per run, a random subset; several with commas.")] = "400",
    kv_tokens: Annotated[int, typer.Option(min=1, help="M: tokens that the KV memory holds.")] = 16492,
    step: Annotated[str, typer.Option(help="unit, or an engine profile: a name or a YAML file.")] = "unit",
    seeds: Annotated[int, typer.Option(min=1, help="Random subsets per n.")] = 3,
    max_prompt: Annotated[int, typer.Option(min=0, help="Longest prompt taken from the file; 0 for all.")] = 0,
    rate: Annotated[float, typer.Option(help="Arrivals per unit or second; 0: all are there at the start.")] = 0.0,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
) -> None:
    """Compare admission policies in virtual time: mean latency against H-SF, which knows all lengths.

    Latencies are in steps, or in seconds with a profile. Overflows are counted by a checker of its own.
    """
    from llm_planner_lab.bench.admission.experiment import AdmissionExperiment, default_policies, run_experiment
    from llm_planner_lab.simulation.admission.jobs import read_jobs

    experiment = AdmissionExperiment(
        policies=tuple(filter(None, policies.split(","))) or default_policies(),
        intervals=tuple(interval or ("1:1000", "bins:100", "relative:0.1")),
        num_jobs=numbers("--n", n, int, least=1),
        kv_tokens=kv_tokens,
        step=step,
        num_seeds=seeds,
        rate_per_s=rate,
    )
    path = lengths or LENGTHS
    jobs = [job for job in read_jobs(path) if not max_prompt or job.prompt_tokens <= max_prompt]
    if not jobs:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"{path} has no prompt of up to {max_prompt} tokens")
    with live_lab() as lab:
        document = run_experiment(experiment, jobs, lab.on_progress)
    console.print(_table(document))
    setup = document["setup"]
    if setup["left_out"]:
        console.print(f"{setup['left_out']} of {setup['jobs']} jobs left out: alone they exceed {kv_tokens} tokens")
    if json is not None:
        write_json(document, json)


def _table(document: dict[str, Any]) -> Table:
    ratios, runs = document["ratio_to_h_sf"], document["runs"]
    intervals = list(dict.fromkeys(run["interval"] for run in runs))
    table = Table(
        "policy", *intervals, "overflows", "cancelled", "decision p99 [ms]", title="mean latency / H-SF (max)"
    )
    for name, by_interval in ratios.items():
        own = [run for run in runs if run["policy"] == name]
        cells = [f"{by_interval[i]['mean']:.3f} ({by_interval[i]['max']:.3f})" for i in intervals]
        sums = [str(sum(run[key] for run in own)) for key in ("overflows", "cancellations")]
        table.add_row(name, *cells, *sums, f"{max(run['decision_ms_p99'] for run in own):.2f}")
    return table
