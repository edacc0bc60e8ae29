# SPDX-License-Identifier: Apache-2.0
"""Orders to evict: what is refused, when they are carried out, and that they are repeated after a preemption."""

from dataclasses import replace

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.eviction import OBSERVATION_TOKENS, Eviction
from llm_planner.core.interfaces import BackendInfo
from llm_planner.scheduling.eviction import decide_eviction
from llm_planner.scheduling.step_builder import StepBuilder
from tests.scheduling.builders import make_generation, make_scheduler, run

NUM_PROMPT = 68 + OBSERVATION_TOKENS
INFO = BackendInfo(model="m", num_kv_blocks=100, block_size=4, max_model_len=400, can_offload=True, can_evict=True)


def evictable_generation(request_id="r", num_cached=8):
    generation = make_generation(request_id, NUM_PROMPT, num_cached)
    generation.sequence = replace(generation.sequence, evictable=((8, 68),))
    return generation


def test_an_order_is_refused_by_a_backend_that_cannot_and_changes_nothing():
    generation = evictable_generation()
    with pytest.raises(PlannerError, match="cannot evict") as caught:
        decide_eviction(generation, 0.5, replace(INFO, can_evict=False))
    assert caught.value.code is ErrorCode.EVICTION_UNSUPPORTED
    assert generation.eviction is None


def test_orders_before_the_eviction_replace_each_other_and_none_comes_after_it():
    generation = evictable_generation()
    assert decide_eviction(generation, 0.3, INFO) == Eviction(after_tokens=NUM_PROMPT, num_removed_tokens=30)
    assert decide_eviction(generation, 1.0, INFO) == Eviction(after_tokens=NUM_PROMPT, num_removed_tokens=60)
    assert decide_eviction(generation, 0.0, INFO) is None
    assert generation.peak_kv_len == NUM_PROMPT
    decide_eviction(generation, 0.3, INFO)
    generation.num_computed_tokens = NUM_PROMPT
    generation.evict()
    with pytest.raises(ValueError, match="evicted already"):
        decide_eviction(generation, 0.5, INFO)


@pytest.mark.parametrize("ratio", [float("nan"), -0.5, 2.0])
def test_a_ratio_out_of_range_is_refused(ratio):
    with pytest.raises(ValueError, match="between 0 and 1"):
        decide_eviction(evictable_generation(), ratio, INFO)


def test_an_eviction_happens_in_the_step_after_the_prompt_and_again_after_a_preemption():
    scheduler = make_scheduler(max_num_batched_tokens=64)
    scheduler.ledger.pin_prefix("system", 8)
    generation = evictable_generation()
    scheduler.add(generation)
    decide_eviction(generation, 0.5, INFO)  # 50 of 100 tokens
    evicted, num_tokens, free = [], [], []

    def step():
        scheduled = scheduler.schedule(0.0)
        run(scheduler, scheduled)
        evicted.append(dict(scheduled.evict))
        num_tokens.append(scheduled.num_scheduled_tokens["r"])
        free.append(scheduler.ledger.free_blocks)

    for _ in range(4):
        step()
    assert num_tokens == [64, 28, 1, 1]
    assert evicted == [{}, {}, {"r": 50}, {}]
    assert free == [998 - 16, 998 - 23, 998 - 11, 998 - 11]  # 51, then 52 tokens, 8 of them shared
    StepBuilder(scheduler.ledger, 64, (), 0).preempt(generation)
    assert (generation.num_evicted_tokens, generation.eviction_ratio) == (0, 0.5)
    assert generation.peak_kv_len == NUM_PROMPT
    assert decide_eviction(generation, 0.0, INFO) is generation.eviction is not None  # what it wrote depends on it
    del scheduler._places.running["r"]
    scheduler._places.ready.add(generation)
    for _ in range(3):
        step()
    assert num_tokens[4:] == [64, 28, 3]  # no chunk goes beyond the place of the eviction
    assert evicted[4:] == [{}, {}, {"r": 50}]
    assert free[6] == 998 - 12
