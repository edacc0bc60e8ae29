"""How long the next step may take at most."""

from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.step import SchedulerOutput
from llm_planner.scheduling.step_bound import FIRST_STEP_S, StepBound


def step(*num_tokens):
    return SchedulerOutput(num_scheduled_tokens={f"r{i}": n for i, n in enumerate(num_tokens)})


def test_before_anything_was_seen_a_step_is_slow():
    assert StepBound().bound_s(step(1)) == FIRST_STEP_S
    assert StepBound().bound_s(step(1, 400)) > 2 * FIRST_STEP_S


def test_a_prompt_makes_only_the_steps_with_a_prompt_longer():
    bound = StepBound()
    bound.observe(step(1, 1), 0.01)
    bound.observe(step(1, 200), 0.21)
    assert bound.bound_s(step(1, 3)) == 0.01  # a few tokens at once are decoding
    assert abs(bound.bound_s(step(1, 100)) - 0.11) < 1e-9


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=50))
def test_no_step_is_longer_than_what_was_seen_of_late(durations_s):
    bound = StepBound()
    for duration_s in durations_s:
        bound.observe(step(1), duration_s)
        assert duration_s <= bound.bound_s(step(1)) <= max(durations_s)


def test_a_slow_step_is_forgotten():
    bound = StepBound()
    bound.observe(step(1), 1.0)
    for _ in range(200):
        bound.observe(step(1), 0.01)
    assert bound.bound_s(step(1)) < 0.02


def test_an_empty_step_teaches_nothing():
    bound = StepBound()
    bound.observe(step(), 9.0)
    assert bound.bound_s(step(1)) == FIRST_STEP_S
