# SPDX-License-Identifier: Apache-2.0
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.scheduling.budget import Lengths, Measure, Setup, alpha_star, execution_s
from llm_planner.scheduling.budget_solver import BudgetSolver, Load, Prompt, _rounded
from tests.scheduling.budget_builders import LinearTime, loads, make_task, tasks, times

SOLVER = BudgetSolver()
budgets = st.floats(1e-4, 100.0)
ORDER = list(Measure)


def solve(budget_s, task, load, time, solver=SOLVER):
    """The decision, or None if refused."""
    try:
        return solver.solve(budget_s, task, load, time)
    except PlannerError as error:
        if error.code is not ErrorCode.BUDGET_INFEASIBLE:
            raise
        return None


def alpha(decision, task):
    return decision.num_removed_tokens / (task.num_prefilled_tokens - decision.num_omitted_tokens)


@given(budgets, tasks, loads, times)
def test_a_decision_keeps_the_budget_by_the_estimator(budget_s, task, load, time):
    decision = solve(budget_s, task, load, time)
    if decision is not None:
        assert decision.wcet_s <= budget_s
        assert decision.wcet_s == pytest.approx(execution_s(task, decision.num_tokens, decision.setup, time))
        assert decision.setup.num_removed_tokens == decision.num_removed_tokens <= task.num_removable_tokens
        assert decision.setup.num_omitted_tokens == decision.num_omitted_tokens
        assert decision.num_omitted_tokens in (0, *task.droppable_tokens)
        assert 0.0 <= alpha(decision, task) <= SOLVER.max_eviction_ratio


@given(budgets, st.floats(1.0, 10.0), tasks, loads, times)
def test_a_larger_budget_never_pulls_more(budget_s, factor, task, load, time):
    less, more = solve(budget_s, task, load, time), solve(budget_s * factor, task, load, time)
    if less is None:
        return
    assert more is not None
    assert more.num_omitted_tokens <= less.num_omitted_tokens
    if Measure.TOKEN_CAP not in less.measures:  # a few tokens are sooner out than an eviction is done
        assert len(more.measures) <= len(less.measures)
        assert more.num_omitted_tokens + more.num_removed_tokens <= less.num_omitted_tokens + less.num_removed_tokens
    assert (more.max_tokens or math.inf) >= (less.max_tokens or math.inf)
    if more.max_co_batched is not None:
        assert more.max_co_batched >= less.max_co_batched


@given(budgets, tasks, loads, times)
def test_measures_are_taken_in_order_and_for_what_they_say(budget_s, task, load, time):
    decision = solve(budget_s, task, load, time)
    if decision is None:
        return
    measures = decision.measures
    assert list(measures) == sorted(measures, key=ORDER.index)
    assert (Measure.RESERVED_SLOT in measures) == bool(measures) == (decision.max_co_batched is not None)
    assert (Measure.SCENE_PRUNING in measures) == (decision.num_omitted_tokens > 0)
    assert (Measure.EVICTION in measures) == (decision.num_removed_tokens > 0)
    assert (Measure.TOKEN_CAP in measures) == (decision.max_tokens is not None)
    if Measure.TOKEN_CAP in measures:
        assert decision.max_tokens >= min(task.lengths.lower, task.pessimistic_tokens())
    elif Measure.EVICTION in measures:
        assert decision.num_tokens == task.max_tokens  # no prediction bounds such a plan
    if {Measure.SCENE_PRUNING, Measure.EVICTION} & set(measures):  # as few others as there can be, first
        assert decision.max_co_batched == len(load.reserved_kv_lens)


@given(budgets, tasks, times)
def test_alone_the_eviction_is_the_papers(budget_s, task, time):
    """Only eviction is left when no other request is there and the length is known.

    It is Eq. (11), up to a whole token and what is removable.
    """
    lengths = replace(task.lengths, upper=math.ceil(task.lengths.expected))
    task = replace(task, droppable_tokens=(), lengths=lengths)
    decision = solve(budget_s, task, Load(chunk_tokens=10**6, reserved_chunk_tokens=10**6), time)
    alone = alpha_star(budget_s, task, time)
    if decision is not None and decision.num_tokens >= task.pessimistic_tokens():
        assert alpha(decision, task) >= alone * (1 - 1e-6) - 1e-9
        assert alpha(decision, task) <= alone + 2 / task.num_prefilled_tokens


@given(tasks, loads, times)
def test_a_refusal_names_a_budget_that_would_do(task, load, time):
    place = Load(has_free_slot=False, kv_lens=load.kv_lens, reserved_kv_lens=load.reserved_kv_lens)
    shortest_s = SOLVER.shortest_s(task, place, time)
    assert solve(shortest_s * 1.0001 + 1e-9, task, place, time) is not None
    if shortest_s > 1e-6:
        assert solve(shortest_s * 0.999 - 1e-9, task, place, time) is None


@pytest.mark.parametrize("lengths", [Lengths(lower=25, expected=8.85), Lengths(lower=30, expected=13.3, upper=30)])
def test_an_eviction_is_as_large_as_the_least_that_makes_sense_needs(lengths):
    """That is often more than what is expected: what is enough for most first segments, to their mean."""
    task, time = replace(TASK, lengths=lengths), replace(TIME, p_s=2e-5)
    shortest_s, enough_s = SOLVER.shortest_s(task, Load(), time), execution_s(task, lengths.lower, Setup(), time)
    decisions = [solve(shortest_s + share * (enough_s - shortest_s), task, Load(), time) for share in (0.01, 0.5, 0.9)]
    assert all(d is not None and d.max_tokens == lengths.lower for d in decisions)
    assert sorted((d.num_removed_tokens for d in decisions), reverse=True) == [d.num_removed_tokens for d in decisions]


@pytest.mark.parametrize("budget_s", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_what_is_no_budget_is_refused(budget_s):
    with pytest.raises(PlannerError) as caught:
        SOLVER.solve(budget_s, make_task(), Load(), LinearTime())
    assert caught.value.code is ErrorCode.INVALID_TIME_BUDGET


def refusal(budget_s, task, load, time):
    with pytest.raises(PlannerError) as caught:
        SOLVER.solve(budget_s, task, load, time)
    assert caught.value.code is ErrorCode.BUDGET_INFEASIBLE
    return caught.value.message


@given(st.floats(0.05, 2.0), st.integers(1, 300))
def test_a_refusal_never_says_that_what_is_left_is_enough(budget_s, num_tokens):
    try:
        SOLVER.solve(budget_s, make_task(num_uncomputed_tokens=num_tokens), Load(), LinearTime(q_s=0.02))
    except PlannerError as error:
        left, needed = re.findall(r"([\d.e-]+) s are (?:left|needed)", error.message)
        assert float(left) <= budget_s < float(needed)


def test_what_is_left_and_what_is_needed_differ_in_words():
    assert (_rounded(0.50049, math.floor), _rounded(0.50041, math.ceil)) == ("0.5", "0.501")
    assert _rounded(0.3, math.floor) == _rounded(0.3, math.ceil) == "0.3"


def test_a_budget_shorter_than_one_decode_step_is_refused_as_such():
    message = refusal(0.01, make_task(num_uncomputed_tokens=1), Load(), LinearTime(q_s=0.02))
    assert "one decode step takes 0.02" in message


def test_a_budget_below_what_the_queue_allows_is_refused_as_such():
    load = Load(reserved_kv_lens=(10,), reserved_s=0.7, reserved_slack_s=0.001)
    assert "reserved for other goals with budgets, for up to 0.7 s" in refusal(0.5, make_task(), load, LinearTime())
    full = Load(reserved_kv_lens=(10, 10), reserved_s=0.7, max_co_batched=1)
    assert "reserved for other goals" in refusal(0.5, make_task(), full, LinearTime())
    assert "no budget would do now" in refusal(1e6, make_task(), replace(full, has_free_slot=False), LinearTime())
    waiting = Load(has_free_slot=False, waiting_slack_s=0.01)
    assert "reserved for other goals" in refusal(0.5, make_task(), waiting, LinearTime())
    assert "no budget would do now" in refusal(1e6, make_task(), waiting, LinearTime())


@pytest.mark.parametrize(("room_tokens", "is_kept"), [(604, False), (605, True), (-10, False)])
def test_what_does_not_fit_into_memory_beside_reserved_ones_is_refused(room_tokens, is_kept):
    load = Load(has_free_slot=False, room_tokens=room_tokens, reserved_s=200.0)
    assert (solve(100.0, make_task(), load, LinearTime()) is not None) is is_kept
    if not is_kept:
        assert "reserved for other goals" in refusal(100.0, make_task(), load, LinearTime())
        short = make_task(droppable_tokens=(50,))
        assert (solve(100.0, short, load, LinearTime()) is not None) is (room_tokens > 0)


@pytest.mark.parametrize(
    ("room_tokens", "tokens_per_step", "max_tokens"),
    [(605, 1.0, 5), (650, 1.0, 50), (650, 2.0, 25), (699, 1.0, 99), (700, 1.0, None), (700, 2.0, 50), (800, 2.0, None)],
)
def test_no_more_tokens_are_promised_than_the_memory_holds(room_tokens, tokens_per_step, max_tokens):
    task = make_task(tokens_per_step=tokens_per_step)  # in the worst case of 100 tokens, behind 600
    decision = solve(100.0, task, Load(has_free_slot=False, room_tokens=room_tokens), LinearTime())
    assert (decision.max_tokens, decision.num_tokens) == (max_tokens, max_tokens or 100)
    assert decision.measures == (Measure.RESERVED_SLOT, *([Measure.TOKEN_CAP] if max_tokens else []))


@pytest.mark.parametrize("room_tokens", [604, -10])
def test_with_time_until_the_reserved_ones_give_memory_it_waits_and_the_refusal_says_how_long(room_tokens):
    load = Load(has_free_slot=False, room_tokens=room_tokens, reserved_s=2.0)
    message = refusal(1.9, make_task(), load, LinearTime())
    named_s = float(message.split("at least ")[1].split(" s")[0])
    assert named_s > 2.0
    assert solve(named_s * 0.99, make_task(), load, LinearTime()) is None
    decision = solve(named_s * 1.01, make_task(), load, LinearTime())
    assert decision.waits_for_memory
    assert decision.measures == ()
    assert solve(named_s * 1.01, make_task(), replace(load, waiting_slack_s=2.0), LinearTime()) is None


TIME = LinearTime(prefill_s_per_token=1e-4, q_s=0.02, per_sequence_s=0.002, p_s=1e-5)
TASK = make_task(
    num_uncomputed_tokens=1000, kv_len=0, num_removable_tokens=960, lengths=Lengths(lower=10, expected=10.0)
)
BUSY = Load(kv_lens=(500,) * 7, prompts=(Prompt(3000, 0),))
"""Alone: 0.1 s of prefill, and 49 steps of 0.02 s and 0.01 s for the cache."""


@pytest.mark.parametrize(
    ("budget_s", "measures"),
    [
        (10.0, ()),
        (4.2, (Measure.RESERVED_SLOT,)),
        (2.0, (Measure.RESERVED_SLOT, Measure.BATCH_CAP)),
        (1.3, (Measure.RESERVED_SLOT, Measure.BATCH_CAP, Measure.TOKEN_CAP)),
        (0.35, (Measure.RESERVED_SLOT, Measure.BATCH_CAP, Measure.EVICTION, Measure.TOKEN_CAP)),
        (0.2, None),
    ],
)
def test_tighter_budgets_take_one_measure_after_the_other(budget_s, measures):
    decision = solve(budget_s, TASK, BUSY, TIME)
    assert (decision.measures if decision else None) == measures


@pytest.mark.parametrize(
    ("budget_s", "max_co_batched", "measures"),
    [
        (10.0, 15, (Measure.RESERVED_SLOT,)),  # whoever comes: all others that there are may run along
        (2.5, 2, (Measure.RESERVED_SLOT, Measure.BATCH_CAP)),
        (1.3, 0, (Measure.RESERVED_SLOT, Measure.BATCH_CAP, Measure.TOKEN_CAP)),
    ],
)
def test_as_many_may_come_back_to_run_along_as_the_budget_allows(budget_s, max_co_batched, measures):
    load = Load(has_free_slot=False, kv_lens=(500,), returning_kv_lens=(500,) * 9)
    decision = solve(budget_s, TASK, load, TIME)
    assert (decision.max_co_batched, decision.measures) == (max_co_batched, measures)


SCENE = replace(TASK, droppable_tokens=tuple(range(9, 700, 9)))
"""What the scene can spare in steps of 9 tokens: 0.1 s of prefill go down to 0.03 s."""


@pytest.mark.parametrize(
    ("budget_s", "measures"),
    [
        (2.0, (Measure.RESERVED_SLOT, Measure.BATCH_CAP)),
        (1.3, (Measure.RESERVED_SLOT, Measure.BATCH_CAP, Measure.SCENE_PRUNING)),
        (1.0, (Measure.RESERVED_SLOT, Measure.BATCH_CAP, Measure.SCENE_PRUNING, Measure.TOKEN_CAP)),
        (
            0.22,
            tuple(measure for measure in Measure if measure is not Measure.GRACEFUL_TRUNCATION),
        ),  # that is no choice of the solver
        (0.1, None),
    ],
)
def test_a_shorter_scene_comes_before_eviction(budget_s, measures):
    decision = solve(budget_s, SCENE, BUSY, TIME)
    assert (decision.measures if decision else None) == measures


def test_no_more_of_the_scene_is_left_out_than_needed():
    tight, tighter = solve(1.5, SCENE, BUSY, TIME), solve(1.2, SCENE, BUSY, TIME)
    shorter_by_one_less = replace(tight.setup, num_omitted_tokens=tight.num_omitted_tokens - 9)
    assert execution_s(SCENE, tight.num_tokens, shorter_by_one_less, TIME) > 1.5
    assert 0 < tight.num_omitted_tokens < tighter.num_omitted_tokens


def test_an_eviction_that_takes_longer_than_it_saves_is_left_out():
    time = replace(TIME, evicting_s=0.3)
    long = replace(TASK, lengths=Lengths(lower=5, expected=40.0))
    assert Measure.EVICTION in solve(0.8, long, BUSY, TIME).measures
    assert solve(0.8, long, BUSY, time).measures == (Measure.RESERVED_SLOT, Measure.BATCH_CAP, Measure.TOKEN_CAP)
    slower = replace(TIME, evicting_s=0.05)
    num_removed = [solve(1.2, long, BUSY, time).num_removed_tokens for time in (TIME, slower)]
    assert 0 < num_removed[0] < num_removed[1]


@pytest.mark.parametrize(("num_removable", "is_evicted"), [(50, False), (200, True)])
def test_an_eviction_that_hardly_shortens_a_step_is_left_out(num_removable, is_evicted):
    """A step takes 30 ms: to evict 50 tokens saves 0.5 ms of it, 200 save 2 ms."""
    task = replace(TASK, num_removable_tokens=num_removable, lengths=Lengths(lower=30, expected=30.0))
    enough_s, least_s = execution_s(task, 30, Setup(), TIME), SOLVER.shortest_s(task, Load(), TIME)
    assert (least_s < enough_s) is is_evicted
    decision = solve(0.999 * enough_s, task, Load(), TIME)
    assert (decision is not None) is is_evicted
    assert decision is None or Measure.EVICTION in decision.measures


def test_what_most_plans_never_need_is_not_evicted():
    """The worst case does not fit, the expected length does: nothing is evicted until it turns out to be long."""
    decision = solve(1.0, TASK, BUSY, TIME)
    assert (decision.num_removed_tokens, decision.measures[-1]) == (0, Measure.TOKEN_CAP)
    assert 10 < decision.max_tokens < TASK.pessimistic_tokens()


def test_a_backend_that_cannot_evict_goes_from_the_batch_to_the_cap():
    task = make_task(num_uncomputed_tokens=1000, kv_len=0, num_removable_tokens=0, lengths=TASK.lengths)
    assert solve(1.3, task, BUSY, TIME).measures == (Measure.RESERVED_SLOT, Measure.BATCH_CAP, Measure.TOKEN_CAP)
