# SPDX-License-Identifier: Apache-2.0
import pytest

from llm_planner_lab.bench.pipeline.offline import fidelity, figures, run_offline, run_workload, summary
from llm_planner_lab.bench.pipeline.published import (
    MAX_IDLE_REDUCTION,
    MAX_SPEEDUP,
    MEAN_IDLE_REDUCTION,
    MEAN_SPEEDUP,
    TABLE_1,
    Workload,
)
from llm_planner_lab.simulation.pipeline.profile import DEFAULT_PIPELINE, find_pipeline

PROFILE = find_pipeline(DEFAULT_PIPELINE)
SMALL = Workload(64, 256, 256)


def test_the_copied_table_gives_the_published_summary():
    speedups = [row.baseline.completion_s / row.both.completion_s for row in TABLE_1.values()]
    reductions = [1 - row.both.idle_s / row.baseline.idle_s for row in TABLE_1.values()]
    assert sum(speedups) / 10 == pytest.approx(MEAN_SPEEDUP, abs=0.005)
    assert max(speedups) == pytest.approx(MAX_SPEEDUP, abs=0.005)
    assert sum(reductions) / 10 == pytest.approx(MEAN_IDLE_REDUCTION, abs=0.002)
    assert max(reductions) == pytest.approx(MAX_IDLE_REDUCTION, abs=0.005)


def test_in_the_copied_table_processing_and_idle_make_completion():
    for row in TABLE_1.values():
        for times in row:
            assert times.processing_s + times.idle_s == pytest.approx(times.completion_s, rel=0.02)


def test_the_shipped_profile_reproduces_the_published_baseline():
    """The smallest workload only; all ten are in docs/benchmarks/pipeline.md."""
    published = TABLE_1[SMALL].baseline
    assert run_workload(SMALL, "baseline", PROFILE).completion_s == pytest.approx(published.completion_s, rel=0.10)


def test_the_schemes_are_better_than_the_baseline_and_ours_is_best():
    (row,) = run_offline(PROFILE, [SMALL], ("baseline", "token_budget", "both", "ours"), lambda _: None)
    times = [row[name]["completion_s"] for name in ("ours", "both", "token_budget", "baseline")]
    assert times == sorted(times)
    assert row["ours"]["idle_s"] < row["both"]["idle_s"] < row["baseline"]["idle_s"]
    assert summary([row], "both")["mean_speedup"] == pytest.approx(times[3] / times[1])
    assert set(fidelity([row])) == {"baseline", "token_budget", "both"}


def test_a_workload_that_was_not_published_has_no_fidelity():
    (row,) = run_offline(PROFILE, [Workload(2, 16, 4)], ("baseline", "token_budget", "both"), lambda _: None)
    assert row["published"] is None
    assert fidelity([row]) == {}


def test_figures_of_a_run_add_up():
    row = figures(run_workload(Workload(3, 20, 5), "ours", PROFILE))
    assert row["processing_s"] + row["idle_s"] == pytest.approx(row["completion_s"])
