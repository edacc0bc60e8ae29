# SPDX-License-Identifier: Apache-2.0
"""Tokens that are inserted into a generation: what is computed, which memory goes, and what is forgotten."""

import pytest

from llm_planner.core.eviction import Eviction
from llm_planner.core.step import SchedulerOutput
from llm_planner.scheduling.generation import Generation, GenerationState
from llm_planner.scheduling.scheduler import Scheduler
from tests.scheduling.builders import make_generation, make_scheduler, run


def planned(scheduler: Scheduler, request_id: str = "r", num_prompt_tokens: int = 20) -> Generation:
    """Returns a generation that has computed its prompt and written two tokens."""
    generation = make_generation(request_id, num_prompt_tokens)
    scheduler.add(generation)
    run(scheduler, scheduler.schedule(0.0))
    run(scheduler, scheduler.schedule(0.1))
    return generation


def test_only_what_is_new_is_computed():
    scheduler = make_scheduler()
    generation = planned(scheduler)
    scheduler.insert("r", (5, 6, 7), 30, 1.0)
    step = scheduler.schedule(1.0)
    assert step.insert == {"r": (5, 6, 7)}
    assert step.num_scheduled_tokens == {"r": 4}  # and the last token that it wrote
    assert not step.new
    assert not step.release
    run(scheduler, step)
    assert (generation.num_output_tokens, generation.num_tokens_left) == (1, 29)
    assert (generation.num_earlier_tokens, generation.num_inserted_tokens) == (2, 3)
    assert not scheduler.schedule(1.1).insert


def test_a_backend_that_cannot_insert_gets_the_whole_prompt_again():
    scheduler = make_scheduler(can_insert=False)
    planned(scheduler)
    scheduler.insert("r", (5, 6, 7), 30, 1.0)
    scheduler.check_integrity()
    step = scheduler.schedule(1.0)
    assert step.release == ("r",)
    assert not step.insert
    assert step.new[0].prompt_token_ids == (*range(20), 7, 7, 5, 6, 7)
    assert step.num_scheduled_tokens == {"r": 25}


def test_a_sleeper_and_one_whose_plan_is_complete_go_on_at_once():
    scheduler = make_scheduler()
    planned(scheduler, "a")
    planned(scheduler, "b")
    run(scheduler, scheduler.schedule(0.2), segments={"a": 60.0})
    scheduler.retain("b")
    assert scheduler.num_suspended == 1
    assert scheduler.schedule(0.3).is_empty
    assert scheduler.next_wakeup_s(0.3) > 10.0
    for name in ("a", "b"):
        scheduler.insert(name, (5,), 9, 0.4)
    assert scheduler.schedule(0.4).num_scheduled_tokens == {"a": 2, "b": 2}


def test_what_rests_holds_no_slot_and_gives_its_memory_first():
    scheduler = make_scheduler(num_kv_blocks=12, block_size=4, max_num_seqs=1)
    retained = planned(scheduler, "retained")
    scheduler.retain("retained")
    scheduler.check_integrity()
    assert scheduler.ledger.free_blocks == 12 - 6
    scheduler.add(make_generation("b", 40))
    step = scheduler.schedule(1.0)
    assert step.release == ("retained",)  # lost, although it could have been offloaded
    assert retained.state is GenerationState.WAITING
    assert "b" in step.num_scheduled_tokens
    run(scheduler, step)
    scheduler.end("b")
    scheduler.insert("retained", (5,), 9, 2.0)
    step = scheduler.schedule(2.0)
    assert step.num_scheduled_tokens == {"retained": 23}
    assert step.new[0].output_token_ids == ()


def test_an_end_at_rest_frees_everything():
    scheduler = make_scheduler(num_kv_blocks=12)
    planned(scheduler)
    scheduler.retain("r")
    scheduler.end("r")
    assert scheduler.schedule(1.0).release == ("r",)
    assert scheduler.ledger.free_blocks == 12


def test_who_has_ended_takes_nothing():
    scheduler = make_scheduler()
    planned(scheduler)
    scheduler.end("r")
    scheduler.retain("r")
    with pytest.raises(ValueError, match="has ended"):
        scheduler.insert("r", (5,), 9, 1.0)
    generation = make_generation()
    generation.finish()
    with pytest.raises(ValueError, match="finished"):
        generation.insert((5,), 9)


@pytest.mark.parametrize("is_carried_out", [False, True])
def test_an_eviction_counts_on_the_prompt_that_was(is_carried_out: bool):
    scheduler = make_scheduler()
    generation = planned(scheduler)
    generation.eviction = Eviction(after_tokens=21, num_removed_tokens=8)
    if is_carried_out:
        run(scheduler, scheduler.schedule(0.2))
    scheduler.insert("r", (5, 6), 9, 1.0)
    assert (generation.eviction is None) is not is_carried_out
    step = scheduler.schedule(1.0)
    assert not step.evict
    run(scheduler, step)
    assert generation.kv_len == generation.num_computed_tokens - (8 if is_carried_out else 0)
    scheduler._places.running["r"].preempt()  # computed again, it keeps all
    assert generation.eviction is None
    assert generation.admit().evictable == ()


def test_an_insertion_that_is_lost_with_the_kv_is_in_the_prompt():
    generation = make_generation()
    generation.admit()
    generation.suspend()
    generation.insert((5, 6), 9)
    generation.preempt()
    assert generation.take_insertion() == ()
    assert generation.admit().prompt_token_ids[-2:] == (5, 6)
    assert SchedulerOutput(insert={"r": (5,)}).is_empty  # it comes with tokens to compute, or not at all


def test_one_that_restarts_keeps_its_shared_prefix_alone():
    scheduler = make_scheduler()
    scheduler.ledger.pin_prefix("system", 8)
    generation = make_generation("r", 20, 8)
    scheduler.add(generation)
    run(scheduler, scheduler.schedule(0.0))
    with pytest.raises(ValueError, match="holds KV"):
        generation.restart(range(12), 9)
    scheduler.restart("r", range(12), 9, 1.0)
    scheduler.check_integrity()
    step = scheduler.schedule(1.0)
    assert step.release == ("r",)
    assert step.new[0].prompt_token_ids == tuple(range(12))
    assert step.num_scheduled_tokens == {"r": 4}
    run(scheduler, step)
    assert (generation.num_output_tokens, generation.num_earlier_tokens, generation.num_own_prompt_tokens) == (1, 1, 0)


def test_what_is_rewritten_is_computed_again_behind_the_same_prompt():
    scheduler = make_scheduler()
    scheduler.ledger.pin_prefix("system", 8)
    generation = make_generation("r", 20, 8)
    scheduler.add(generation)
    run(scheduler, scheduler.schedule(0.0))
    run(scheduler, scheduler.schedule(0.1))
    first = generation.output_token_ids[0]
    with pytest.raises(ValueError, match="holds KV"):
        generation.rewrite((first, 77))
    scheduler.rewrite("r", (first, 77))
    scheduler.check_integrity()
    step = scheduler.schedule(1.0)
    assert (step.release, step.new[0].output_token_ids) == (("r",), (first, 77))
    assert step.num_scheduled_tokens == {"r": 12 + 2}
    run(scheduler, step)
    assert generation.output_token_ids[:2] == [first, 77]
    assert generation.num_output_tokens + generation.num_earlier_tokens == 3, "as many as were generated"
