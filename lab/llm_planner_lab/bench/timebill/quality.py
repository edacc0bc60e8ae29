# SPDX-License-Identifier: Apache-2.0
"""What eviction and a shorter scene cost answers that have all the time they need, by kind of task.

Our planner takes these measures only where the names in a task tell what it needs of the scene
(``PlanPreparer.can_spare``): this is the measurement behind that rule.
"""

from collections.abc import Sequence
from typing import Any

from llm_planner.core.request import OverrunStrategy
from llm_planner_lab.bench.intervals import mean_and_ci95, wilson
from llm_planner_lab.bench.timebill.approaches import fixed
from llm_planner_lab.bench.timebill.lab import Lab
from llm_planner_lab.bench.timebill.sweep import Cell, Progress, run_cell

UNLIMITED = 100.0
"""Times the time of vanilla inference."""
KINDS, ALL = ("told by names", "may need all"), "all"


def measure_quality(lab: Lab, on_progress: Progress) -> list[dict[str, Any]]:
    """Returns a row for each fixed approach and kind of task that was drawn, and for all together."""
    kinds = [KINDS[0] if lab.can_spare(job.name) else KINDS[1] for job in lab.jobs]
    approaches = fixed()
    rows: list[dict[str, Any]] = []
    for number, approach in enumerate(approaches):
        on_progress(f"unlimited time, {approach.name}", number / len(approaches))
        cell = run_cell(lab, approach, OverrunStrategy.SKIP_NEXT, UNLIMITED)
        rows += [_row(cell, kind, kinds) for kind in (*KINDS, ALL) if kind in (*kinds, ALL)]
    return rows


def _row(cell: Cell, kind: str, kinds: Sequence[str]) -> dict[str, Any]:
    scores = [score for score, of_job in zip(cell.successes, kinds, strict=True) if kind in (of_job, ALL)]
    score, score_ci95 = mean_and_ci95(scores)
    num_right = scores.count(1.0)
    return {
        "approach": cell.row.approach,
        "kind": kind,
        "score": score,
        "score_ci95": score_ci95,
        "right": num_right / len(scores),
        "right_interval": list(wilson(num_right, len(scores))),
        "n": len(scores),
    }
