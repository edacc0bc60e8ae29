# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench timebill`` and ``inventories``: time budgets, measured as TimeBill's evaluation does."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from llm_planner.cli.options import ConfigOption, ModelOption, ThreadsOption
from llm_planner.cli.output import console
from llm_planner_lab.cli.live import live_lab, planner_config

PAGE = Path("docs/benchmarks/timebill.md")
INVENTORIES_PAGE = Path("docs/benchmarks/inventories.md")


def timebill(
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
    page: Annotated[
        Path | None, typer.Option(help=f"Page to write, figures next to it; by default {PAGE}, none if --quick.")
    ] = None,
    is_quick: Annotated[bool, typer.Option("--quick", help="A minute instead of ten: to see that it works.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Independent draws of tasks.")] = 3,
    per_class: Annotated[int, typer.Option(min=1, help="Tasks of each seed and class of prompt lengths.")] = 6,
    model: ModelOption = None,
    config: ConfigOption = None,
    threads: ThreadsOption = 1,
    cpu_time: Annotated[bool, typer.Option(help="Count processor time: less disturbed by other programs.")] = False,
) -> None:
    """Measure time budgets on the engine: predictors, worst cases, eviction and overruns (TimeBill, section 6).

    About ten minutes; nothing else should run meanwhile. Times are measured on the engine and put together in virtual
    time: docs/benchmarks/timebill.md says how. On a CPU, --cpu-time with one thread is the steadier clock.
    """
    from llm_planner_lab.bench.timebill.benchmark import TimeBillBench, quick, run_timebill
    from llm_planner_lab.bench.timebill.figures import draw_timebill
    from llm_planner_lab.bench.timebill.jobs import Workload
    from llm_planner_lab.reports import write_report

    bench = TimeBillBench(
        planner=planner_config(model, config, threads),
        cpu_time=cpu_time,
        workload=Workload(num_seeds=seeds, per_class=per_class),
    )
    if is_quick:
        bench = quick(bench)
    elif page is None:
        page = PAGE
    with live_lab() as lab:
        document = run_timebill(bench, lab.on_progress)
    for strategy in ("kill", "skip_next", "partial"):
        console.print(_table(document, strategy))
    figures = [] if page is None else draw_timebill(document, page.parent / "figures")
    for path in (*write_report("timebill", document, json, page), *figures):
        console.print(f"wrote {path}")


def inventories(
    model: Annotated[
        str, typer.Option("--model", "-m", help="Model of train-planner --inventories, its length predictor beside it.")
    ],
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
    page: Annotated[
        Path | None,
        typer.Option(help=f"Page to write, figures next to it; by default {INVENTORIES_PAGE}, none if --quick."),
    ] = None,
    is_quick: Annotated[bool, typer.Option("--quick", help="Three minutes: to see that it works.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Independent draws of tasks.")] = 3,
    per_class: Annotated[int, typer.Option(min=1, help="Tasks of each seed and class of prompt lengths.")] = 34,
    config: ConfigOption = None,
    threads: ThreadsOption = 1,
    cpu_time: Annotated[bool, typer.Option(help="Count processor time: less disturbed by other programs.")] = False,
) -> None:
    """Measure time budgets where prompts and answers are long, against everything that could be configured.

    Prompts have 1,000 to 3,500 tokens, answers 64 to 512.

    Nothing else should run meanwhile. Every distinct generation runs once: the 396 of 36 tasks and five budgets took
    10 minutes of one core, and by default there are 306 tasks.
    """
    from llm_planner_lab.bench.timebill.benchmark import TimeBillBench
    from llm_planner_lab.bench.timebill.figures import INVENTORY_MEASURES, draw_sweep
    from llm_planner_lab.bench.timebill.inventories import FRACTIONS, INVENTORIES, LONG_GRID, quick, run_inventories
    from llm_planner_lab.reports import write_report

    bench = TimeBillBench(
        planner=planner_config(model, config, threads),
        cpu_time=cpu_time,
        workload=replace(INVENTORIES, num_seeds=seeds, per_class=per_class),
        grid=LONG_GRID,
        fractions=FRACTIONS,
    )
    if is_quick:
        bench = quick(bench)
    elif page is None:
        page = INVENTORIES_PAGE
    with live_lab() as lab:
        document = run_inventories(bench, lab.on_progress)
    for strategy in ("kill", "skip_next", "partial"):
        console.print(_table(document, strategy))
    written = write_report("inventories", document, json, page)
    if page is not None:
        picture = page.parent / "figures" / "inventories_sweep.png"
        draw_sweep(document["sweep"], picture, INVENTORY_MEASURES)
        written.append(picture)
    for path in written:
        console.print(f"wrote {path}")


def _table(document: dict[str, Any], strategy: str) -> Table:
    rows = [row for row in document["sweep"] if row["strategy"] == strategy]
    fractions = sorted({row["budget_fraction"] for row in rows})
    n = document["setup"]["num_tasks"]
    table = Table(
        "approach", *(f"{fraction:g}" for fraction in fractions), title=f"{strategy}: score / complete, n={n}"
    )
    for name in dict.fromkeys(row["approach"] for row in rows):
        cells = [row for row in rows if row["approach"] == name]
        table.add_row(name, *(f"{row['score']:.2f} / {row['completion_rate']:.2f}" for row in cells))
    return table
