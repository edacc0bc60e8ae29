"""What the scheduler learns of its engine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.scheduling.pace import GenerationPace, SmoothedBound


def test_a_steady_quantity_is_learned():
    bound = SmoothedBound(9.0)
    assert bound.bound == 9.0
    for _ in range(100):
        bound.observe(2.0)
    assert bound.bound == pytest.approx(2.0)


@given(st.lists(st.floats(0.0, 100.0), min_size=1))
def test_the_bound_is_never_below_the_least(values):
    bound = SmoothedBound(0.0)
    for value in values:
        bound.observe(value)
    assert bound.bound >= min(values) - 1e-9


def test_noise_keeps_a_margin():
    bound = SmoothedBound(0.0)
    for i in range(200):
        bound.observe(1.0 if i % 2 else 3.0)
    assert 3.0 < bound.bound < 5.0


def test_a_segment_takes_steps_times_tokens():
    pace = GenerationPace()
    for _ in range(100):
        pace.observe_step(0.01)
        pace.observe_segment(20)
    assert pace.segment_time_s == pytest.approx(0.2)
