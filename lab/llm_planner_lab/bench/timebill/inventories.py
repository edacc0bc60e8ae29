# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench inventories``: time budgets where prompts are long and answers too, as TimeBill has them.

Plans of the bundled planner are short: most of their time is the prefill, which no eviction shortens. Inventories have
prompts of 1,000 to 3,500 tokens and answers of 64 to 512, so that a decode step reads more KV than weights.
"""

import time
from dataclasses import replace
from functools import partial
from typing import Any

from llm_planner_lab.bench.section7 import rounded
from llm_planner_lab.bench.timebill.approaches import OURS_WHOLE_SCENE, TIMEBILL, VANILLA
from llm_planner_lab.bench.timebill.benchmark import TimeBillBench, open_lab, setup_figures
from llm_planner_lab.bench.timebill.ete import Grid, measure_end_to_end
from llm_planner_lab.bench.timebill.jobs import Workload, share_done
from llm_planner_lab.bench.timebill.quality import ALL, measure_quality
from llm_planner_lab.bench.timebill.sweep import Progress, against_best, run_sweep, sweep_figures
from llm_planner_lab.bench.timely.metrics import quantile
from llm_planner_lab.tasks.inventory import long_inventory

FRACTIONS = (0.4, 0.6, 0.8, 1.0, 1.5)
CLASSES = ((1000, 1800), (1800, 2600), (2600, 3500))
LONG_GRID = Grid(
    prompts=(256, 512, 1024, 1536, 2048, 2560, 3072, 3584),
    caches=(128, 512, 1024, 1536, 2048, 2560, 3072, 3584),
    batches=(1,),
    num_repeats=9,
)
INVENTORIES = Workload(
    per_class=34, classes=CLASSES, max_tokens=512, draw=partial(long_inventory, held_out=True), score=share_done
)


def run_inventories(bench: TimeBillBench, on_progress: Progress) -> dict[str, Any]:
    """Returns the JSON document.

    Raises:
        PlannerError: MODEL_NOT_FOUND if the model has no length predictor, INVALID_CONFIG if it is another model's.
    """
    began_s = time.monotonic()
    with open_lab(bench, on_progress) as opened:
        lab = opened.lab
        quality = measure_quality(lab, on_progress)
        end_to_end = dict(measure_end_to_end(lab, opened.ete["reference_s"]))
        cells = run_sweep(lab, bench.fractions, on_progress)
    took_ms = sorted(1000.0 * took_s for took_s in lab.took_s)
    del end_to_end["vanilla"]  # a row for each job, for a picture that this page has not
    document = {
        **sweep_figures(cells),
        "ours_whole_against_fixed_ratios": against_best(cells, OURS_WHOLE_SCENE, _is_ratio),
        "timebill_against_fixed_ratios": against_best(cells, TIMEBILL, _is_ratio),
        "unlimited": next(row for row in quality if (row["approach"], row["kind"]) == (VANILLA, ALL)),
        "quality": quality,
        "ete": {**opened.ete, "end_to_end": end_to_end, "reference": opened.reference.figures()},
        "rlp": opened.lengths["rlp"],
        "interval_coverage_90": opened.lengths["interval_coverage_90"],
        "solver_ms": {"p50": quantile(took_ms, 0.5), "p99": quantile(took_ms, 0.99), "n": len(took_ms)},
        "setup": setup_figures(bench, opened, began_s),
    }
    return dict(rounded(document))


def quick(bench: TimeBillBench) -> TimeBillBench:
    """Returns a bench that takes some three minutes: its figures show that everything works, and no more."""
    return replace(
        bench,
        workload=replace(bench.workload, num_seeds=1, per_class=2),
        grid=replace(bench.grid, num_repeats=3),
        fractions=(0.6, 1.0),
    )


def _is_ratio(name: str) -> bool:
    """Returns whether an approach is one of the paper's baselines."""
    return name == VANILLA or name.startswith("alpha_")
