# SPDX-License-Identifier: Apache-2.0
"""Policies that look ahead in memory, behind the scheduler."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.step import FinishReason, SchedulerOutput, StepOutput
from llm_planner.scheduling.generation import GenerationState
from llm_planner.scheduling.memory_gate import MemoryGate
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.policies.pricing import NominalForecast
from llm_planner.scheduling.policies.tardiness_safe import TardinessSafe
from tests.scheduling.builders import make_generation, make_scheduler, run

SAFE = ("a_max", "a_min", "a_l", "adaptive", "tardiness_safe")


def with_interval(request_id, lower, upper, num_prompt_tokens=8, **changes):
    generation = make_generation(request_id, num_prompt_tokens, **changes)
    generation.output_interval = (lower, upper)
    return generation


def decode(scheduler, num_steps):
    for _ in range(num_steps):
        run(scheduler, scheduler.schedule(0.0))


def test_bounds_are_refined_by_what_was_generated_and_kept_when_memory_is_lost():
    generation = with_interval("r", 3, 6)
    assert generation.output_bounds == (3, 6)
    generation.output_token_ids.extend([1] * 4)
    assert generation.output_bounds == (5, 6)
    generation.admit()
    generation.preempt()
    assert generation.output_bounds == (5, 6)
    generation.output_token_ids.extend([1] * 5)  # longer than predicted
    assert generation.output_bounds == (10, 10)
    assert make_generation().output_bounds == (1, 512)


@pytest.mark.parametrize(
    ("name", "lower", "upper", "num_output", "can_offload", "counted"),
    [
        ("a_max", 4, 20, 0, False, 20),
        ("a_min", 4, 20, 0, False, 4),
        ("a_min", 4, 20, 9, False, 10),
        ("a_l", 4, 20, 0, False, 4),
        ("a_l", 4, 20, 4, False, 20),
        ("adaptive", 4, 20, 4, False, 5),  # alpha 0.2, but nothing has ended: as A_min
        ("adaptive", 10, 20, 12, False, 13),  # alpha 0.5: as A_min
        ("tardiness_safe", 8, 10, 0, False, 9),  # before anything ended, all lengths of the interval are as probable
        ("tardiness_safe", 8, 10, 9, False, 10),
        ("tardiness_safe", 4, 20, 0, True, 1),
        ("tardiness_safe", 4, 20, 9, True, 10),
    ],
)
def test_what_each_policy_counts_on(name, lower, upper, num_output, can_offload, counted):
    generation = with_interval("r", lower, upper)
    generation.output_token_ids.extend([1] * num_output)
    assert make_policy(name).counted_tokens(generation, can_offload=can_offload) == counted


@pytest.mark.parametrize(
    ("ended", "counted"),
    [
        ([4] * 19, 5),  # too few
        ([4, 20] * 10, 20),
        ([4, 20] * 19 + [12, 11], 20),  # 95 %
        ([4, 20] * 9 + [12, 11], 5),
        (range(4, 25), 5),  # of every length, as with a predictor's intervals
        ([12] * 40 + [4, 20] * 100, 20),  # what was long ago has been forgotten
    ],
)
def test_adaptive_counts_as_a_l_only_after_lengths_that_were_all_of_two_points(ended, counted):
    policy = make_policy("adaptive")
    for tokens in ended:
        generation = with_interval("ended", 4, 20)
        generation.output_token_ids.extend([1] * tokens)
        policy.note_complete(generation, ())
    skewed, even = with_interval("skewed", 4, 20), with_interval("even", 10, 20)
    for generation in (skewed, even):
        generation.output_token_ids.extend([1] * 4)
    assert policy.counted_tokens(skewed, can_offload=False) == counted
    assert policy.counted_tokens(even, can_offload=False) == 10


def test_a_min_serves_the_smallest_bound_first_and_a_max_the_first_that_came():
    late, early = with_interval("late", 2, 9, arrival_s=1.0), with_interval("early", 5, 9)
    late.order = 1
    order = {n: sorted([late, early], key=lambda g: make_policy(n).rank(g, 2.0)) for n in ("a_min", "a_max")}
    assert order == {"a_min": [late, early], "a_max": [early, late]}


@pytest.mark.parametrize(("policy", "num_running"), [("a_max", 2), ("fcfs_segment", 3)])
def test_nobody_starts_whose_future_does_not_fit(policy, num_running):
    scheduler = make_scheduler(policy, num_kv_blocks=18)  # 72 tokens
    for name in "abc":
        scheduler.add(with_interval(name, 1, 16))  # 24 tokens and up to 3 of a last block: 27 each
    decode(scheduler, 1)
    assert scheduler.num_running == num_running
    decode(scheduler, 15)
    assert all(g.num_preemptions == 0 for g in scheduler.generations)


def test_a_shared_prefix_counts_once():
    scheduler = make_scheduler("a_max", num_kv_blocks=20)
    scheduler.ledger.pin_prefix("system", 24)
    for name in "abc":
        scheduler.add(with_interval(name, 1, 8, num_prompt_tokens=28, num_cached_tokens=24))
    decode(scheduler, 1)
    assert scheduler.num_running == 3  # 56 tokens for 3 x (4 + 8 + 3)


def test_a_prefix_that_all_share_makes_no_memory_short():
    scheduler = make_scheduler("tardiness_safe", num_kv_blocks=30)
    scheduler.ledger.pin_prefix("system", 80)
    for name in "abcd":
        scheduler.add(with_interval(name, 1, 8, num_prompt_tokens=84, num_cached_tokens=80))  # a block of its own each
    scheduler.schedule(0.0)
    assert not scheduler.policy.is_memory_short


def test_what_those_that_are_ready_hold_already_makes_no_memory_short():
    scheduler = make_scheduler("tardiness_safe", num_kv_blocks=14)
    for name in "ab":
        scheduler.add(with_interval(name, 1, 8, num_prompt_tokens=16))
    run(scheduler, scheduler.schedule(0.0), segments={"a": 1.0, "b": 1.0})
    assert scheduler.num_suspended == 2
    scheduler.schedule(5.0)  # each has four blocks and needs a fifth
    assert not scheduler.policy.is_memory_short


def test_what_a_suspended_robot_holds_counts():
    scheduler = make_scheduler("a_max", num_kv_blocks=12, can_offload=False)  # 48 tokens
    scheduler.add(with_interval("suspended", 1, 12))
    decode(scheduler, 1)
    run(scheduler, scheduler.schedule(0.0), segments={"suspended": 60.0})
    assert scheduler.num_suspended == 1
    scheduler.add(with_interval("first", 1, 12))
    decode(scheduler, 1)
    scheduler.add(with_interval("second", 1, 12))  # 23 each, 36 left
    decode(scheduler, 1)
    assert [g.request_id for g in scheduler.running] == ["first"]


def test_what_pauses_for_a_reservation_holds_memory_too():
    scheduler = make_scheduler("a_max", num_kv_blocks=20, max_num_batched_tokens=20)  # 80 tokens
    scheduler.add(with_interval("back", 1, 20))
    run(scheduler, scheduler.schedule(0.0), segments={"back": 1.0})
    scheduler.add(with_interval("half_read", 1, 1, num_prompt_tokens=32))
    decode(scheduler, 1)
    assert (scheduler.num_suspended, scheduler.num_running) == (1, 1)
    scheduler.add(with_interval("budgeted", 1, 20, num_prompt_tokens=16))
    scheduler.reserve("budgeted", 3)
    assert scheduler.schedule(5.0).num_scheduled_tokens == {"budgeted": 16}  # 67 in the end with "back", of 48


@pytest.mark.parametrize("can_offload", [True, False])
def test_who_gives_way_is_the_cheapest_to_bring_back_and_keeps_its_tokens(can_offload):
    scheduler = make_scheduler("a_min", num_kv_blocks=8, can_offload=can_offload)  # 32 tokens
    big, small = with_interval("big", 1, 40, num_prompt_tokens=12), with_interval("small", 2, 40, num_prompt_tokens=4)
    scheduler.add(big)
    scheduler.add(small)
    for _ in range(20):
        if small.state is not GenerationState.RUNNING and small.num_output_tokens:
            break
        decode(scheduler, 1)
    assert big.state is GenerationState.RUNNING
    assert small.is_offloaded == can_offload
    assert small.num_preemptions == (not can_offload)
    assert small.output_bounds[0] == small.num_output_tokens + 1 > 2


def test_under_tardiness_safe_the_one_that_will_hold_memory_longest_yields():
    scheduler = make_scheduler("tardiness_safe", num_kv_blocks=8)  # 32 tokens
    short, long = (
        with_interval("short", 30, 40, num_prompt_tokens=4),
        with_interval("long", 300, 400, num_prompt_tokens=4),
    )
    scheduler.add(long)
    scheduler.add(short)
    for _ in range(20):
        if long.is_offloaded or short.is_offloaded:
            break
        decode(scheduler, 1)
    assert long.is_offloaded
    assert short.state is GenerationState.RUNNING


def test_within_one_decision_the_gate_counts_who_has_a_slot_by_now():
    scheduler = make_scheduler("a_max", num_kv_blocks=8)  # 32 tokens
    for name in ("first", "second"):
        scheduler.add(with_interval(name, 1, 6, num_prompt_tokens=4))
    decode(scheduler, 1)
    gate = MemoryGate(scheduler.policy, scheduler.ledger, scheduler._places, can_offload=False)
    third = with_interval("third", 1, 6, num_prompt_tokens=4)
    assert not gate.admits(third)
    lost = scheduler._places.running.pop("second")
    assert gate.admits(third)
    scheduler._places.running["second"] = lost
    assert not gate.admits(third)


def test_what_the_engine_takes_to_compute_a_prompt_counts():
    """The dearer a prompt, compared with a step, the more a request is worth whose KV is there."""

    class Engine(NominalForecast):
        def __init__(self, per_token_s):
            self.per_token_s = per_token_s

        def chunk_s(self, num_prompt_tokens):
            return self.per_token_s * num_prompt_tokens

    def lead(per_token_s):
        policy = TardinessSafe(Engine(per_token_s))
        policy.capacity_tokens, policy.is_memory_short = 10_000, True
        there, new = (with_interval(name, 50, 100, num_prompt_tokens=200) for name in ("there", "new"))
        there.num_computed_tokens = there.num_uncomputed_tokens - 1
        assert there.is_decoding
        return policy.rank(new, 0.0)[0] - policy.rank(there, 0.0)[0]

    assert lead(0.0) == pytest.approx(0.0, abs=1e-9)
    assert 0.0 < lead(0.0001) < lead(0.01)


def test_what_bringing_kv_back_costs_is_taken_over_once_it_is_far_off():
    forecast = NominalForecast()
    policy = TardinessSafe(forecast)
    costs = []
    for step_s in (forecast.step_s, 0.9 * forecast.step_s, 0.2 * forecast.step_s, 0.0):
        forecast.step_s = step_s
        one = with_interval("r", 1, 6)
        policy.note_complete(one, [one])
        costs.append((policy._moved_steps, policy._computed_steps))
    assert costs[0] == costs[1] != costs[2] == costs[3]


def test_lengths_are_learned_from_what_ends():
    """Two kinds of prompts, one of which has short answers: after some of them, these go first."""
    scheduler = make_scheduler("tardiness_safe", max_num_seqs=2)
    for _ in range(8):
        for num_prompt, output in ((40, 3), (400, 40)):
            one = with_interval("r", 1, 500, num_prompt_tokens=num_prompt)
            scheduler.add(one)
            while one.state is not GenerationState.FINISHED:
                scheduled = scheduler.schedule(0.0)
                has_token = one.num_uncomputed_tokens == scheduled.num_scheduled_tokens["r"]
                has_ended = has_token and one.num_output_tokens + 1 == output
                step = StepOutput(
                    token_ids={"r": (7,)} if has_token else {},
                    finished={"r": FinishReason.STOP} if has_ended else {},
                    duration_s=0.01,
                )
                scheduler.update(scheduled, step, {}, 0.0)
                if has_ended:
                    scheduler.end("r")
    counted = {
        n: scheduler.policy.counted_tokens(with_interval("new", 1, 500, num_prompt_tokens=n), can_offload=False)
        for n in (40, 400)
    }
    assert counted[40] < 20 < counted[400]


LENGTHS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 12), st.integers(0, 12)), min_size=1, max_size=10)


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.booleans(), st.integers(0, 99))
def test_upper_bounds_that_hold_mean_that_nobody_ever_gives_way(lengths, can_offload, seed):
    scheduler = make_scheduler("a_max", num_kv_blocks=20, can_offload=can_offload, max_num_seqs=8)
    truth, alive = {}, {}
    for number, (num_prompt, output, more) in enumerate(lengths):
        name = f"r{number}"
        truth[name] = output
        alive[name] = with_interval(name, 1, output + more, num_prompt_tokens=num_prompt)
        scheduler.add(alive[name])
    rng = random.Random(seed)
    for _ in range(600):
        if not alive:
            break
        scheduled = scheduler.schedule(0.0)
        assert not scheduled.offload
        _finish(scheduler, scheduled, alive, truth)
        scheduler.check_integrity()
        assert scheduler.ledger.free_blocks >= 0
        if rng.random() < 0.1 and alive:
            scheduler.end(alive.popitem()[0])
    assert not alive


def _finish(scheduler, scheduled: SchedulerOutput, alive, truth):
    token_ids = {
        name: (7,)
        for name, num_tokens in scheduled.num_scheduled_tokens.items()
        if alive[name].num_uncomputed_tokens == num_tokens
    }
    scheduler.update(scheduled, StepOutput(token_ids=token_ids, duration_s=0.01), {}, 0.0)
    for name in token_ids:
        assert alive[name].num_preemptions == 0
        if alive[name].num_output_tokens >= truth[name]:
            scheduler.end(name)
            del alive[name]
