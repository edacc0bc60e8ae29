# SPDX-License-Identifier: Apache-2.0
import math
import statistics

import pytest

from llm_planner_lab.bench.pipeline import lengths
from llm_planner_lab.bench.pipeline.lengths import EXPLAINED, KNOWN, Belief, drawn, run_lengths
from llm_planner_lab.bench.pipeline.published import Workload
from llm_planner_lab.simulation.pipeline.profile import DEFAULT_PIPELINE, find_pipeline

PROFILE = find_pipeline(DEFAULT_PIPELINE)


def test_what_is_left_is_the_mean_of_those_that_are_not_shorter():
    belief = Belief(math.log(100.0), 0.5)
    lengths_drawn = [
        math.exp(statistics.NormalDist(math.log(100.0), 0.5).inv_cdf((i + 0.5) / 20_000)) for i in range(20_000)
    ]
    for num_tokens in (0, 50, 200):
        longer = [length for length in lengths_drawn if length > num_tokens]
        assert belief.num_left(num_tokens) == pytest.approx(statistics.fmean(longer) - num_tokens, abs=1.0)
    assert belief.num_left(10_000) == 1


def test_predictions_explain_what_those_of_the_bundled_predictor_do():
    requests, beliefs = drawn(Workload(20_000, 256, 256), 0.5, seed=3)
    said = [beliefs[r.request_id].mu for r in requests]
    came = [math.log(r.num_output_tokens) for r in requests]
    assert statistics.correlation(said, came) ** 2 == pytest.approx(EXPLAINED, abs=0.02)
    assert statistics.fmean(r.num_output_tokens for r in requests) == pytest.approx(256, rel=0.02)


def test_where_memory_binds_knowing_lengths_saves_preemptions(monkeypatch):
    monkeypatch.setattr(lengths, "CASES", ((Workload(48, 128, 192), 0.25),))
    monkeypatch.setattr(lengths, "SKEWS", (0.5,))
    (row,) = run_lengths(PROFILE, 1, lambda _: None)
    assert set(KNOWN) < set(row)
    assert row["nothing"]["relative"] == 1.0
    assert row["exact"]["num_preemptions"] < row["nothing"]["num_preemptions"]


def test_where_memory_does_not_bind_nothing_changes(monkeypatch):
    monkeypatch.setattr(lengths, "CASES", ((Workload(24, 64, 24), 1.0),))
    monkeypatch.setattr(lengths, "SKEWS", (0.5,))
    (row,) = run_lengths(PROFILE, 1, lambda _: None)
    assert {row[known]["relative"] for known in KNOWN if known != "leaving"} == {1.0}
    assert row["nothing"]["num_preemptions"] == 0
