# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from llm_planner_lab.bench.pipeline.fit import DATA_SHEET, Physical, baseline_errors, fit, loss, write_fitted
from llm_planner_lab.bench.pipeline.published import Workload
from llm_planner_lab.simulation.pipeline.profile import DEFAULT_PIPELINE, find_pipeline

PROFILE = find_pipeline(DEFAULT_PIPELINE)
SMALL = (Workload(64, 256, 256),)


def test_the_data_sheet_makes_a_profile():
    profile = DATA_SHEET.into(PROFILE)
    assert profile.num_kv_tokens > 15_000
    assert Physical.of(profile).layer_s == pytest.approx(DATA_SHEET.layer_s, rel=1e-3)


def test_a_fit_comes_nearer_and_no_link_exceeds_what_it_is_said_to_carry():
    start = replace(Physical.of(PROFILE), layer_s=4e-3)
    before = loss(baseline_errors(start.into(PROFILE), SMALL))
    numbers, report = fit(PROFILE, start, 8, SMALL)
    assert report["loss"] < before
    assert numbers.bytes_per_s <= DATA_SHEET.bytes_per_s * (1 + 1e-9)
    assert [row["name"] for row in report["baseline_errors"]] == ["64/256/256"]


def test_what_was_fitted_can_be_loaded(tmp_path):
    write_fitted(DATA_SHEET.into(PROFILE), tmp_path / "profile.yaml")
    assert find_pipeline(str(tmp_path / "profile.yaml")).num_kv_tokens == DATA_SHEET.into(PROFILE).num_kv_tokens


def test_a_completion_that_is_far_off_costs_most():
    assert loss([(0.15, 0.0)]) > 2 * loss([(0.07, 0.0)])
