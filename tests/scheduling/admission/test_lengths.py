# SPDX-License-Identifier: Apache-2.0
"""What is learned of lengths, and the index that follows from it."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.scheduling.admission.gittins import gittins_index
from llm_planner.scheduling.admission.job import Job
from llm_planner.scheduling.admission.learned_lengths import LearnedLengths
from llm_planner.scheduling.admission.remaining import RemainingWork


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


def test_requests_of_one_kind_have_one_index_and_learning_changes_it():
    remaining = RemainingWork()
    assert remaining.kind(a_job(prompt=100), 17) == remaining.kind(a_job(prompt=101), 23)
    before = remaining.index(a_job(prompt=101), 16)
    assert before == remaining.index(a_job(prompt=100), 23)
    for number in range(30):
        remaining.note_ended(a_job(number), 20, [(a_job(99), 5)])
    assert remaining.index(a_job(), 16) > 5 * before  # all end at 20 tokens
    assert remaining.expected_tokens(a_job(), 0) < 60


def test_what_must_be_brought_back_makes_a_request_less_urgent():
    remaining = RemainingWork()
    here, away = (remaining.index(a_job(), 40, volume) for volume in (0.0, 10.0))
    assert 0.0 < away < here


def test_within_narrow_intervals_nothing_is_learned_and_nothing_forgotten():
    remaining = RemainingWork()
    narrow = a_job(lower=90, upper=110)
    before = remaining.index(narrow, 0)
    for number in range(30):
        remaining.note_ended(a_job(number), 20, [])
    assert remaining.index(narrow, 0) == before


@given(st.integers(1, 50), st.integers(0, 500), st.integers(0, 600), st.lists(st.integers(1, 500), max_size=30))
def test_every_index_is_positive_and_every_expected_length_ahead(lower, more, attained, ended):
    remaining, job = RemainingWork(), a_job(lower=lower, upper=lower + more)
    for number, tokens in enumerate(ended):
        remaining.note_ended(a_job(number), tokens, [(job, attained)])
    assert 0.0 < remaining.index(job, attained) < math.inf
    assert attained < remaining.expected_tokens(job, attained) <= max(attained + 1, lower + more + 1)
