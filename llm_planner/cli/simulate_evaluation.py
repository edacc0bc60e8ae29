"""``llm-planner bench admission``: the evaluation of A_min, with ours beside it."""

import json as jsons
from pathlib import Path
from typing import Annotated

import typer

from llm_planner.cli.live import live_lab
from llm_planner.cli.output import console
from llm_planner.cli.simulate_admission import default_lengths

PAGE = Path("docs/benchmarks/admission.md")


def evaluate_admission(
    json: Annotated[Path | None, typer.Option("--json", help="Write the result here.")] = None,
    page: Annotated[
        Path | None, typer.Option(help=f"Page to write, figures beside it; by default {PAGE}, none if --quick.")
    ] = None,
    is_quick: Annotated[
        bool, typer.Option("--quick", help="Seconds instead of minutes: to see that it works.")
    ] = False,
) -> None:
    """Reproduce the evaluation of A_min (section 6) and its theorems in virtual time, with our policy beside it."""
    from llm_planner.bench.admission.evaluation import Evaluation, quick, run_evaluation
    from llm_planner.bench.admission.figures import draw_admission
    from llm_planner.bench.admission.page import write_page
    from llm_planner.simulation.admission.jobs import read_jobs

    evaluation = quick(Evaluation()) if is_quick else Evaluation()
    page = PAGE if page is None and not is_quick else page
    with live_lab() as lab:
        document = run_evaluation(evaluation, read_jobs(default_lengths()), lab.on_progress)
    if json is not None:
        json.parent.mkdir(parents=True, exist_ok=True)
        json.write_text(jsons.dumps(document, indent=1) + "\n", encoding="utf-8")
        console.print(f"wrote {json}")
    if page is not None:
        page.parent.mkdir(parents=True, exist_ok=True)
        write_page(document, page)
        for path in (page, *draw_admission(document["sweep"], page.parent / "figures")):
            console.print(f"wrote {path}")
