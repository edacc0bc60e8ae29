# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from llm_planner_lab.simulation.pipeline.kv_peak import peak_kv_tokens

residents_ = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 100)), max_size=6)


def step_by_step(residents, horizon):
    """Each sequence brings one token per step; one that has brought all of them leaves."""
    return max(sum(kv + step for left, kv in residents if left >= step) for step in range(horizon + 1))


def test_two_together_need_most_before_the_first_one_leaves():
    assert peak_kv_tokens([(10, 100), (30, 50)]) == 170


def test_what_comes_after_the_horizon_does_not_count():
    assert peak_kv_tokens([(1000, 100)], horizon_tokens=50) == 150


@given(residents_, st.integers(0, 60))
def test_it_is_the_peak_of_what_happens(residents, horizon):
    assert peak_kv_tokens(residents, horizon) == step_by_step(residents, horizon)
