# SPDX-License-Identifier: Apache-2.0
"""A scheduler above an engine that keeps its KV itself, and may have steps in flight."""

from dataclasses import replace

import pytest

from llm_planner.core.request import Urgency
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.scheduling.generation import GenerationState
from tests.scheduling.builders import make_generation, make_scheduler, make_segment


def step_of(counts, token_ids, *, free=90, computed=None):
    return StepOutput(
        token_ids=dict.fromkeys(token_ids, (7,)),
        free_kv_blocks=free,
        duration_s=0.01,
        step=SchedulerOutput(num_scheduled_tokens=counts),
        num_computed_tokens=computed or {},
    )


def update(scheduler, output, segments=(), now_s=0.01):
    for name in segments:
        generation = next(g for g in scheduler.generations if g.request_id == name)
        generation.execution.deliver(make_segment(generation.num_segments, 5.0), now_s)
    scheduler.update(output.step, output, dict.fromkeys(segments, 1), now_s)
    scheduler.ledger.check_integrity()


def test_lets_in_more_than_memory_holds_and_believes_the_engine():
    scheduler = make_scheduler(num_kv_blocks=10, keeps_kv=True)
    for name in "abc":
        scheduler.add(make_generation(name, num_prompt_tokens=30))
    assert set(scheduler.schedule(0.0).num_scheduled_tokens) == {"a", "b", "c"}
    update(scheduler, step_of({"a": 30}, ["a"], free=2, computed={"a": 30}))
    assert scheduler.ledger.free_blocks == 2


def test_takes_over_what_the_engine_found_in_its_cache_and_what_it_lost():
    scheduler = make_scheduler(keeps_kv=True)
    generation = make_generation("a", num_prompt_tokens=20)
    scheduler.add(generation)
    scheduler.schedule(0.0)
    update(scheduler, step_of({"a": 4}, ["a"], computed={"a": 20}))
    assert generation.is_decoding
    assert generation.num_uncomputed_tokens == 1
    assert generation.num_preemptions == 0
    update(scheduler, step_of({}, [], computed={"a": 0}))
    assert not generation.is_decoding
    assert generation.num_preemptions == 1
    assert scheduler.schedule(0.0).num_scheduled_tokens == {"a": 21}


def test_a_suspended_one_whose_kv_the_engine_lost_resumes_earlier():
    scheduler = make_scheduler(keeps_kv=True)
    generation = make_generation("a", num_prompt_tokens=2000)
    scheduler.add(generation)
    scheduler.schedule(0.0)
    update(scheduler, step_of({"a": 2000}, ["a"], computed={"a": 2000}), segments="a")
    before_s, resident_s = generation.resume_at_s, scheduler.times.resume_lead_s(generation)
    update(scheduler, step_of({}, [], computed={"a": 0}))
    back_s = scheduler.times.resume_lead_s(generation) - resident_s
    assert back_s > 0.1
    assert generation.resume_at_s == pytest.approx(before_s - back_s)


def test_names_the_suspended_that_resume_last_first():
    scheduler = make_scheduler(keeps_kv=True)
    for name in "ab":
        scheduler.add(make_generation(name))
        scheduler.schedule(0.0)
    update(scheduler, step_of({"a": 20}, ["a"]), segments="a", now_s=0.01)
    update(scheduler, step_of({"b": 20}, ["b"]), segments="b", now_s=1.0)
    assert scheduler.schedule(1.0).suspended == ("b", "a")


def test_a_step_in_flight_may_complete_the_segment_of_one_that_was_paused_meanwhile():
    scheduler = make_scheduler(max_num_seqs=1, keeps_kv=True)
    slow, urgent = make_generation("slow"), make_generation("urgent")
    scheduler.add(slow)
    scheduler.schedule(0.0)
    update(scheduler, step_of({"slow": 20}, ["slow"], computed={"slow": 20}))
    scheduler.add(urgent)
    scheduler.reserve("urgent", 0)
    assert set(scheduler.schedule(0.02).num_scheduled_tokens) == {"urgent"}
    assert slow.state is GenerationState.SUSPENDED
    update(scheduler, step_of({"slow": 1}, ["slow"], computed={"slow": 21}), segments=["slow"], now_s=0.03)
    assert slow.num_output_tokens == 2
    assert slow.num_suspensions == 1
    assert scheduler.num_suspended == 1
    assert scheduler.num_ready == 0


def test_names_who_must_not_wait_for_another_micro_batch_of_a_pipeline():
    def schedule(num_stages):
        scheduler = make_scheduler(keeps_kv=True, num_stages=num_stages)
        for name, urgency in (("a", Urgency.NORMAL), ("b", Urgency.URGENT), ("c", Urgency.NORMAL)):
            generation = make_generation(name)
            generation.request = replace(generation.request, urgency=urgency, time_utility=urgency.time_utility)
            scheduler.add(generation)
        return scheduler.schedule(100.0)

    assert schedule(2).urgent == ("b",)
    assert schedule(1).urgent == ()


def test_a_token_of_a_pipeline_takes_as_many_steps_as_there_are_micro_batches():
    learned = []
    for num_stages, ran, duration_s in ((2, "ab", 0.01), (1, "abcd", 0.02)):
        scheduler = make_scheduler(keeps_kv=True, num_stages=num_stages)
        for name in "abcd":
            scheduler.add(make_generation(name))
        scheduler.schedule(0.0)
        output = replace(step_of(dict.fromkeys(ran, 20), ran), duration_s=duration_s)
        update(scheduler, output)
        learned.append((scheduler.times.step_s, scheduler.times.model.recent_s))
    assert learned[0] == learned[1]


def test_a_prefix_that_the_engine_counts_as_free_takes_no_blocks():
    ledger = make_scheduler(num_kv_blocks=10, keeps_kv=True).ledger
    ledger.pin_prefix("system", 3 * ledger.block_size)
    assert (ledger.pinned_blocks, ledger.free_blocks, ledger.capacity_blocks) == (0, 10, 7)
