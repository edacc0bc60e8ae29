# SPDX-License-Identifier: Apache-2.0
"""``llm-planner capacity``: throughput models of servers, and what they are for."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from llm_planner.cli.options import JsonOption, SeedOption
from llm_planner.cli.output import console, print_json
from llm_planner.core.resources import share_dir
from llm_planner.prediction.throughput.table import Combination, Workload, read_table
from llm_planner_lab.cli import capacity_bench, capacity_curve, capacity_plan
from llm_planner_lab.cli.shared import write_json
from llm_planner_lab.progress import progress_bar

app = typer.Typer(help="Predict what a server can do, and plan how many are needed.", no_args_is_help=True)
app.command("plan")(capacity_plan.plan)
app.command("curve")(capacity_curve.curve)
app.command("check")(capacity_curve.check)
app.command("bench")(capacity_bench.bench)
TableOption = Annotated[
    Path | None, typer.Option("--data", help="CSV in the format of the shipped table, which is the default.")
]
ThroughputModelOption = Annotated[
    Path | None, typer.Option("--model", help="File of `capacity fit`. Default: the shipped one.")
]


def shipped_table() -> Path:
    """Returns the path of the table that comes with the program."""
    return share_dir() / "profiles" / "throughput" / "llm_inference_bench.csv"


@app.command()
def fit(
    out: Annotated[Path, typer.Option("--out", help="The file to write.")],
    data: TableOption = None,
    method: Annotated[str, typer.Option(help="kernel, or ala: the method of the paper.")] = "kernel",
    seed: SeedOption = 0,
) -> None:
    """Fit a throughput model to a table of measurements; a minute or two."""
    from llm_planner_lab.training.capacity.methods import fit_model, write_model

    table = read_table(data or shipped_table())
    what = f"fitting {method} to {len(table)} rows"
    with progress_bar(what) as on_progress:
        model = fit_model(method, table, seed, lambda done, of: on_progress(what, done / of))
    write_model(model, table, out)
    combinations = len({m.combination for m in table})
    console.print(f"wrote {out}: {method}, {len(table)} rows of {combinations} combinations")


@app.command()
def evaluate(
    data: Annotated[Path, typer.Option("--data", help="CSV of runs that the model was not fitted to.")],
    model: ThroughputModelOption = None,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
) -> None:
    """Compare a model with runs that it was not fitted to; `capacity bench` splits the shipped table."""
    from llm_planner_lab.training.capacity.evaluate import evaluate as evaluate_model
    from llm_planner_lab.training.capacity.methods import load_model

    document = evaluate_model(load_model(model), read_table(data))
    if json is not None:
        write_json(document, json)
    table = Table("hardware", "model", "framework", "n", "median error", "predicted", "confidence")
    for row in document["groups"]:
        names = (row["hardware"], row["model"], row["framework"], str(row["n"]))
        table.add_row(*names, f"{row['median_ape']:.1%}", f"{row['predicted_error']:.1%}", f"{row['confidence']:.2f}")
    console.print(table)
    rank = document["spearman_error"]
    console.print(
        f"{document['n']} rows: median error {document['median_ape']:.2%}, mean {document['mean_ape']:.2%}; 90 % "
        f"intervals hold {document['coverage_90']:.1%}; predicted and actual errors of groups rank-correlate "
        f"{'not at all' if rank is None else f'{rank:.2f}'}"
    )


@app.command()
def predict(
    hardware: Annotated[str, typer.Option(help="Device, as the table names it.")],
    llm: Annotated[str, typer.Option("--model", "--llm", help="Language model, as the table names it.")],
    framework: Annotated[str, typer.Option(help="What serves it.")] = "vLLM",
    devices: Annotated[int, typer.Option(min=1, max=1024, help="How many devices serve it together.")] = 1,
    input_tokens: Annotated[int, typer.Option("--input", min=1, help="Tokens of each prompt.")] = 512,
    output_tokens: Annotated[int, typer.Option("--output", min=1, help="Tokens of each response.")] = 512,
    batch: Annotated[int, typer.Option(min=1, help="Sequences at once.")] = 1,
    using: Annotated[
        Path | None, typer.Option("--using", help="File of `capacity fit`. Default: the shipped one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Predict the throughput of a server, with a 90 % interval and how far to trust it.

    It counts the tokens of prompts and responses, as the table does, over the time of the whole batch.
    """
    from llm_planner.prediction.throughput.catalogue import SINGLE_SEQUENCE, load_catalogue
    from llm_planner.prediction.throughput.server_profile import num_at_once
    from llm_planner_lab.training.capacity.methods import load_model

    combination = Combination(hardware, devices, framework, llm)
    throughput = load_model(using)
    throughput.require_known(combination)
    workload, catalogue = Workload(input_tokens, output_tokens, batch), load_catalogue()
    at_once = num_at_once(catalogue, combination, workload) if catalogue.lists(combination) else batch
    (estimate,) = throughput.estimates([(combination, workload)])
    if as_json:
        print_json(estimate)
        return
    console.print(f"{combination}, {batch} x ({input_tokens} + {output_tokens}) tokens", markup=False)
    console.print(
        f"{estimate.tokens_per_s:.4g} tokens/s, prompts included, 90 % interval {estimate.low_tokens_per_s:.4g} to "
        f"{estimate.high_tokens_per_s:.4g}; median error {estimate.predicted_error:.1%}, "
        f"confidence {estimate.confidence:.2f}"
    )
    if batch > at_once and framework not in SINGLE_SEQUENCE:
        console.print(f"memory holds {at_once} such sequences at once: the others wait until there is room")
    if not estimate.is_seen:
        console.print("this combination was never measured: measure it with llm-planner profile --table, and fit again")
