# SPDX-License-Identifier: Apache-2.0
"""What is learned of lengths, the index that follows from it, and the policy that uses both."""

import random

import numpy as np
import pytest

from llm_planner.prediction.length import LengthInterval
from llm_planner.scheduling.admission import make_admission
from llm_planner.scheduling.admission.gittins import gittins_index
from llm_planner.scheduling.admission.interface import Job
from llm_planner.scheduling.admission.learned_lengths import LearnedLengths
from llm_planner_lab.simulation.admission.jobs import TrueJob
from llm_planner_lab.simulation.admission.run import AdmissionRun
from llm_planner_lab.simulation.admission.step_time import UnitSteps


def a_job(job_id=0, prompt=100, lower=1, upper=1000):
    return Job(job_id=job_id, prompt_tokens=prompt, lower_tokens=lower, upper_tokens=upper)


def learned(outputs, prompt=100, running=()):
    lengths = LearnedLengths()
    row = lengths.row(a_job(prompt=prompt))
    attained = np.array([*outputs, *running], float)
    is_done = np.arange(len(attained)) < len(outputs)
    lengths.fit(np.full(len(attained), row), attained, is_done)
    return lengths, row


def survival_at(lengths, row, tokens):
    return float(np.interp(tokens, lengths.edges[row], lengths.survival[row]))


def index(lengths, rows, prompts, attained, entry=0.0):
    arrays = (np.array(values, float) for values in (prompts, attained, np.full(len(rows), entry)))
    return gittins_index(lengths, np.array(rows), *arrays)


def test_before_anything_ended_lengths_in_proportion_are_as_probable():
    lengths = LearnedLengths()
    row = lengths.row(a_job())
    lengths.extend()
    assert survival_at(lengths, row, lengths.edges[row][16]) == pytest.approx(0.5)  # half of the doublings
    assert lengths.survival[row][0] == 1.0
    assert lengths.survival[row][-1] == 0.0


def test_the_distribution_is_found():
    rng = random.Random(0)
    lengths, row = learned([rng.randint(101, 200) for _ in range(500)])
    assert survival_at(lengths, row, 90) > 0.95
    assert survival_at(lengths, row, 150) == pytest.approx(0.5, abs=0.06)
    assert survival_at(lengths, row, 230) < 0.05


def test_who_still_runs_counts_as_longer():
    only_ended, row = learned([10] * 20)
    with_running, _ = learned([10] * 20, running=[300] * 20)
    assert survival_at(with_running, row, 50) > survival_at(only_ended, row, 50) + 0.3


def test_prompts_of_other_sizes_learn_less_than_their_own():
    lengths = LearnedLengths()
    small, large = lengths.row(a_job(prompt=50)), lengths.row(a_job(prompt=900))
    assert small != large
    lengths.fit(np.full(60, small), np.full(60, 400.0), np.full(60, True))
    lengths.fit(np.repeat([small, large], 60), np.repeat([400.0, 10.0], 60), np.full(120, True))
    assert survival_at(lengths, small, 100) > 0.9
    assert survival_at(lengths, large, 100) < 0.2


def test_with_known_lengths_the_index_is_one_over_the_volume_that_is_left():
    lengths = LearnedLengths()
    row = lengths.row(a_job(lower=20, upper=20))
    lengths.extend()
    volume = 100 * 19.5 + 19.5**2 / 2
    assert index(lengths, [row], [100], [0])[0] == pytest.approx(1 / volume, rel=0.03)
    left = index(lengths, [row], [100], [10])[0]
    assert left == pytest.approx(1 / (100 * 9.5 + (19.5**2 - 10**2) / 2), rel=0.05)
    assert index(lengths, [row], [100], [10], entry=1000.0)[0] < left


def test_a_larger_prompt_and_a_longer_life_so_far_make_a_job_less_urgent():
    lengths = LearnedLengths()
    row = lengths.row(a_job())
    lengths.extend()
    indices = index(lengths, [row] * 3, [100, 400, 100], [0, 0, 500])
    assert indices[0] > indices[1]
    assert indices[0] > indices[2]


def run(jobs, intervals, capacity):
    policy = make_admission("ours", capacity, random.Random(0))
    return AdmissionRun(jobs, intervals, policy, capacity, UnitSteps()).run()


def test_a_preempted_job_loses_no_token_but_pays_for_the_bus():
    jobs = [TrueJob(prompt_tokens=10, output_tokens=60) for _ in range(4)]
    result = run(jobs, [LengthInterval(1, 1000)] * 4, 120)
    assert result.cancellations == 0
    assert result.suspensions > 0
    assert result.moved_tokens > 0
    assert result.overflows == 0
    assert result.end_s > result.num_steps
    assert result.num_steps < 4 * 60  # in turns, but nothing twice


def test_short_prompts_go_first_when_nothing_else_is_known():
    jobs = [TrueJob(prompt_tokens=prompt, output_tokens=5) for prompt in (90, 20, 20, 20, 20)]
    result = run(jobs, [LengthInterval(5, 5)] * 5, 100)
    assert max(result.latencies_s[1:]) < result.latencies_s[0]
