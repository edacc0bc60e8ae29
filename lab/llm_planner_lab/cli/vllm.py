# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench vllm`` and ``nodes``: vLLM under our scheduler and under its own, on one machine and several."""

from pathlib import Path
from typing import Annotated

import typer

from llm_planner.checkpoints import resolve_model
from llm_planner.cli.options import ModelOption, SeedOption, ThreadsOption
from llm_planner.cli.output import console, print_json
from llm_planner_lab.cli.shared import numbers
from llm_planner_lab.progress import progress_bar


def vllm(
    model: ModelOption = None,
    slots: Annotated[int, typer.Option(min=1, help="Slots, all busy when an urgent request arrives.")] = 8,
    requests: Annotated[int, typer.Option(min=1, help="Generations among which a decision is timed.")] = 64,
    stages: Annotated[
        int, typer.Option(min=1, help="Workers of a pipeline, also measured; 1 leaves the pipeline out.")
    ] = 2,
    threads: ThreadsOption = 1,
    seed: SeedOption = 0,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here instead of printing it.")] = None,
    page: Annotated[Path | None, typer.Option(help="Page to write; docs/benchmarks/vllm.md is one.")] = None,
) -> None:
    """Measure what our scheduling costs and brings on vLLM, against the same vLLM with its own scheduler.

    Needs vLLM (make setup-vllm). Resume to next token against the inter-token time; what a step takes longer because of
    us; an urgent request while all slots are busy, against vLLM's policies `fcfs` and `priority`; a pipeline of
    workers. Takes one to three minutes, most of them for starting vLLM.
    """
    from llm_planner.backends.vllm.contract import require_vllm
    from llm_planner.backends.vllm.engine import EngineSettings

    require_vllm()  # what comes now is made from its classes
    from llm_planner_lab.bench.vllm_run import run_vllm
    from llm_planner_lab.reports import write_report

    settings = EngineSettings(
        model_dir=resolve_model(model or "planner-small"), num_threads=threads, max_live=2 * max(slots, requests)
    )
    with progress_bar("starting vLLM") as on_progress:
        document = run_vllm(
            settings,
            num_slots=slots,
            num_requests=requests,
            num_stages=stages,
            seed=seed,
            on_progress=on_progress,
        )
    for path in write_report("vllm", document, json, page):
        console.print(f"wrote {path}")
    if page is None and json is None:
        print_json(document)


def nodes(
    num_nodes: Annotated[str, typer.Option("--nodes", help="Numbers of machines, with a stage each.")] = "2",
    rates: Annotated[str, typer.Option(help="Megabits per second that a machine may send; a run for each.")] = "100,30",
    model: ModelOption = None,
    requests: Annotated[int, typer.Option(min=1, help="Generations that arrive together.")] = 32,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens that each of them writes.")] = 40,
    budget: Annotated[int, typer.Option(min=16, help="Most tokens of a micro-batch.")] = 256,
    output: Annotated[Path | None, typer.Option(help="Directory for nodes.json and nodes.md.")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here instead of printing it.")] = None,
) -> None:
    """Compare our pacers with vLLM's scheduler on stages on several machines with slow links between them.

    The machines are network namespaces of this one, each held to a rate by tc: needs root, iproute2 and vLLM (make
    setup-vllm). Takes a few minutes for each rate.
    """
    from llm_planner.backends.vllm.contract import require_vllm

    require_vllm()
    from llm_planner_lab.bench.vllm_nodes import NodesBench, run_nodes
    from llm_planner_lab.reports import write_report

    bench = NodesBench(
        num_nodes=numbers("--nodes", num_nodes, int, least=2),
        rates_mbit=numbers("--rates", rates, float, least=0.01),
        model=model or "planner-small",
        num_requests=requests,
        num_tokens=tokens,
        max_num_batched_tokens=budget,
    )
    with progress_bar("starting vLLM on all nodes") as on_progress:
        document = run_nodes(bench, on_progress)
    page = None if output is None else output / "nodes.md"
    for path in write_report("nodes", document, json or (output and output / "nodes.json"), page):
        console.print(f"wrote {path}")
    if output is None and json is None:
        print_json(document)
