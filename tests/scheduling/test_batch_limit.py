# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from llm_planner.core.step import StepOutput
from llm_planner.core.time_utility import NORMAL, URGENT
from llm_planner.scheduling.batch_limit import LatencyGuidedLimit
from llm_planner.scheduling.generation import GenerationState
from llm_planner.scheduling.policies.tardiness import Tardiness
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


def limit_at(times, now_s=0.0):
    return LatencyGuidedLimit(Tardiness(times), times, now_s)


def test_the_first_one_always_runs(times):
    assert limit_at(times, 1e6).admits(decoding(arrival_s=0.0))


def test_those_with_time_run_together(times):
    limit = limit_at(times)
    assert all(limit.admits(decoding(str(i))) for i in range(16))


def test_a_newcomer_with_time_pauses_if_it_would_make_the_urgent_one_late(times):
    limit = limit_at(times)
    urgent = decoding("u", URGENT, arrival_s=-0.01)  # 10 tokens in 182 ms: one more sequence just does not fit
    assert limit.admits(urgent)
    assert not limit.admits(decoding("n", NORMAL))


def test_it_joins_if_the_urgent_one_has_enough_time(times):
    limit = limit_at(times)
    assert limit.admits(decoding("u", URGENT, num_segment_steps=5))
    assert limit.admits(decoding("n", NORMAL))


def test_a_pressing_newcomer_joins_although_the_urgent_one_loses(times):
    limit = limit_at(times)
    assert limit.admits(decoding("u", URGENT, arrival_s=-0.01))
    assert limit.admits(decoding("n", NORMAL, arrival_s=-2.0))


def test_the_forecast_takes_the_papers_bound_before_it_knows_better(times):
    assert times.remaining_steps(decoding()) == DEFAULT_SEGMENT_STEPS
    for _ in range(50):
        times.observe_segment(decoding(), 4)
    assert times.remaining_steps(decoding()) == pytest.approx(4, abs=0.5)
    assert times.remaining_steps(decoding(time_utility=URGENT)) == DEFAULT_SEGMENT_STEPS
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
