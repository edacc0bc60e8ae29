# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.scheduling.engine_price import MEMORY_S, MOST_LOAD, EnginePrice


def priced(busy_share, delay_cost=2.0, period_s=0.02):
    """Returns the price of an engine that has been busy this share of the time, for a minute."""
    price = EnginePrice()
    price.note(0.0, was_busy=False)
    for number in range(int(60.0 / period_s)):
        price.note((number + busy_share) * period_s, was_busy=True)
        price.note((number + 1) * period_s, was_busy=False)
        price.observe(delay_cost)
    return price


def test_nothing_is_priced_before_anything_is_known():
    assert EnginePrice().per_s(16) == 0.0


@pytest.mark.parametrize("busy_share", [0.2, 0.5, 0.8])
def test_those_that_come_in_a_busy_period_pay(busy_share):
    expected = 2.0 * 3 * busy_share / (1.0 - busy_share)
    assert priced(busy_share).per_s(3) == pytest.approx(expected, rel=0.02)


def test_an_engine_that_is_never_idle_has_a_price_all_the_same():
    assert priced(1.0).per_s(1) == pytest.approx(2.0 * MOST_LOAD / (1.0 - MOST_LOAD), rel=0.01)


def test_it_is_cheap_where_answers_have_time():
    assert priced(0.8, delay_cost=0.0).per_s(16) == 0.0


def test_the_load_is_forgotten():
    price = priced(0.8)
    before = price.per_s(1)
    price.note(60.0 + 5 * MEMORY_S, was_busy=False)
    assert price.per_s(1) < 0.02 * before


@given(
    st.lists(st.tuples(st.floats(-1.0, 10.0), st.booleans(), st.floats(0.0, 100.0)), max_size=50), st.integers(0, 100)
)
def test_it_is_finite_and_never_negative_whatever_the_clock_does(notes, num_seqs):
    price, now_s = EnginePrice(), 0.0
    for elapsed_s, was_busy, delay_cost in notes:
        now_s += elapsed_s
        price.note(now_s, was_busy=was_busy)
        price.observe(delay_cost)
    assert 0.0 <= price.per_s(num_seqs) <= 100.0 * num_seqs * MOST_LOAD / (1.0 - MOST_LOAD) * 1.001
