# SPDX-License-Identifier: Apache-2.0
"""Rates between two readings of a loop's counters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.serving.meter import Totals, rates

COUNT = st.integers(0, 10**9)
SECONDS = st.floats(0.0, 1e6)
TOTALS = st.builds(
    Totals,
    num_steps=COUNT,
    num_computed_tokens=COUNT,
    num_output_tokens=COUNT,
    busy_s=SECONDS,
    num_decisions=COUNT,
    decision_s=SECONDS,
)


def test_rates_are_differences_over_time():
    before = Totals(num_steps=10, num_computed_tokens=500, num_output_tokens=90, busy_s=1.0, num_decisions=10)
    after = Totals(
        num_steps=20, num_computed_tokens=700, num_output_tokens=150, busy_s=1.2, num_decisions=14, decision_s=0.002
    )
    measured = rates(before, after, 0.5)
    assert measured is not None
    assert (measured.tokens_per_s, measured.computed_tokens_per_s, measured.steps_per_s) == (120.0, 400.0, 20.0)
    assert (measured.busy_share, measured.decision_s) == pytest.approx((0.4, 0.0005))


@given(TOTALS)
def test_nothing_happened(totals):
    measured = rates(totals, totals, 1.0)
    assert measured is not None
    assert (measured.tokens_per_s, measured.busy_share, measured.decision_s) == (0.0, 0.0, None)
    assert rates(totals, totals, 0.0) is None


def test_a_loop_that_restarted_has_no_rate_yet():
    assert rates(Totals(num_steps=9, num_decisions=9), Totals(num_steps=1, num_decisions=1), 1.0) is None
    assert rates(Totals(num_output_tokens=9), Totals(num_steps=3, num_output_tokens=1), 1.0) is None
