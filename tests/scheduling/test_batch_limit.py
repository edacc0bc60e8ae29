# SPDX-License-Identifier: Apache-2.0
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.errors import PlannerError
from llm_planner.core.request import Urgency
from llm_planner.core.step import StepOutput
from llm_planner.core.time_utility import NORMAL, URGENT
from llm_planner.scheduling.batch_limit import LatencyGuidedLimit, SlotExchange
from llm_planner.scheduling.generation import GenerationState
from llm_planner.scheduling.policies.tardiness import Tardiness
from llm_planner.scheduling.step_model import DEFAULT_FREE_TOKENS
from llm_planner.scheduling.step_times import DEFAULT_SEGMENT_STEPS, StepTimes
from tests.scheduling.builders import make_generation, make_scheduler, make_segment

STEP_S, SLOPE_S = 0.018, 0.002


@pytest.fixture
def times():
    made = StepTimes(0.008)
    for num_seqs in (1, 9) * 100:
        made.model.observe(STEP_S + SLOPE_S * (num_seqs - 1), 0, num_seqs)
    made.model.recent_s = STEP_S
    return made


def decoding(request_id="r", time_utility=NORMAL, arrival_s=0.0, num_segment_steps=0):
    generation = make_generation(request_id, 20, arrival_s=arrival_s)
    generation.request = replace(generation.request, time_utility=time_utility)
    generation.num_computed_tokens = 19
    generation.num_segment_steps = num_segment_steps
    return generation


def limit_at(times, now_s=0.0, price_per_s=0.0):
    return LatencyGuidedLimit(Tardiness(times), times, now_s, price_per_s=price_per_s)


def joins(limit, generation):
    """Returns whether it may run; one that may does."""
    may_run = limit.admits(generation)
    if may_run:
        limit.count(generation)
    return may_run


def test_the_first_one_always_runs(times):
    assert joins(limit_at(times, 1e6), decoding(arrival_s=0.0))


def test_those_with_time_run_together(times):
    limit = limit_at(times)
    assert all(joins(limit, decoding(str(i))) for i in range(16))


def test_a_newcomer_with_time_pauses_if_it_would_make_the_urgent_one_late(times):
    limit = limit_at(times)
    urgent = decoding("u", URGENT, arrival_s=-0.01)  # 10 tokens in 182 ms: one more sequence just does not fit
    assert joins(limit, urgent)
    assert not joins(limit, decoding("n", NORMAL))


def test_it_joins_if_the_urgent_one_has_enough_time(times):
    limit = limit_at(times)
    assert joins(limit, decoding("u", URGENT, num_segment_steps=5))
    assert joins(limit, decoding("n", NORMAL))


def test_a_pressing_newcomer_joins_although_the_urgent_one_loses(times):
    limit = limit_at(times)
    assert joins(limit, decoding("u", URGENT, arrival_s=-0.01))
    assert joins(limit, decoding("n", NORMAL, arrival_s=-2.0))


def test_nobody_pauses_while_a_place_left_empty_costs_those_behind_more(times):
    late, newcomer = decoding("u", URGENT, arrival_s=-5.0), decoding("n", NORMAL)
    waiting = decoding("w", URGENT, arrival_s=-1.0)
    alone = limit_at(times)
    crowded = LatencyGuidedLimit(Tardiness(times), times, 0.0, [waiting], 50)
    assert joins(alone, late)
    assert not joins(alone, newcomer)
    assert joins(crowded, late)
    assert joins(crowded, newcomer)


def priced(chunk_s, rate_s=1e-4, *, hides):
    """Times of an engine that computes a prompt chunk in ``chunk_s`` and ``rate_s`` per token."""
    made = StepTimes(0.0)
    rng = random.Random(0)
    for num_seqs in (1, 9) * 100:
        made.model.observe(STEP_S + SLOPE_S * (num_seqs - 1), 0, num_seqs)
    for _ in range(300):
        num_prompts, num_decoding = rng.randint(1, 3), rng.randint(0, 4)
        num_tokens = sum(rng.randint(20, 400) for _ in range(num_prompts))
        prompts_s = chunk_s * num_prompts + rate_s * num_tokens
        step_s = max(STEP_S, prompts_s) if hides else prompts_s + STEP_S * (num_decoding > 0)
        num_seqs = num_prompts + num_decoding
        made.model.observe(step_s + SLOPE_S * (num_seqs - 1), num_tokens, num_seqs, num_prompts)
    made.model.recent_s = STEP_S
    return made


def prompt(request_id, num_tokens, time_utility=NORMAL, arrival_s=0.0):
    generation = make_generation(request_id, num_tokens, arrival_s=arrival_s)
    generation.request = replace(generation.request, time_utility=time_utility)
    return generation


def test_prompts_take_what_a_step_computes_for_free():
    times = priced(0.0, hides=True)
    limit = limit_at(times)
    assert joins(limit, decoding("u", URGENT, arrival_s=-1.0))
    num_tokens = limit.prompt_tokens([prompt("n", 1000)], 2048)
    assert num_tokens == times.free_tokens == pytest.approx(180, rel=0.15)


def test_a_chunk_that_costs_as_much_as_a_step_is_not_cut_to_pieces():
    limit = limit_at(priced(STEP_S, hides=False))
    assert joins(limit, decoding("u", URGENT, arrival_s=-1.0))
    late = [prompt(f"n{i}", 300, arrival_s=-5.0) for i in range(3)]
    assert limit.prompt_tokens(late, 2048) in (300, 600, 900)


def test_an_urgent_prompt_does_not_wait_for_those_behind_it():
    limit = limit_at(priced(STEP_S, hides=False))
    prompts = [prompt("u", 100, URGENT, arrival_s=-0.1), *(prompt(f"n{i}", 900) for i in range(2))]
    assert limit.prompt_tokens(prompts, 2048) == 100


def test_prompts_with_time_wait_for_an_urgent_one_that_decodes_where_they_come_on_top():
    times = priced(STEP_S, hides=False)
    limit = limit_at(times)
    assert joins(limit, decoding("u", URGENT, arrival_s=-0.1, num_segment_steps=7))
    assert limit.prompt_tokens([prompt("n", 300)], 2048) == 0
    assert limit.prompt_tokens([prompt("u", 300, URGENT, arrival_s=-5.0)], 2048) > 0


@pytest.mark.parametrize(("price_per_s", "waits"), [(0.0, True), (1.0, True), (100.0, False)])
def test_they_do_not_wait_where_the_engine_has_no_time_to_waste(price_per_s, waits):
    limit = limit_at(priced(STEP_S, hides=False), price_per_s=price_per_s)
    assert joins(limit, decoding("u", URGENT, arrival_s=-0.1, num_segment_steps=7))
    assert (limit.prompt_tokens([prompt("n", 300)], 2048) == 0) is waits


def test_where_the_engine_has_no_time_to_waste_chunks_are_whole():
    prompts = [prompt("u", 100, URGENT, arrival_s=-0.1), *(prompt(f"n{i}", 900) for i in range(2))]
    assert limit_at(priced(STEP_S, hides=False), price_per_s=1000.0).prompt_tokens(prompts, 2048) == 1900


def test_a_step_that_decodes_nothing_computes_some_prompt():
    limit = limit_at(priced(STEP_S, hides=False))
    assert limit.prompt_tokens([prompt("n", 300)], 2048) > 0


@given(
    lengths=st.lists(st.integers(1, 3000), min_size=1, max_size=8),
    ages_s=st.lists(st.floats(0, 10), min_size=8, max_size=8),
    num_decoding=st.integers(0, 8),
    max_tokens=st.integers(0, 4096),
    hides=st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_the_tokens_of_a_step_are_within_its_budget_and_some_if_nothing_decodes(
    lengths, ages_s, num_decoding, max_tokens, hides
):
    limit = limit_at(_PRICED[hides])
    for number in range(num_decoding):
        joins(limit, decoding(f"d{number}", URGENT, arrival_s=-ages_s[number]))
    prompts = [prompt(f"p{i}", n, arrival_s=-age_s) for i, (n, age_s) in enumerate(zip(lengths, ages_s, strict=False))]
    num_tokens = limit.prompt_tokens(prompts, max_tokens)
    assert 0 <= num_tokens <= max_tokens
    assert num_tokens > 0 or num_decoding or not max_tokens


_PRICED = {hides: priced(0.5 * STEP_S, hides=hides) for hides in (True, False)}


def test_a_slot_changes_hands_only_where_that_costs_less_than_waiting(times):
    incumbents = [decoding(f"n{i}", NORMAL, num_segment_steps=9 * (i == 0)) for i in range(2)]
    urgent = decoding("u", URGENT, arrival_s=-0.1)
    late = [decoding(f"w{i}", URGENT, arrival_s=-1.0) for i in range(4)]

    def exchange(running):
        return SlotExchange(Tardiness(times), times, 0.0, running, [urgent, *late])

    assert exchange(incumbents[1:]).pays(incumbents[1], urgent, 1)  # no other waits, and no slot is free soon
    assert not exchange(incumbents).pays(incumbents[0], urgent, 50)  # one is free in a step, and all pay for the move
    assert not exchange(incumbents[1:]).pays(urgent, incumbents[1], 1)


def test_the_forecast_takes_the_papers_bound_before_it_knows_better(times):
    assert times.remaining_steps(decoding()) == DEFAULT_SEGMENT_STEPS
    for _ in range(50):
        times.observe_segment(decoding(), 4)
    assert times.remaining_steps(decoding()) == pytest.approx(4, abs=0.5)
    urgent = decoding(time_utility=URGENT)
    urgent.request = replace(urgent.request, urgency=Urgency.URGENT)
    assert times.remaining_steps(urgent) == DEFAULT_SEGMENT_STEPS
    assert times.generation_time_s(decoding()) == pytest.approx(4 * STEP_S, rel=0.15)


def busy_scheduler(policy):
    """Two slots, both with normal requests that decode."""
    scheduler = make_scheduler(policy, max_num_seqs=2)
    for request_id in ("n0", "n1"):
        scheduler.add(make_generation(request_id))
    for _ in range(2):
        scheduled = scheduler.schedule(0.0)
        tokens = dict.fromkeys(scheduled.num_scheduled_tokens, (7,))
        scheduler.update(scheduled, StepOutput(token_ids=tokens, duration_s=0.02), {}, 0.0)
    urgent = make_generation("u")
    urgent.request = replace(urgent.request, time_utility=URGENT)
    scheduler.add(urgent)
    return scheduler


@pytest.mark.parametrize("policy", ["tardiness", "pud"])
def test_an_urgent_request_finds_a_slot_and_who_gives_way_keeps_its_kv(policy):
    scheduler = busy_scheduler(policy)
    scheduled = scheduler.schedule(0.0)
    assert "u" in scheduled.num_scheduled_tokens
    assert not scheduled.release
    scheduler.update(scheduled, StepOutput(duration_s=0.02), {}, 0.0)
    scheduler.check_integrity()
    paused = next(g for g in scheduler.generations if g.state is GenerationState.SUSPENDED)
    assert paused.num_computed_tokens > 20 - 1
    assert paused.num_suspensions == 0
    assert scheduler.ledger.private_blocks(paused.request_id) > 0


def test_the_baselines_let_the_running_ones_run():
    assert "u" not in busy_scheduler("fcfs_segment").schedule(0.0).num_scheduled_tokens


@pytest.mark.parametrize(
    ("policy", "batch_limit", "is_limited"),
    [
        ("fcfs_segment", "auto", False),
        ("fcfs_segment", "on", True),
        ("pud_printed", "auto", False),
        ("pud_printed", "on", True),
        ("tardiness", "auto", True),
        ("tardiness", "off", False),
    ],
)
def test_order_and_batch_limit_are_chosen_apart(policy, batch_limit, is_limited):
    scheduler = make_scheduler(policy, num_kv_blocks=10_000, batch_limit=batch_limit)
    for request_id, num_tokens in (("decodes", 20), ("r", 1000)):
        generation = make_generation(request_id, num_tokens)
        generation.request = replace(generation.request, time_utility=URGENT if num_tokens == 20 else NORMAL)
        scheduler.add(generation)
        scheduled = scheduler.schedule(0.0)
        scheduler.update(scheduled, StepOutput(token_ids={"decodes": (7,)}, duration_s=0.05), {}, 0.0)
    assert scheduled.num_scheduled_tokens["r"] == (DEFAULT_FREE_TOKENS if is_limited else 1000)


def test_a_batch_limit_that_does_not_exist_names_those_that_do():
    with pytest.raises(PlannerError, match=r"scheduler\.batch_limit is 'maybe'; give one of auto, on, off"):
        make_scheduler(batch_limit="maybe")


def test_prompts_that_hold_memory_from_each_other_do_not_wait_for_ever():
    scheduler = make_scheduler("tardiness", num_kv_blocks=22, block_size=4, max_num_batched_tokens=16)
    for request_id, time_utility in (("normal", NORMAL), ("urgent", URGENT)):
        generation = make_generation(request_id, 40)
        generation.request = replace(generation.request, time_utility=time_utility)
        scheduler.add(generation)
        scheduler.update(scheduler.schedule(0.0), StepOutput(duration_s=0.02), {}, 0.0)
    scheduler.ledger.pin_prefix("late", 48)  # more than half of the memory goes, and both have begun
    assert scheduler.schedule(0.1).is_empty is False
    assert scheduler.schedule(0.1).num_scheduled_tokens == {"urgent": 16}


def test_nobody_gives_its_own_memory_to_come_back():
    scheduler = make_scheduler("fcfs_segment", num_kv_blocks=6, block_size=4, max_num_seqs=1)
    scheduler.add(make_generation("r", 20))
    scheduled = scheduler.schedule(0.0)
    generation = next(iter(scheduler.generations))
    generation.execution.deliver(make_segment(0, 5.0), 0.0)
    scheduler.update(scheduled, StepOutput(token_ids={"r": (7,)}, duration_s=0.02), {"r": 1}, 0.0)
    assert generation.state is GenerationState.SUSPENDED
    scheduler.ledger.pin_prefix("late", 4)  # all that was free
    again = scheduler.schedule(10.0)
    assert (again.offload, again.restore) == ((), ())
