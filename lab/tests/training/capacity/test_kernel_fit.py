# SPDX-License-Identifier: Apache-2.0
"""The default model: it recovers a known law, knows what it does not know, and its file says the same."""

import statistics

import numpy as np
import pytest

from lab.tests.training.capacity.builders import small_table
from llm_planner.core.errors import PlannerError
from llm_planner.prediction.throughput.model_file import load_kernel_model, write_kernel_model
from llm_planner.prediction.throughput.table import Combination, Workload
from llm_planner_lab.training.capacity.evaluate import absolute_error, evaluate
from llm_planner_lab.training.capacity.hyperparameters import STARTS, _Objective, _pack
from llm_planner_lab.training.capacity.kernel_fit import fit_kernel_model
from llm_planner_lab.training.capacity.methods import fit_model, load_model
from llm_planner_lab.training.capacity.splits import large_batches, left_out_combinations, left_out_model, random_rows


@pytest.fixture(scope="module")
def table():
    return small_table()


@pytest.fixture(scope="module")
def by_rows(table):
    split = random_rows(table, 0)
    return split, fit_kernel_model(split.train)


def test_rows_of_seen_combinations_are_predicted_within_the_noise(by_rows):
    split, model = by_rows
    document = evaluate(model, split.test)
    assert document["median_ape"] < 0.02
    assert document["n"] == len(split.test) == sum(group["n"] for group in document["groups"])
    assert 0.75 <= document["coverage_90"] <= 1.0


def test_unseen_combinations_are_predicted_from_what_they_have_in_common(table):
    split = left_out_combinations(table, 0)[0]
    model = fit_kernel_model(split.train)
    estimates = model.estimates([(m.combination, m.workload) for m in split.test])
    errors = [absolute_error(e.tokens_per_s, m) for e, m in zip(estimates, split.test, strict=True)]
    assert statistics.median(errors) < 0.06
    assert not any(e.is_seen for e in estimates)


def test_what_was_never_seen_is_answered_with_less_confidence(by_rows):
    split, model = by_rows
    seen = model.estimate(split.train[0].combination, split.train[0].workload)
    known = split.train[0].combination
    new_device = model.estimate(Combination("Another device", 1, *known[2:]), split.train[0].workload)
    assert seen.is_seen
    assert not new_device.is_seen
    assert new_device.confidence < 0.5 < seen.confidence
    assert new_device.predicted_error > 3 * seen.predicted_error
    assert new_device.low_tokens_per_s < new_device.tokens_per_s < new_device.high_tokens_per_s


def test_unequal_lengths_are_trusted_less(by_rows):
    split, model = by_rows
    combination = split.train[0].combination
    equal = model.estimate(combination, Workload(512, 512, 16))
    unequal = model.estimate(combination, Workload(700, 136, 16))  # the same mean context
    assert unequal.predicted_error > equal.predicted_error


def test_a_file_says_the_same(by_rows, tmp_path):
    split, model = by_rows
    path = tmp_path / "model.json"
    write_kernel_model(model, split.train, path)
    loaded = load_kernel_model(path)
    for m in split.test[:10]:
        one, other = model.estimate(m.combination, m.workload), loaded.estimate(m.combination, m.workload)
        assert one.tokens_per_s == pytest.approx(other.tokens_per_s, rel=1e-4)
        assert one.high_tokens_per_s == pytest.approx(other.high_tokens_per_s, rel=1e-3)


def test_the_same_seed_gives_the_same_model(by_rows):
    split, model = by_rows
    again = fit_kernel_model(split.train)
    m = split.test[0]
    assert again.estimate(m.combination, m.workload) == model.estimate(m.combination, m.workload)


def test_gradient_is_that_of_the_likelihood(by_rows):
    _, model = by_rows
    rows = np.arange(0, 170, 5)
    y = np.linspace(5.0, 9.0, len(rows))
    start = _pack(np.array([s.amplitude for s in STARTS]), np.array([s.weights() for s in STARTS]), np.array([0.02]))
    objective = _Objective(model.posterior.points[rows], y, start)
    _, gradient = objective(start + 0.1)
    for index in (0, 3, 8, 40, len(start) - 1):
        step = np.zeros_like(start)
        step[index] = 1e-3
        slope = (objective(start + 0.1 + step)[0] - objective(start + 0.1 - step)[0]) / 2e-3
        assert gradient[index] == pytest.approx(slope, rel=2e-2, abs=1e-3)


def test_too_little_is_refused(table):
    with pytest.raises(PlannerError, match="batch size 16 only"):
        fit_model("kernel", [m for m in table if m.batch_size == 16])
    with pytest.raises(PlannerError, match="rows"):
        fit_model("kernel", table[:20])
    with pytest.raises(PlannerError, match="known are kernel, ala"):
        fit_model("neural", table)


def test_splits_leave_out_what_they_say(table):
    for split in left_out_combinations(table, 0):
        assert not {m.combination for m in split.train} & {m.combination for m in split.test}
        assert len(split.train) + len(split.test) == len(table)
    rows = random_rows(table, 1)
    assert {m.combination for m in rows.test} <= {m.combination for m in rows.train}
    assert max(m.batch_size for m in large_batches(table).train) == 32
    assert {m.combination.model for m in left_out_model(table, "mistralai/Mistral-7B-v0.1").test} == {
        "mistralai/Mistral-7B-v0.1"
    }


def test_shipped_model_loads_and_knows_its_table():
    model = load_model()
    estimate = model.estimates(
        [(Combination("Nvidia H100 GPU", 1, "vLLM", "meta-llama/Meta-Llama-3-8B"), Workload(512, 512, 32))]
    )[0]
    assert estimate.is_seen
    assert estimate.confidence > 0.9


@pytest.mark.parametrize("text", ["", "{}", '{"format": "x"}', "[1, 2"])
def test_damaged_models_are_refused(tmp_path, text):
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(PlannerError, match="llm-planner capacity fit"):
        load_model(path)
