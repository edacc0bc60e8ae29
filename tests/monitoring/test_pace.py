# SPDX-License-Identifier: Apache-2.0
"""Rates of an engine from the views of it, whatever becomes of it meanwhile."""

from dataclasses import replace

import pytest

from llm_planner.monitoring.pace import RATES_OVER_S, Pace
from llm_planner.serving.meter import Totals
from tests.cli.test_top_screen import make_view


def seen(at_s, num_output_tokens):
    return replace(make_view().loop, at_s=at_s, totals=Totals(num_output_tokens=num_output_tokens))


@pytest.fixture
def pace():
    """Of an engine that writes 100 tokens a second."""
    pace = Pace()
    for number in range(41):
        pace.take(seen(100.0 + 0.25 * number, 25 * number))
    assert pace.rates.tokens_per_s == 100.0
    return pace


def test_rates_are_of_the_last_seconds(pace):
    for number in range(1, 9):
        pace.take(seen(110.0 + 0.25 * number, 1000))
    assert pace.rates.tokens_per_s == 0.0
    assert len(pace._loops) <= RATES_OVER_S / 0.25 + 1


@pytest.mark.parametrize("began", [seen(5.0, 2000), seen(120.0, 0)], ids=["its clock is behind", "its counters are"])
def test_another_engine_has_rates_from_its_second_view_on(pace, began):
    pace.take(began)
    assert pace.rates is None
    pace.take(seen(began.at_s + 1.0, began.totals.num_output_tokens + 50))
    assert pace.rates.tokens_per_s == 50.0


def test_while_there_is_no_engine_there_is_no_rate(pace):
    pace.take(None)
    assert pace.rates is None


def test_an_engine_that_does_not_answer_takes_no_memory(pace):
    for _ in range(100):
        pace.take(seen(110.0, 1000))
    assert len(pace._loops) < 12
    assert pace.rates.tokens_per_s == 100.0
