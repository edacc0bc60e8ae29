# SPDX-License-Identifier: Apache-2.0
"""Intervals of means and shares, against tables of Student's t and the formula of Wilson."""

import math

import pytest

from llm_planner_lab.bench.intervals import interval95, mean_and_ci95, t_975, wilson


@pytest.mark.parametrize(("degrees", "quantile"), [(1, 12.706), (2, 4.303), (15, 2.131), (16, 2.120), (99, 1.984)])
def test_the_quantiles_are_those_of_the_tables(degrees, quantile):
    assert t_975(degrees) == pytest.approx(quantile, abs=5e-4)


def test_means_and_their_intervals():
    assert interval95([1.0]) is None
    assert interval95([1.0, 2.0, 3.0]) == pytest.approx(4.303 / math.sqrt(3), rel=1e-3)
    assert mean_and_ci95([]) == (None, None)
    assert mean_and_ci95([0.5]) == (0.5, None)
    mean, ci95 = mean_and_ci95([0.0, 1.0] * 50)
    assert mean == 0.5
    assert ci95 == pytest.approx(1.984 * 0.5025 / 10, rel=1e-3)


def test_a_share_that_is_always_the_same_is_not_certain():
    low, high = wilson(48, 48)
    assert (low, high) == (pytest.approx(48 / (48 + 1.96**2), rel=1e-3), 1.0)
    assert wilson(0, 48) == (pytest.approx(0.0, abs=1e-12), pytest.approx(1.0 - low))
