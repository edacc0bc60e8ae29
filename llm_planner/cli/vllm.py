"""``llm-planner bench vllm``: vLLM under our scheduler and under its own."""

from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from llm_planner.assembly import resolve_model
from llm_planner.cli.options import ModelOption, SeedOption, ThreadsOption
from llm_planner.cli.output import print_json


def vllm(
    model: ModelOption = None,
    slots: Annotated[int, typer.Option(min=1, help="Slots, all busy when an urgent request arrives.")] = 8,
    requests: Annotated[int, typer.Option(min=1, help="Generations among which a decision is timed.")] = 64,
    threads: ThreadsOption = 1,
    seed: SeedOption = 0,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here instead of printing it.")] = None,
) -> None:
    """Measure what our scheduling costs and brings on vLLM, against the same vLLM with its own scheduler.

    Needs vLLM (make setup-vllm): resume to next token against the inter-token time; what a step takes longer because of
    us; the response of an urgent request while all slots are busy, against vLLM's policy `priority`.
    """
    from llm_planner.backends.vllm.engine import EngineSettings
    from llm_planner.bench.vllm_engine import VllmBench

    settings = EngineSettings(
        model_dir=resolve_model(model or "planner-small"), num_threads=threads, max_live=2 * max(slots, requests)
    )
    result = VllmBench(settings, num_slots=slots, num_requests=requests, seed=seed).run()
    if json is None:
        print_json(result)
    else:
        json.write_text(dumps(result, indent=1) + "\n", encoding="utf-8")
