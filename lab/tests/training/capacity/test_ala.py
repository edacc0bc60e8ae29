# SPDX-License-Identifier: Apache-2.0
"""ALA: each algorithm does what the paper prints."""

import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.training.capacity.builders import BATCHES, DEVICES, LENGTHS, measurement, small_table
from llm_planner.prediction.throughput.table import Combination, Workload
from llm_planner_lab.training.capacity.ala.exponential import ExponentialLaw

pytest.importorskip("xgboost")
from llm_planner_lab.training.capacity.ala.annealing import Annealing, SubsetEvaluator, anneal
from llm_planner_lab.training.capacity.ala.combinations import train_combination, train_combinations
from llm_planner_lab.training.capacity.ala.database import build_exponential_database, fit_law, to_rows
from llm_planner_lab.training.capacity.ala.error import Encoding, train_error_predictor
from llm_planner_lab.training.capacity.ala.model import fit_ala, read_ala, write_ala
from llm_planner_lab.training.capacity.ala.parameters import features, train_parameters

ONE = Combination("Nvidia A100 GPU", 1, "vLLM", "meta-llama/Llama-2-7b-hf")
POINTS = [Workload(length, length, batch) for length in LENGTHS for batch in BATCHES]


@given(st.floats(50, 5000), st.floats(0.005, 0.2), st.floats(1.05, 20))
@settings(max_examples=20, deadline=None)
def test_law_is_found_again(a, b, ratio):
    law = ExponentialLaw(a, b, a * ratio)
    points = [(batch, law.throughput(batch)) for batch in (1, 2, 8, 16, 32, 64)]
    found = fit_law(points)
    assert found is not None
    for batch, value in points:
        assert found.throughput(batch) == pytest.approx(value, rel=1e-3)


def test_one_point_stays_near_its_start_and_is_met():
    law = fit_law([(4, 50.0)])
    assert law.throughput(4) == pytest.approx(50.0, rel=1e-3)
    assert law.b < 0.01


def test_database_has_one_law_for_each_pair():
    laws = build_exponential_database(m for m in small_table() if m.combination == ONE)
    assert set(laws) == {(length, length) for length in LENGTHS}
    rows = to_rows(laws)
    assert rows.shape == (3, 5)
    assert rows[:, 0].tolist() == list(LENGTHS)


def test_features_are_those_of_algorithm_3():
    (row,) = features(np.array([[128.0, 64.0]]))
    expected = [128, 64, math.log(129), math.log(65), math.log(3), 128 / 65, 128 / 129]
    assert row.tolist() == pytest.approx(expected)


def test_no_parameters_no_model():
    assert train_parameters(np.empty((0, 5))) is None


def test_known_pairs_are_looked_up_and_others_extrapolated():
    model = train_combination([m for m in small_table() if m.combination == ONE])
    known = Workload(512, 512, 16)
    assert model.throughput(known) == pytest.approx(measurement(ONE, 512, 16).throughput_tokens_per_s, rel=0.1)
    assert model.laws[512, 512].throughput(16) == model.throughput(known)
    assert model.throughput(Workload(300, 300, 16)) > 0.0


def test_an_unseen_combination_is_answered_by_the_nearest():
    table = small_table()
    left_out = table[0].combination
    models = train_combinations(m for m in table if m.combination != left_out)
    assert all(c.model == left_out.model and c.hardware == left_out.hardware for c in models.nearest(left_out))
    assert models.throughput(left_out, Workload(128, 128, 16)) > 0.0


def test_annealing_is_repeatable_and_logs_every_subset():
    rows = [m for m in small_table() if m.combination.hardware == "Nvidia A100 GPU"]
    logs = [anneal(POINTS, SubsetEvaluator(rows), random.Random(3), Annealing(num_iterations=5)) for _ in range(2)]
    assert logs[0] == logs[1]
    assert len(logs[0]) == 5
    assert all(0 < len(step.subset) < len(POINTS) and step.error >= 0.0 for step in logs[0])


def test_annealing_accepts_worse_subsets_only_while_hot():
    errors = iter([0.1, 0.5, 0.05, *([0.9] * 20)])
    log = anneal(POINTS, lambda _: next(errors), random.Random(0), Annealing(num_iterations=22, temperature=1e-9))
    best = log[1].subset  # the one that was better; all later candidates modify it
    assert all(len(best ^ step.subset) <= 3 for step in log[2:])


def test_encoding_is_that_of_algorithm_7():
    encoding = Encoding.of(POINTS)
    subset = [Workload(128, 128, 1), Workload(2048, 2048, 64)]
    assert encoding.presence(subset).tolist() == [1, 0, 1, 1, 0, 0, 1, 1, 0, 1]


def test_confidence_falls_with_the_distance():
    log = anneal(POINTS, lambda subset: 1 / len(subset), random.Random(0), Annealing(num_iterations=10))
    predictor = train_error_predictor(log)
    _, same = predictor.predict(sorted(log[0].subset))
    _, far = predictor.predict([Workload(7, 7, 3)])
    assert same == pytest.approx(1.0)
    assert far < same
    assert far >= 0.5


def test_a_written_model_answers_as_before(tmp_path):
    rows = [m for m in small_table() if m.combination.hardware in list(DEVICES)[:2]]
    model = fit_ala(rows, 0, Annealing(num_iterations=4, most_combinations=3))
    path = tmp_path / "ala.json"
    write_ala(model, path)
    queries = [(m.combination, Workload(m.length_tokens, m.length_tokens, 8)) for m in rows[::7]]
    assert read_ala(json.loads(path.read_text())).estimates(queries) == model.estimates(queries)
