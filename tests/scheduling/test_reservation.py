# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from llm_planner.core.step import StepOutput
from llm_planner.core.time_utility import URGENT
from llm_planner.scheduling.generation import GenerationState
from llm_planner.scheduling.reservation import Reservations
from tests.scheduling.builders import make_generation, make_scheduler, run

POLICIES = ("fcfs", "fcfs_segment", "pud")


def busy(policy, num_running=3, **config):
    """A scheduler whose slots all decode."""
    scheduler = make_scheduler(policy, max_num_seqs=num_running, **config)
    for number in range(num_running):
        scheduler.add(make_generation(f"r{number}"))
    while any(not g.is_decoding or not g.output_token_ids for g in scheduler.generations):
        run(scheduler, scheduler.schedule(0.0))
    return scheduler


def step(scheduler, now_s=1.0):
    scheduled = scheduler.schedule(now_s)
    run(scheduler, scheduled, now_s)
    return set(scheduled.num_scheduled_tokens)


@pytest.mark.parametrize("can_offload", [True, False])
@pytest.mark.parametrize("policy", [*POLICIES, "tardiness", "tardiness_safe"])
def test_memory_of_one_whose_first_step_was_given_up_is_there_for_others(policy, can_offload):
    """It has computed nothing, but room is reserved for its prompt."""
    scheduler = make_scheduler(policy, num_kv_blocks=20, can_offload=can_offload)
    scheduler.add(make_generation("given_up", num_prompt_tokens=60))
    scheduled = replace(scheduler.schedule(0.0), num_scheduled_tokens={"given_up": 0})
    scheduler.update(scheduled, StepOutput(step=scheduled, is_given_up=True), {}, 0.01)
    scheduler.add(make_generation("budgeted", num_prompt_tokens=40))
    scheduler.reserve("budgeted", 3)
    assert step(scheduler) == {"budgeted"}
    scheduler.end("budgeted")
    assert step(scheduler) == {"given_up"}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_reserved_slot_is_there_in_the_next_step_and_who_gave_way_keeps_its_kv(policy):
    scheduler = busy(policy)
    scheduler.add(make_generation("budgeted", arrival_s=1.0))
    scheduler.reserve("budgeted", 2)
    ran = step(scheduler)
    assert "budgeted" in ran
    assert len(ran) == 3
    (waiting,) = [g for g in scheduler.generations if g.request_id not in ran]
    assert waiting.state is GenerationState.SUSPENDED
    assert waiting.num_computed_tokens >= waiting.num_prompt_tokens


@pytest.mark.parametrize("policy", POLICIES)
def test_a_batch_cap_holds(policy):
    scheduler = busy(policy)
    scheduler.add(make_generation("budgeted", arrival_s=1.0))
    scheduler.reserve("budgeted", 0)
    assert [step(scheduler) for _ in range(3)] == [{"budgeted"}] * 3
    scheduler.end("budgeted")
    assert len(step(scheduler)) == 3


@pytest.mark.parametrize("policy", POLICIES)
def test_no_other_prompt_is_computed_meanwhile(policy):
    scheduler = busy(policy, num_running=2, max_num_batched_tokens=40)
    scheduler.config = scheduler.config.__class__(policy=policy, max_num_seqs=4, max_num_batched_tokens=40)
    scheduler.add(make_generation("budgeted", num_prompt_tokens=70, arrival_s=1.0))
    scheduler.add(make_generation("other", num_prompt_tokens=10, arrival_s=0.0))
    scheduler.reserve("budgeted", 3)
    for _ in range(4):
        ran = step(scheduler)
        assert "budgeted" in ran
        assert "other" not in ran
    scheduler.end("budgeted")
    assert "other" in step(scheduler)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_first_reservation_is_kept_first(policy):
    scheduler = busy(policy)
    for name in ("first", "second"):
        scheduler.add(make_generation(name, arrival_s=1.0))
        scheduler.reserve(name, 0)
    assert step(scheduler) == {"first"}
    scheduler.reserve("first", 1)  # reserved again, in a larger batch: the place in the order stays
    scheduler.reserve("second", 1)
    assert step(scheduler) == {"first", "second"}
    scheduler.end("first")
    assert "second" in step(scheduler)


def test_a_reservation_ends_with_its_generation_and_where_it_suspends():
    scheduler = make_scheduler("fcfs_segment")
    scheduler.add(make_generation("r"))
    scheduler.reserve("r", 0)
    scheduled = scheduler.schedule(0.0)
    run(scheduler, scheduled, 0.0, segments={"r": 60.0})
    assert scheduler.num_suspended == 1
    assert not scheduler.reservations
    scheduler.add(make_generation("s"))
    scheduler.reserve("s", 0)
    scheduler.end("s")
    assert not scheduler.reservations


def test_the_tightest_reservation_counts_and_one_slot_is_always_left():
    reservations = Reservations()
    assert reservations.num_slots(8) == 8
    reservations.make("a", 5)
    reservations.make("b", 2)
    assert reservations.num_slots(8) == 3
    reservations.make("c", -1)
    assert reservations.num_slots(8) == 1
    assert reservations.live["a"].order < reservations.live["b"].order


@pytest.mark.parametrize("can_offload", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
def test_prompts_that_wait_for_a_reservation_do_not_keep_its_memory(policy, can_offload):
    limits = {"num_kv_blocks": 20, "block_size": 4, "max_num_batched_tokens": 16, "can_offload": can_offload}
    scheduler = make_scheduler(policy, max_num_seqs=3, **limits)
    scheduler.add(make_generation("half_read", 40))
    step(scheduler)
    scheduler.add(make_generation("budgeted", 60, arrival_s=1.0))
    scheduler.reserve("budgeted", 2)
    assert step(scheduler) == {"budgeted"}
    scheduler.check_integrity()


@pytest.mark.parametrize("policy", [*POLICIES, "tardiness"])
def test_prompts_that_wait_for_a_reservation_keep_no_slot_from_those_that_decode(policy):
    scheduler = busy(policy)
    scheduler.add(make_generation("budgeted", arrival_s=1.0))
    scheduler.reserve("budgeted", 0)
    assert step(scheduler) == {"budgeted"}
    for number in range(4):
        prompt = make_generation(f"prompt{number}", arrival_s=-9.0)
        prompt.request = replace(prompt.request, time_utility=URGENT)
        scheduler.add(prompt)
    scheduler.reserve("budgeted", 2)
    ran = step(scheduler)
    assert len(ran) == 3
    assert ran < {"budgeted", "r0", "r1", "r2"}
