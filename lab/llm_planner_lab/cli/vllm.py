# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench vllm``: vLLM under our scheduler and under its own."""

from pathlib import Path
from typing import Annotated

import typer

from llm_planner.checkpoints import resolve_model
from llm_planner.cli.options import ModelOption, SeedOption, ThreadsOption
from llm_planner.cli.output import console, print_json
from llm_planner_lab.cli.live import progress_bar


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
