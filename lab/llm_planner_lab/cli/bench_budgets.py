# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench budgets``: emergencies with time budgets over ROS, with all slots busy."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from llm_planner.cli.output import console
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner_lab.cli.shared import numbers
from llm_planner_lab.progress import progress_bar

SHOWN = ("budget_s", "sent", "refused", "admitted", "in_time", "late", "without_segment", "refused_too_near_the_end")
ENGINES = ("torch", "fake")


def budgets(
    budgets: Annotated[str, typer.Option(help="Budgets in seconds, with commas between.")] = "1.0,0.5,0.2,0.1",
    trials: Annotated[int, typer.Option(min=1, help="Emergencies of each budget.")] = 300,
    robots: Annotated[int, typer.Option(min=0, help="Robots that ask for one plan after the other.")] = 16,
    slots: Annotated[int, typer.Option(min=1, help="scheduler.max_num_seqs of the planner.")] = 8,
    engine: Annotated[str, typer.Option(help="torch: the bundled model; fake: a scripted one.")] = "torch",
    seed: Annotated[int, typer.Option(help="Of the emergencies and the pauses between them.")] = 0,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write the page here: docs/benchmarks/budgets.md.")] = None,
) -> None:
    """Keep all slots busy, send emergencies with time budgets, and say which answers were at the robot in time.

    Starts a planner, its load and a robot as processes of their own; two to three minutes for 100 trials.
    """
    from llm_planner_lab.bench.section7 import rounded
    from llm_planner_lab.checkout import commit
    from llm_planner_lab.reports import write_report
    from llm_planner_lab.ros.budgets import BudgetsBench, run_budgets

    seconds = numbers("--budgets", budgets, float)
    if engine not in ENGINES:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no engine {engine!r}; known are {', '.join(ENGINES)}")
    bench = BudgetsBench(budgets_s=seconds, trials=trials, robots=robots, slots=slots, engine=engine, seed=seed)
    with progress_bar("starting") as on_progress:
        document = dict(rounded(run_budgets(bench, on_progress)))
    document["setup"]["commit"] = commit()
    table = Table(*SHOWN)
    for row in document["budgets"]:
        table.add_row(*(str(row[key]) for key in SHOWN))
    console.print(table)
    for path in write_report("budgets", document, json, page):
        console.print(f"wrote {path}")
