# SPDX-License-Identifier: Apache-2.0
"""Execution times of an engine whose steps take exactly what a profile says, and of one that hesitates."""

from dataclasses import replace

import pytest

from llm_planner.prediction.prober import ROUNDS
from llm_planner.prediction.profile import find_profile
from llm_planner_lab.bench.timebill.ete import RUNS_PER_ROUND, Grid, measure_ete
from llm_planner_lab.simulation.backend import SimulatedBackend

TRUTH = find_profile("llama3-8b-rtx4090")
GRID = Grid(prompts=(64, 128, 256, 512, 1024), caches=(32, 128, 256, 512, 1024), batches=(1, 2), num_repeats=3)


class Hesitant(SimulatedBackend):
    """Every second step takes 20 % more."""

    is_late = False

    def execute(self, scheduled):
        output = super().execute(scheduled)
        if scheduled.num_scheduled_tokens:
            self.is_late = not self.is_late
        return replace(output, duration_s=output.duration_s * (1.2 if self.is_late else 1.0))


def errors_of(backend):
    return measure_ete(backend, "", GRID, lambda _what, _share: None)[1]


def test_decode_steps_of_an_exact_engine_are_predicted_exactly():
    errors = errors_of(SimulatedBackend(TRUTH, lambda _request_id: 1000))
    assert errors["decode_mape"] < 0.01
    assert errors["decode_run_mape"] < 0.01
    assert errors["decode_noise_floor"] < 0.01  # the cache grows by a token per step
    assert errors["num_steps"] == ROUNDS * (10 * RUNS_PER_ROUND * GRID.run_steps + 5 + len(GRID.evicted))


def test_steps_that_are_late_in_turns_cancel_out_in_runs():
    errors = errors_of(Hesitant(TRUTH, lambda _request_id: 1000))
    assert errors["decode_mape"] > 0.05
    assert errors["decode_run_mape"] < 0.02
    assert errors["decode_run_noise_floor"] < 0.01
    assert errors["noise_floor"] == max(errors["prefill_noise_floor"], errors["decode_noise_floor"])


@pytest.mark.parametrize("run_steps", [1, 5])
def test_a_run_has_as_many_steps_as_the_grid_says(run_steps):
    backend = SimulatedBackend(TRUTH, lambda _request_id: 1000)
    _, errors = measure_ete(backend, "", replace(GRID, run_steps=run_steps), lambda _what, _share: None)
    assert errors["run_steps"] == run_steps
    assert errors["num_steps"] == ROUNDS * (10 * RUNS_PER_ROUND * run_steps + 5 + len(GRID.evicted))
