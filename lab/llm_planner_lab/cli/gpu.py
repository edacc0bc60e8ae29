# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench gpu``: what the torch engine takes for its steps on this device."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from llm_planner.cli.options import SeedOption, ThreadsOption
from llm_planner.cli.output import console
from llm_planner_lab.progress import progress_bar


def gpu(
    shape: Annotated[
        list[str] | None, typer.Option(help="Llama shape of the model: tiny, 1b or 8b; again for more; 1b and 8b.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto (CUDA if there is one), cpu, cuda or cuda:N.")] = "auto",
    minutes: Annotated[float, typer.Option(min=0.0, help="What has not begun by then is skipped.")] = 8.0,
    profiles: Annotated[
        Path | None, typer.Option(help="Directory in which to write an engine profile of each shape.")
    ] = None,
    threads: ThreadsOption = 0,
    seed: SeedOption = 0,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
    page: Annotated[Path | None, typer.Option(help="Page to write, such as docs/benchmarks/gpu.md.")] = None,
) -> None:
    """Measure the torch engine on a device, without checkpoint or network: random weights, made on the spot.

    Decode steps against what reading weights and KV takes, prompts, suspension, offloading, eviction, prompts alongside
    decoding, and transformers with the same weights. What does not fit into the memory is skipped and said so.
    """
    from llm_planner_lab.bench.gpu.benchmark import GpuBench, run_gpu
    from llm_planner_lab.reports import render, write_report

    bench = GpuBench(
        shapes=tuple(dict.fromkeys(shape or ("1b", "8b"))),
        device=device,
        limit_s=60 * minutes,
        threads=threads,
        profiles=profiles,
        seed=seed,
    )
    with progress_bar("reading memory") as on_progress:
        document = run_gpu(bench, lambda what, begun, total: on_progress(f"{what} ({begun} of {total})", begun / total))
    console.print(Markdown(render("gpu", document)))
    for path in write_report("gpu", document, json, page):
        console.print(f"wrote {path}")
    for figures in document["shapes"]:
        if profiles is not None and figures["profile"] is not None:
            console.print(f"wrote {profiles / figures['profile']}")
