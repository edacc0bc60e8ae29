# SPDX-License-Identifier: Apache-2.0
"""The table of aims: why one is missed is said where the figures say it, and nowhere else."""

import pytest

from llm_planner_lab.bench.timebill.aims import facts

RLP = {"rlp": {"mae": 4.0, "rmse": 9.0, "r2": 0.9}, "regression": {"mae": 6.0, "rmse": 12.0, "r2": 0.8}}


def document(*, floor=0.04, decode_mape=0.03, in_time_rate=1.0, no_plan=0, wcet=1.0, differences=(0.2,)):
    ete = {"prefill_mape": 0.03, "prefill_noise_floor": 0.02, "decode_mape": decode_mape, "decode_noise_floor": floor}
    row = {"budget_fraction": 0.7, "approach": "ours", "n": 40, "refused": 2, "no_plan": no_plan}
    in_time = {"in_time_rate": in_time_rate * 38 / 40, "in_time_of_admitted": in_time_rate}
    return {
        "ete": ete,
        "rlp": RLP,
        "interval_coverage_90": 0.9,
        "wcet_share": wcet,
        "solver_ms": {"p50": 0.5, "p99": 1.0, "n": 9},
        "sweep": [{**row, **in_time, "strategy": strategy} for strategy in ("kill", "skip_next", "partial")],
        "against_best_fixed": [{"difference": difference, "ci95": 0.1} for difference in differences],
    }


def test_all_can_be_reached():
    found = facts(document())
    assert found["missed"] == {}
    assert (found["best_baseline_mae"], found["num_above"], found["num_below"]) == (6.0, 1, 0)


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({"decode_mape": 0.056, "floor": 0.051}, {"ETE MAPE decode step": "noise"}),
        ({"decode_mape": 0.056, "floor": 0.03}, {"ETE MAPE decode step": ""}),
        ({"in_time_rate": 37 / 38, "no_plan": 1}, {"in time at the tightest budget": "no_plan"}),
        ({"in_time_rate": 36 / 38, "no_plan": 1}, {"in time at the tightest budget": ""}),
        ({"wcet": 0.99}, {"under the WCET of Eq. (9) at k = 5": ""}),
        ({"differences": (0.2, 0.05, -0.05)}, {}),
        ({"differences": (0.2, 0.2, -0.15)}, {"score against the best fixed approach": ""}),
        ({"differences": (0.2, -0.05, 0.0)}, {"score against the best fixed approach": ""}),
    ],
)
def test_what_is_missed_says_why_as_far_as_the_figures_know(changes, missed):
    assert facts(document(**changes))["missed"] == missed
