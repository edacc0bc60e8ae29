# SPDX-License-Identifier: Apache-2.0
"""What eviction and a shorter scene cost answers that have all the time they need, by kind of task.

Our planner takes these measures only where the names in a task tell what it needs of the scene
(``PlanPreparer.can_spare``): this is the measurement behind that rule.
"""

from collections.abc import Sequence
from typing import Any

from llm_planner.core.request import OverrunStrategy
from llm_planner_lab.bench.timebill.approaches import fixed
from llm_planner_lab.bench.timebill.jobs import mean_and_ci95
from llm_planner_lab.bench.timebill.lab import Lab
from llm_planner_lab.bench.timebill.sweep import Cell, Progress, run_cell

UNLIMITED = 100.0
"""Times the time of vanilla inference."""
KINDS = ("told by names", "may need all")


def measure_quality(lab: Lab, on_progress: Progress) -> list[dict[str, Any]]:
    """Returns a row for each fixed approach and kind of task that was drawn."""
    kinds = [_kind(lab, number) for number in range(len(lab.jobs))]
    approaches = fixed()
    rows: list[dict[str, Any]] = []
    for number, approach in enumerate(approaches):
        on_progress(f"unlimited time, {approach.name}", number / len(approaches))
        cell = run_cell(lab, approach, OverrunStrategy.SKIP_NEXT, UNLIMITED)
        rows += [_row(cell, kind, kinds) for kind in KINDS if kind in kinds]
    return rows


def _kind(lab: Lab, number: int) -> str:
    job = lab.jobs[number]
    request = job.request(job.name, lab.max_tokens, None, OverrunStrategy.KILL)
    return KINDS[0] if lab.can_spare(request) else KINDS[1]


def _row(cell: Cell, kind: str, kinds: Sequence[str]) -> dict[str, Any]:
    scores = [score for score, of_job in zip(cell.successes, kinds, strict=True) if of_job == kind]
    score, score_ci95 = mean_and_ci95(scores)
    right, right_ci95 = mean_and_ci95([float(score == 1.0) for score in scores])
    return {
        "approach": cell.row.approach,
        "kind": kind,
        "score": score,
        "score_ci95": score_ci95,
        "right": right,
        "right_ci95": right_ci95,
        "n": len(scores),
    }
