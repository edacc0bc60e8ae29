# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench admission``: the evaluation of A_min, with our policy alongside."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from llm_planner.cli.output import console, print_json
from llm_planner_lab.cli.live import live_lab
from llm_planner_lab.cli.shared import numbers
from llm_planner_lab.cli.simulate_admission import LENGTHS

PAGE = Path("docs/benchmarks/admission.md")


def evaluate_admission(
    json: Annotated[
        Path | None, typer.Option("--json", help="Write the result here; printed if neither this nor a page is.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help=f"Page to write, figures next to it; by default {PAGE}, none if --quick.")
    ] = None,
    n: Annotated[str, typer.Option(help="Numbers of jobs, with commas; the paper's by default.")] = "",
    seeds: Annotated[int, typer.Option(min=1, help="Random subsets per number.")] = 3,
    is_quick: Annotated[
        bool, typer.Option("--quick", help="Seconds instead of minutes: to see that it works.")
    ] = False,
) -> None:
    """Reproduce the evaluation of A_min (section 6) and its theorems in virtual time, with our policy alongside."""
    from llm_planner_lab.bench.admission.evaluation import Evaluation, quick, run_evaluation
    from llm_planner_lab.bench.admission.figures import draw_admission
    from llm_planner_lab.reports import write_report
    from llm_planner_lab.simulation.admission.jobs import read_jobs

    evaluation = Evaluation(num_seeds=seeds)
    if n:
        evaluation = replace(evaluation, num_jobs=numbers("--n", n, int, least=1))
    if is_quick:
        evaluation = quick(evaluation)
    page = PAGE if page is None and not is_quick else page
    with live_lab() as lab:
        document = run_evaluation(evaluation, read_jobs(LENGTHS), lab.on_progress)
    figures = [] if page is None else draw_admission(document["sweep"], page.parent / "figures")
    if json is None and page is None:
        print_json(document)
    for path in (*write_report("admission", document, json, page), *figures):
        console.print(f"wrote {path}")
