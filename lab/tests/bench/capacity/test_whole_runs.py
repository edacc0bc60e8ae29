# SPDX-License-Identifier: Apache-2.0
"""Whole runs of a simulated engine take what its profile says, and make a table that can be read."""

import random

import pytest

from llm_planner.prediction.profile import Chunk, find_profile
from llm_planner.prediction.throughput.table import read_table, write_table
from llm_planner_lab.bench.capacity.whole_runs import measure_runs, run_s
from llm_planner_lab.simulation.backend import SimulatedBackend

TRUTH = find_profile("llama3-8b-rtx4090")


def backend(num_tokens=10_000):
    return SimulatedBackend(TRUTH, lambda _request_id: num_tokens)


def expected_s(length, batch):
    prompts = TRUTH.step_s([Chunk(length, 0)] * batch)
    return prompts + sum(TRUTH.step_s([Chunk(1, length + n)] * batch) for n in range(length - 1))


@pytest.mark.parametrize(("length", "batch"), [(32, 1), (32, 4), (64, 3)])
def test_a_run_is_its_prompts_and_its_steps(length, batch):
    assert run_s(backend(), length, batch, random.Random(0)) == pytest.approx(expected_s(length, batch), rel=1e-6)


def test_sequences_that_end_early_are_replaced_and_their_prompts_not_counted():
    assert run_s(backend(num_tokens=10), 32, 2, random.Random(0)) == pytest.approx(expected_s(32, 2), rel=0.1)


def test_runs_make_a_table(tmp_path):
    runs = measure_runs(backend(), lengths=(32, 64), batch_sizes=(1, 4))
    assert [(m.length_tokens, m.batch_size) for m in runs] == [(32, 1), (32, 4), (64, 1), (64, 4)]
    path = tmp_path / "mine.csv"
    write_table(runs, path)
    assert [m.workload for m in read_table(path)] == [m.workload for m in runs]
    assert all(m.num_concurrent == m.batch_size for m in runs)


def test_what_does_not_fit_is_left_out():
    assert not measure_runs(backend(), lengths=(32, TRUTH.max_model_len), batch_sizes=(1,))[1:]
