# SPDX-License-Identifier: Apache-2.0
"""Execution times of an engine whose steps take exactly what a profile says, and of one that hesitates."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from llm_planner.core.step import Sequence
from llm_planner.prediction.length import LengthDistribution
from llm_planner.prediction.prober import ROUNDS
from llm_planner.prediction.profile import Chunk, find_profile
from llm_planner_lab.bench.timebill.ete import RUNS_PER_ROUND, Grid, measure_end_to_end, measure_ete
from llm_planner_lab.bench.timebill.replay import MeasuredStep
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


class SlowedLab:
    """Responses of 40 tokens on a machine that is ``slowdown`` times as slow as it was profiled."""

    max_tokens = 64
    profile = TRUTH

    def __init__(self, slowdown):
        self.slowdown = slowdown
        self.jobs = [SimpleNamespace(name=f"{number}") for number in range(30)]
        self.engine = SimpleNamespace(reference_s=lambda _sequence, _evicted: 0.02 * slowdown)

    def prepared(self, name, *, by_need):
        sequence = Sequence(request_id=name, prompt_token_ids=tuple(range(512)), evictable=((64, 480),))
        return SimpleNamespace(sequence=sequence), LengthDistribution.from_buckets([1.0], 40)

    def response(self, job, evicted=(0, 0)):
        chunks = [Chunk(512, 0), *(Chunk(1, 512 + number - evicted[1]) for number in range(39))]
        return [MeasuredStep((7,), (), None, self.slowdown * TRUTH.step_s([chunk])) for chunk in chunks]

    def served(self, job, response):
        return [] if job.name == "0" else response[:5]


def test_what_service_ends_before_or_never_starts_is_held_against_its_worst_case_as_it_is():
    found = measure_end_to_end(SlowedLab(50.0), reference_s=0.0)
    assert found["num_served"] == found["n"] - 5  # one job, without eviction and at four ratios
    assert found["wcet_share_planner"] < found["wcet_share_served"] <= 1.0


def test_a_machine_that_is_slower_by_now_is_told_from_a_profile_that_is_wrong():
    found = measure_end_to_end(SlowedLab(1.5), reference_s=0.02)
    assert found["mape"] == pytest.approx(1 / 3, abs=0.03)
    assert found["mape_steady"] < 0.03
    assert found["mape_corrected"] < 0.05  # the first response finds the correction untaught
    assert measure_end_to_end(SlowedLab(1.0), reference_s=0.02)["mape_corrected"] < 0.03


def test_without_a_reference_nothing_is_divided():
    found = measure_end_to_end(SlowedLab(1.5), reference_s=0.0)
    assert found["mape_steady"] == found["mape"]
