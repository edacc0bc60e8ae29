# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from llm_planner.scheduling.budget import (
    Lengths,
    Setup,
    alpha_star,
    decode_phase_s,
    execution_s,
    removal_needed,
    tokens_within,
)
from tests.scheduling.budget_builders import LinearTime, companies, make_task, tasks, times


@given(tasks, companies, times, st.integers(1, 300))
def test_the_decode_phase_is_the_sum_of_its_steps(task, co_batch, time, num_tokens):
    setup, num_seqs = Setup(co_batch=co_batch), co_batch.num_seqs + 1
    line = time.decode_line(num_seqs)
    kv_tokens = task.num_prefilled_tokens + co_batch.kv_tokens
    steps_s = [line.q_s + line.p_s * (kv_tokens + num_seqs * i) for i in range(num_tokens - 1)]
    assert decode_phase_s(task, num_tokens, setup, time) == pytest.approx(sum(steps_s))


def test_the_worst_case_multiplies_the_expected_length_and_stops_at_the_limit():
    assert make_task(lengths=Lengths(expected=20.3), max_tokens=512).pessimistic_tokens(5.0) == 102
    assert make_task(lengths=Lengths(expected=20.3), max_tokens=64).pessimistic_tokens(5.0) == 64
    assert make_task(lengths=Lengths(expected=1e300), max_tokens=64).pessimistic_tokens(5.0) == 64


def test_the_worst_case_is_the_upper_bound_of_the_length_where_one_is_known_whatever_k_says():
    assert make_task(lengths=Lengths(expected=20.3, upper=40), max_tokens=64).pessimistic_tokens(5.0) == 40
    assert make_task(lengths=Lengths(expected=4.0, upper=40), max_tokens=64).pessimistic_tokens(5.0) == 40
    assert make_task(lengths=Lengths(expected=4.0, upper=80), max_tokens=64).pessimistic_tokens(5.0) == 64


def test_no_prediction_bounds_a_plan_once_kv_is_gone():
    lengths = Lengths(expected=4.0, upper=40)
    assert make_task(lengths=lengths, max_tokens=64, is_evicted=True).pessimistic_tokens(5.0) == 64


@given(tasks, times, st.floats(0.001, 100.0), st.floats(1.0, 8.0))
def test_alpha_star_is_clipped_and_never_rises_with_the_budget(task, time, budget_s, k):
    alpha = alpha_star(budget_s, task, time, k=k)
    assert 0.0 <= alpha <= 0.95
    assert alpha_star(budget_s * 1.5, task, time, k=k) <= alpha


@given(tasks, times, st.floats(0.01, 0.94))
def test_alpha_star_uses_the_budget_up(task, time, alpha):
    """Eq. (10b) holds with equality at the ratio that Eq. (11) gives."""
    num_tokens = task.pessimistic_tokens()
    assume(num_tokens > 1 and time.p_s > 0)
    setup = Setup(num_removed_tokens=alpha * task.num_prefilled_tokens)
    budget_s = execution_s(task, num_tokens, setup, time)
    step_s = time.p_s * task.num_prefilled_tokens  # what eviction can shorten must not drown in rounding
    assume(step_s > 1e-6 * time.q_s)
    assume(budget_s < execution_s(task, num_tokens, Setup(), time) * (1 - 1e-9))  # else it takes longer than it saves
    assert alpha_star(budget_s, task, time) == pytest.approx(alpha, rel=1e-4)


def test_an_eviction_is_no_free_lunch():
    """What it takes itself is made up for by a larger one; one that takes longer than it saves is none."""
    free, slow = LinearTime(p_s=1e-5), LinearTime(p_s=1e-5, evicting_s=0.05)
    task = make_task(kv_len=0, num_uncomputed_tokens=1000)
    whole_s = execution_s(task, task.pessimistic_tokens(), Setup(), free)
    assert alpha_star(whole_s + 1e-9, task, slow) == 0.0
    assert 0 < alpha_star(whole_s - 0.2, task, free) < alpha_star(whole_s - 0.2, task, slow) < 0.95
    one = Setup(num_removed_tokens=1)
    assert execution_s(task, 100, one, slow) == pytest.approx(execution_s(task, 100, one, free) + 0.05)


def test_alpha_star_where_eviction_shortens_nothing():
    task, time = make_task(lengths=Lengths(expected=10)), LinearTime(p_s=0.0, q_s=0.01)
    assert alpha_star(10.0, task, time) == 0.0
    assert alpha_star(0.2, task, time) == 0.95


@given(tasks, companies, times, st.integers(2, 300), st.floats(0.0, 50.0))
def test_so_much_removal_is_enough_and_no_less(task, co_batch, time, num_tokens, left_s):
    needed = removal_needed(left_s, task, num_tokens, Setup(co_batch=co_batch), time)
    if needed == float("inf"):
        assert time.p_s == 0
    elif needed <= task.num_prefilled_tokens:
        setup = Setup(co_batch=co_batch, num_removed_tokens=needed)
        taken_s = decode_phase_s(task, num_tokens, setup, time)
        assert taken_s <= left_s * (1 + 1e-9) + 1e-9
        assert needed == 0 or taken_s == pytest.approx(left_s, rel=1e-6, abs=1e-9)


@given(tasks, companies, times, st.floats(0.0, 50.0))
def test_tokens_within_a_time_fit_and_one_more_does_not(task, co_batch, time, left_s):
    setup = Setup(co_batch=co_batch)
    num_tokens = tokens_within(left_s, task, setup, time)
    assert 1 <= num_tokens <= task.max_tokens
    assert decode_phase_s(task, num_tokens, setup, time) <= left_s
    if num_tokens < task.max_tokens:
        assert decode_phase_s(task, num_tokens + 1, setup, time) > left_s * (1 - 1e-9)
    assert tokens_within(-1e-9, task, setup, time) == 0
