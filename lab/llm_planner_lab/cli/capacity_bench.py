# SPDX-License-Identifier: Apache-2.0
"""``llm-planner capacity bench``: ALA, its baselines and the default method on splits of the public table."""

import json as json_library
from pathlib import Path
from typing import Annotated

import typer

from llm_planner.cli.options import SeedOption
from llm_planner.cli.output import console, plain
from llm_planner_lab.progress import progress_bar

PAGE = Path("docs/benchmarks/capacity.md")
JSON = PAGE.with_suffix(".json")


def bench(
    json: Annotated[Path, typer.Option("--json", help="Write the result here.")] = JSON,
    page: Annotated[Path, typer.Option(help="Page to write, figures next to it.")] = PAGE,
    only_page: Annotated[bool, typer.Option("--only-page", help="Write the page of an earlier result.")] = False,
    kinds: Annotated[str, typer.Option(help="Kinds of splits, with commas between; all by default.")] = "",
    iterations: Annotated[int, typer.Option(min=2, help="Subsets of the search for Fig. 7.")] = 30,
    seed: SeedOption = 0,
) -> None:
    """Compare all throughput models on splits of the shipped table and write the page; about 25 minutes."""
    from llm_planner.prediction.throughput.table import read_table
    from llm_planner_lab.cli.capacity import shipped_table
    from llm_planner_lab.reports import write_report
    from llm_planner_lab.training.capacity.figures import write_figures

    if not only_page:
        from llm_planner_lab.training.capacity.experiments import CapacityBench, run_bench

        chosen = tuple(filter(None, (kind.strip() for kind in kinds.split(","))))
        settings = CapacityBench(seeds=(seed,), kinds=chosen, num_search_steps=iterations)
        with progress_bar("capacity bench") as on_progress:

            def note(text: str) -> None:
                on_progress(text, 0.0)
                console.print(text)

            document = run_bench(settings, read_table(shipped_table()), note)
        write_report("capacity", plain(document), json, None)
    document = json_library.loads(json.read_text(encoding="utf-8"))
    write_report("capacity", document, None, page)
    for path in (json, page, *write_figures(document, page.parent / "figures")):
        console.print(f"wrote {path}")
