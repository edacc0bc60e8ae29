# SPDX-License-Identifier: Apache-2.0
"""Several tokens per step: what counts as a prompt, which requests get drafts, and what becomes of rejected ones."""

import pytest

from llm_planner.core.step import FinishReason, StepOutput
from llm_planner.scheduling.kv_ledger import KVLedger
from tests.scheduling.builders import make_generation, make_scheduler, make_segment


def update(scheduler, scheduled, token_ids, drafted=None, rejected=None, segments=None):
    output = StepOutput(
        token_ids=token_ids, num_draft_tokens=drafted or {}, num_rejected_tokens=rejected or {}, duration_s=0.01
    )
    scheduler.update(scheduled, output, segments or {}, 0.0)
    scheduler.check_integrity()


def started(*names, token_ids=(7,), num_drafted=0, num_prompt_tokens=6, **config):
    """Returns a scheduler whose generations have computed their prompts and got tokens."""
    scheduler = make_scheduler("fcfs_stream", **config)
    for name in names:
        scheduler.add(make_generation(name, num_prompt_tokens, 0))
    tokens, drafted = dict.fromkeys(names, token_ids), dict.fromkeys(names, num_drafted)
    update(scheduler, scheduler.schedule(0.0), tokens, drafted)
    return scheduler


def only(scheduler):
    (generation,) = scheduler.generations
    return generation


def test_forced_tokens_are_computed_with_the_next_step_and_are_no_prompt():
    scheduler = started("r", token_ids=(7, 8, 9))
    assert only(scheduler).is_decoding
    assert only(scheduler).num_uncomputed_tokens == 3
    assert scheduler.schedule(0.0).num_scheduled_tokens == {"r": 3}


def test_forced_tokens_do_not_wait_for_room_beside_prompts():
    scheduler = make_scheduler("tardiness", max_num_batched_tokens=16)
    for name in ("a", "b"):
        scheduler.add(make_generation(name, 6, 0))
    update(scheduler, scheduler.schedule(0.0), {"a": (7, 8, 9), "b": (7,)})
    scheduler.add(make_generation("long", 400, 0))
    scheduled = scheduler.schedule(0.0).num_scheduled_tokens
    assert (scheduled["a"], scheduled["b"]) == (3, 1)


def test_a_preempted_generation_computes_its_forced_tokens_as_part_of_its_prompt():
    scheduler = started("r", token_ids=(7, 8, 9), num_drafted=2)
    generation = only(scheduler)
    generation.preempt()
    assert not generation.is_decoding
    assert generation.num_uncomputed_tokens == 9
    assert generation.num_draft_tokens == 0


def test_drafts_are_scheduled_beside_what_must_be_computed():
    scheduler = started("r", token_ids=(7, 8), num_drafted=4)
    assert scheduler.schedule(0.0).num_scheduled_tokens == {"r": 6}


def test_rejected_drafts_give_their_blocks_back():
    scheduler = started("r", num_drafted=4, num_prompt_tokens=7)  # the draft needs one more block of 4
    free = scheduler.ledger.free_blocks
    scheduled = scheduler.schedule(0.0)
    assert scheduler.ledger.free_blocks == free - 1
    update(scheduler, scheduled, {"r": (8,)}, rejected={"r": 4})
    assert scheduler.ledger.free_blocks == free
    assert only(scheduler).num_uncomputed_tokens == 1


def test_accepted_drafts_are_computed():
    scheduler = started("r", num_drafted=4)
    update(scheduler, scheduler.schedule(0.0), {"r": (8, 9, 10, 11)}, rejected={"r": 1})
    assert only(scheduler).num_computed_tokens == 6 + 1 + 3
    assert only(scheduler).num_uncomputed_tokens == 1


def test_blocks_of_one_that_ended_during_the_step_add_up_too():
    scheduler = started("a", "b", num_drafted=4, num_prompt_tokens=7)
    scheduled = scheduler.schedule(0.0)
    scheduler.end("a")
    update(scheduler, scheduled, {"a": (8,), "b": (8,)}, rejected={"a": 4, "b": 4})
    assert scheduler.ledger.free_blocks == 1000 - 2 - 2


def test_nobody_makes_room_for_a_guess():
    scheduler = started("a", "b", num_drafted=8, num_prompt_tokens=7, num_kv_blocks=5)  # one block left, 4 tokens each
    scheduled = scheduler.schedule(0.0)
    assert not scheduled.release
    assert scheduled.num_scheduled_tokens == {"a": 5, "b": 1}


def test_drafts_take_only_tokens_that_nobody_needs():
    scheduler = started("a", "b", num_drafted=8, max_num_batched_tokens=14)
    scheduler.add(make_generation("c", 9, 0))
    assert scheduler.schedule(0.0).num_scheduled_tokens == {"a": 4, "b": 1, "c": 9}


def test_no_draft_goes_beyond_the_last_token():
    scheduler = started("r", num_drafted=8)
    only(scheduler).max_output_tokens = 4
    assert scheduler.schedule(0.0).num_scheduled_tokens == {"r": 3}  # the last one is the model's own


def test_a_segment_is_counted_in_steps():
    scheduler = started("r", token_ids=(7, 8, 9))
    for _ in range(2):
        update(scheduler, scheduler.schedule(0.0), {"r": (1, 2, 3, 4)})
    assert only(scheduler).num_segment_steps == 3


def test_a_generation_suspended_amid_its_tokens_keeps_them():
    scheduler = make_scheduler("fcfs_segment")
    scheduler.add(make_generation("r", 6, 0))
    generation = only(scheduler)
    generation.execution.deliver(make_segment(0, 60.0), 0.0)
    update(scheduler, scheduler.schedule(0.0), {"r": (7, 8, 9)}, {"r": 2}, segments={"r": 1})
    assert scheduler.num_suspended == 1
    assert generation.num_segment_steps == 0
    scheduled = scheduler.schedule(generation.resume_at_s)
    assert scheduled.num_scheduled_tokens == {"r": 5}


def test_tokens_beyond_a_limit_are_cut_and_the_request_has_not_finished():
    output = StepOutput(
        token_ids={"a": (1, 2, 3), "b": (4,)}, finished={"a": FinishReason.STOP, "b": FinishReason.STOP}
    )
    cut = output.limited({"a": 2, "b": 1})
    assert cut.token_ids == {"a": (1, 2), "b": (4,)}
    assert set(cut.finished) == {"b"}
    assert output.limited({"a": 3}) is output


@pytest.mark.parametrize(("kv_len", "room"), [(5, 3 + 4 * 6), (8, 4 * 6)])
def test_room_is_what_is_its_own_and_what_nobody_was_promised(kv_len, room):
    ledger = KVLedger(10, 4)
    ledger.open("other", 8, 0)
    ledger.open("r", kv_len, 0)
    ledger.grow("r", kv_len)
    assert ledger.room_tokens("r", kv_len) == room
