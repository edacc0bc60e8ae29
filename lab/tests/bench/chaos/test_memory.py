# SPDX-License-Identifier: Apache-2.0
"""The slope of memory, and how sure it is."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner_lab.bench.chaos.memory import NUM_BATCHES, growth


def samples(mb_per_h, noise_mb=0.0, seconds=3600, seed=0):
    rng = random.Random(seed)
    return [(float(s), 100.0 + mb_per_h * s / 3600 + rng.gauss(0.0, noise_mb)) for s in range(0, seconds, 2)]


@given(st.floats(-50.0, 50.0))
def test_a_straight_line_is_found(mb_per_h):
    found = growth(samples(mb_per_h))
    assert found.mb_per_h == pytest.approx(mb_per_h, abs=1e-6)
    assert found.interval_mb_per_h == pytest.approx(0.0, abs=1e-6)


def test_noise_is_no_growth_and_growth_is_found_in_noise():
    inside = 0
    for seed in range(100):
        flat, rising = growth(samples(0.0, 1.0, seed=seed)), growth(samples(5.0, 1.0, seed=seed))
        assert not flat.is_growing
        assert rising.is_growing
        inside += abs(rising.mb_per_h - 5.0) <= rising.interval_mb_per_h
    assert inside >= 88  # of 100, by a 95 % interval


@pytest.mark.parametrize("at_share", [0.45, 0.5, 0.513])
def test_one_step_is_told_from_a_leak_and_counts_as_growth_all_the_same(at_share):
    step = growth([(s, mb + 2.0 * (s >= at_share * 3600)) for s, mb in samples(0.0)])
    leak = growth(samples(2.0))
    assert step.is_growing
    assert leak.is_growing
    assert step.step_mb == pytest.approx(2.0)
    assert leak.step_mb == pytest.approx(0.2)


def test_too_little_is_nothing():
    assert growth([]) is None
    assert growth(samples(1.0)[: 2 * NUM_BATCHES - 1]) is None
