# SPDX-License-Identifier: Apache-2.0
"""The scheduler, decision by decision."""

from dataclasses import replace

import pytest

from llm_planner.core.segment import ReportStatus
from llm_planner.core.step import StepOutput
from llm_planner.core.time_utility import URGENT
from llm_planner.prediction.execution_time import ProfiledTimes
from llm_planner.prediction.profile import find_profile
from llm_planner.scheduling.generation import GenerationState
from llm_planner.scheduling.step_times import StepTimes
from tests.scheduling.builders import NETWORK_S, make_generation, make_report, make_scheduler, make_segment, run


def test_prefills_a_prompt_then_decodes():
    scheduler = make_scheduler()
    generation = make_generation("r", num_prompt_tokens=20)
    scheduler.add(generation)
    first = scheduler.schedule(0.0)
    assert [s.request_id for s in first.new] == ["r"]
    assert first.num_scheduled_tokens == {"r": 20}
    run(scheduler, first)
    second = scheduler.schedule(0.0)
    assert second.new == ()
    assert second.num_scheduled_tokens == {"r": 1}
    assert generation.num_output_tokens == 1


def test_cached_tokens_are_not_computed():
    scheduler = make_scheduler()
    scheduler.ledger.pin_prefix("system", 16)
    scheduler.add(make_generation("r", num_prompt_tokens=20, num_cached_tokens=16))
    assert scheduler.schedule(0.0).num_scheduled_tokens == {"r": 4}


def test_long_prompts_are_chunked_and_decodes_go_first():
    scheduler = make_scheduler(max_num_batched_tokens=10)
    scheduler.add(make_generation("a", num_prompt_tokens=10))
    run(scheduler, scheduler.schedule(0.0))
    scheduler.add(make_generation("b", num_prompt_tokens=15))
    for b_tokens in (9, 6):
        scheduled = scheduler.schedule(0.0)
        assert scheduled.num_scheduled_tokens == {"a": 1, "b": b_tokens}
        run(scheduler, scheduled)
    assert scheduler.schedule(0.0).num_scheduled_tokens == {"a": 1, "b": 1}


def test_slots_are_limited_and_given_in_the_order_of_arrival():
    scheduler = make_scheduler(max_num_seqs=2)
    for index, name in enumerate("cab"):
        scheduler.add(make_generation(name, arrival_s=index))
    assert list(scheduler.schedule(3.0).num_scheduled_tokens) == ["c", "a"]
    scheduler.end("c")
    scheduled = scheduler.schedule(3.0)
    assert scheduled.release == ("c",)
    assert [s.request_id for s in scheduled.new] == ["b"]


def lead_s(scheduler, generation):
    config = scheduler.config
    return scheduler.times.resume_lead_s(generation) + config.network_latency_s + config.resume_margin_s


def test_resumes_for_the_earliest_end_of_a_segment_and_ranks_by_its_median():
    scheduler = make_scheduler("fcfs_segment")
    generation = make_generation("r")
    scheduler.add(generation)
    scheduled = scheduler.schedule(0.0)
    generation.execution.deliver(make_segment(0, 10.0, min_s=9.0, p90_s=10.5), 0.0)
    output = StepOutput(token_ids={"r": (7,)}, duration_s=0.01)
    scheduler.update(scheduled, output, {"r": 1}, 0.0)
    assert generation.robot_idle_at_s == pytest.approx(NETWORK_S + 10.0)
    assert generation.resume_at_s == pytest.approx(NETWORK_S + 9.0 - lead_s(scheduler, generation))


@pytest.mark.parametrize("can_offload", [True, False])
def test_one_that_loses_its_kv_while_it_is_suspended_resumes_earlier_by_what_bringing_it_back_takes(can_offload):
    scheduler, _, b = _suspended_pair(can_offload, times=ProfiledTimes(find_profile("llama3-8b-rtx4090")))
    before_s, resident_s = b.resume_at_s, scheduler.times.resume_lead_s(b)
    scheduler.add(make_generation("c", num_prompt_tokens=16))
    scheduler.schedule(0.1)
    assert b.is_offloaded or b.num_preemptions
    back_s = scheduler.times.resume_lead_s(b) - resident_s
    assert back_s > 0 or not can_offload  # 18 tokens are computed while a step reads the weights
    assert b.resume_at_s == pytest.approx(before_s - back_s)
    scheduler.end("a")
    assert scheduler._places.suspended.next_s == b.resume_at_s


def test_suspends_while_the_robot_is_busy_and_resumes_in_time():
    scheduler = make_scheduler("fcfs_segment", resume_margin_s=0.1)
    generation = make_generation("r")
    scheduler.add(generation)
    run(scheduler, scheduler.schedule(0.0), now_s=1.0, segments={"r": 10.0})
    assert generation.state is GenerationState.SUSPENDED
    assert generation.robot_idle_at_s == 1.0 + NETWORK_S + 10.0
    wakeup_s = scheduler.next_wakeup_s(1.0)
    assert wakeup_s == pytest.approx(generation.robot_idle_at_s - lead_s(scheduler, generation))
    assert scheduler.schedule(wakeup_s - 0.001).is_empty
    assert scheduler.schedule(wakeup_s).num_scheduled_tokens == {"r": 1}
    assert generation.num_suspensions == 1


def test_does_not_suspend_for_a_segment_that_is_over_at_once():
    scheduler = make_scheduler("fcfs_segment")
    scheduler.add(make_generation("r"))
    run(scheduler, scheduler.schedule(0.0), segments={"r": 0.0})
    assert scheduler.num_running == 1


def test_policies_that_do_not_suspend_go_on():
    for policy in ("fcfs", "fcfs_stream"):
        scheduler = make_scheduler(policy)
        scheduler.add(make_generation("r"))
        run(scheduler, scheduler.schedule(0.0), segments={"r": 10.0})
        assert scheduler.num_running == 1


def test_resumes_at_once_when_the_robot_is_done_early():
    scheduler = make_scheduler("fcfs_segment")
    generation = make_generation("r")
    scheduler.add(generation)
    run(scheduler, scheduler.schedule(0.0), segments={"r": 10.0})
    generation.execution.report(make_report(0), 2.0)
    scheduler.robot_reported("r", 2.0)
    assert scheduler.next_wakeup_s(2.0) == 2.0
    assert scheduler.schedule(2.0).num_scheduled_tokens == {"r": 1}


def test_a_report_changes_the_rank_of_one_that_runs():
    scheduler = make_scheduler("tardiness")
    for name in ("first", "second"):
        scheduler.add(make_generation(name))
    run(scheduler, scheduler.schedule(0.0), segments={"first": 10.0, "second": 11.0})
    run(scheduler, scheduler.schedule(11.5), now_s=11.5)  # both robots should be idle by now
    first, second = sorted(scheduler.running, key=lambda g: g.request_id)
    assert scheduler.policy.rank(first, 11.5) < scheduler.policy.rank(second, 11.5)
    first.execution.report(make_report(0, ReportStatus.STARTED, request_id="first"), 11.5)
    scheduler.robot_reported("first", 11.5)  # its robot began late and works until 21.5
    assert scheduler.policy.rank(first, 11.5) > scheduler.policy.rank(second, 11.5)


def test_one_that_is_ready_is_queued_again_after_a_report():
    scheduler = make_scheduler("tardiness", max_num_seqs=2)
    for name in ("first", "second"):
        scheduler.add(make_generation(name))
    run(scheduler, scheduler.schedule(0.0), segments={"first": 10.0, "second": 11.0})
    for number in range(2):  # two urgent ones take the slots before the suspended ones are due
        urgent = make_generation(f"urgent_{number}", arrival_s=11.0)
        urgent.request = replace(urgent.request, time_utility=URGENT)
        scheduler.add(urgent)
    scheduled = scheduler.schedule(11.5)
    assert set(scheduled.num_scheduled_tokens) == {"urgent_0", "urgent_1"}
    first = next(g for g in scheduler.ready if g.request_id == "first")
    first.execution.report(make_report(0, ReportStatus.STARTED, request_id="first"), 11.5)
    scheduler.robot_reported("first", 11.5)
    for number in range(2):
        scheduler.end(f"urgent_{number}")
    scheduler.config = replace(scheduler.config, max_num_seqs=1)
    assert set(scheduler.schedule(11.6).num_scheduled_tokens) == {"second"}


def test_resumes_later_when_the_robot_started_late():
    scheduler = make_scheduler("fcfs_segment")
    generation = make_generation("r")
    scheduler.add(generation)
    run(scheduler, scheduler.schedule(0.0), segments={"r": 10.0})
    before_s = generation.resume_at_s
    generation.execution.report(make_report(0, ReportStatus.STARTED, 0.0), 5.0 + NETWORK_S)
    scheduler.robot_reported("r", 5.0)
    assert generation.resume_at_s == pytest.approx(before_s + 5.0 - NETWORK_S)
    assert scheduler.schedule(before_s).is_empty
    assert not scheduler.schedule(generation.resume_at_s).is_empty


def test_admission_leaves_a_block_to_every_running_generation():
    scheduler = make_scheduler(num_kv_blocks=10, block_size=4)
    scheduler.add(make_generation("a", num_prompt_tokens=16))  # 4 blocks
    run(scheduler, scheduler.schedule(0.0))
    scheduler.add(make_generation("b", num_prompt_tokens=24))  # 6 blocks: they would fit, but a could not grow
    assert list(scheduler.schedule(0.0).num_scheduled_tokens) == ["a"]


def test_admission_reserves_the_whole_prompt():
    scheduler = make_scheduler(num_kv_blocks=10, block_size=4, max_num_batched_tokens=8)
    scheduler.add(make_generation("a", num_prompt_tokens=9))
    run(scheduler, scheduler.schedule(0.0))  # all but the last token
    scheduler.add(make_generation("b", num_prompt_tokens=20))  # 5 blocks, of which the first chunk fills 2
    run(scheduler, scheduler.schedule(0.0))
    assert scheduler.ledger.free_blocks == 5
    scheduler.add(make_generation("c", num_prompt_tokens=8))  # would fit into the free blocks, but 3 are reserved for b
    scheduler.config = replace(scheduler.config, max_num_batched_tokens=100)
    assert list(scheduler.schedule(0.0).num_scheduled_tokens) == ["a", "b"]


def test_nobody_overtakes_the_first_in_line_for_memory():
    scheduler = make_scheduler(num_kv_blocks=10, block_size=4)
    scheduler.add(make_generation("a", num_prompt_tokens=16))
    run(scheduler, scheduler.schedule(0.0))
    scheduler.add(make_generation("big", num_prompt_tokens=32, arrival_s=1.0))
    scheduler.add(make_generation("small", num_prompt_tokens=4, arrival_s=2.0))
    assert list(scheduler.schedule(2.0).num_scheduled_tokens) == ["a"]
    scheduler.end("a")
    assert list(scheduler.schedule(2.0).num_scheduled_tokens) == ["big", "small"]


def _suspended_pair(can_offload: bool, times=None, **info):
    """Two suspended generations of 4 blocks each in a cache of 10; b's robot is busy longer than a's."""
    scheduler = make_scheduler(
        "fcfs_segment", num_kv_blocks=10, block_size=4, can_offload=can_offload, times=times, **info
    )
    a, b = make_generation("a", num_prompt_tokens=16), make_generation("b", num_prompt_tokens=16)
    scheduler.add(a)
    scheduler.add(b)
    run(scheduler, scheduler.schedule(0.0))
    run(scheduler, scheduler.schedule(0.0), segments={"a": 10.0, "b": 20.0})
    assert scheduler.num_suspended == 2
    return scheduler, a, b


def test_memory_comes_from_the_longest_suspended_by_offloading():
    scheduler, a, b = _suspended_pair(can_offload=True)
    scheduler.add(make_generation("c", num_prompt_tokens=16))
    scheduled = scheduler.schedule(0.1)
    assert scheduled.offload == ("b",)
    assert b.is_offloaded
    assert not a.is_offloaded
    assert b.resume_at_s == pytest.approx(b.robot_idle_at_s - lead_s(scheduler, b))
    assert scheduler.schedule(b.resume_at_s - 0.001).restore == ()
    run(scheduler, scheduled)
    scheduler.end("c")
    scheduler.end("a")
    scheduled = scheduler.schedule(b.resume_at_s)
    assert scheduled.restore == ("b",)
    assert scheduled.num_scheduled_tokens == {"b": 1}


def test_host_memory_that_is_full_has_room_again_once_kv_has_left_it():
    scheduler, _, b = _suspended_pair(can_offload=True, num_host_blocks=9)
    scheduler.add(make_generation("c", num_prompt_tokens=30))
    scheduled = scheduler.schedule(0.1)
    assert (scheduled.offload, scheduled.release) == (("b",), ("a",))  # five blocks each
    assert scheduler.ledger.offloaded_blocks == 5
    run(scheduler, scheduled)
    scheduler.end("c")
    scheduler.end("a")
    assert scheduler.schedule(b.resume_at_s).restore == ("b",)
    assert scheduler.ledger.offloaded_blocks == 0


@pytest.mark.parametrize("host", [{"can_offload": False}, {"can_offload": True, "num_host_blocks": 4}])
def test_memory_comes_from_the_longest_suspended_by_preemption(host):
    """It holds five blocks."""
    scheduler, a, b = _suspended_pair(**host)
    scheduler.add(make_generation("c", num_prompt_tokens=16))
    scheduled = scheduler.schedule(0.1)
    assert scheduled.release == ("b",)
    assert b.state is GenerationState.WAITING
    assert a.state is GenerationState.SUSPENDED
    assert b.resume_at_s == pytest.approx(b.robot_idle_at_s - lead_s(scheduler, b))
    run(scheduler, scheduled)
    scheduler.end("c")
    scheduler.end("a")
    assert scheduler.schedule(0.2).num_scheduled_tokens == {}  # its robot is still busy
    scheduled = scheduler.schedule(b.resume_at_s)
    assert [s.output_token_ids for s in scheduled.new] == [(7, 7)]
    assert scheduled.num_scheduled_tokens == {"b": 18}  # prompt and own tokens


@pytest.mark.parametrize("policy", ["fcfs_segment", "tardiness", "tardiness_safe", "pud"])
def test_small_ones_do_not_keep_the_memory_from_a_long_plan_for_ever(policy):
    scheduler = make_scheduler(policy, num_kv_blocks=100, block_size=4, max_num_seqs=8)
    scheduler.add(long := make_generation("long", 240))
    run(scheduler, scheduler.schedule(0.0), segments={"long": 1.0})
    for step in range(1, 400):
        now_s = 0.01 * step
        if step % 10 == 0:
            scheduler.add(make_generation(f"small{step}", 40, arrival_s=now_s))
        run(scheduler, scheduler.schedule(now_s), now_s)
        for generation in [g for g in scheduler.generations if g is not long and g.num_output_tokens >= 40]:
            scheduler.end(generation.request_id)
        if long.num_output_tokens > 1:
            return
    pytest.fail("it never came back")


@pytest.mark.parametrize("is_reserved", [False, True])
@pytest.mark.parametrize("can_offload", [False, True])
def test_a_plan_that_finds_no_memory_does_not_hold_up_a_better_ranked_prompt(can_offload, is_reserved):
    scheduler = make_scheduler("tardiness", num_kv_blocks=40, block_size=4, max_num_seqs=8, can_offload=can_offload)
    scheduler.add(make_generation("back", 60))
    run(scheduler, scheduler.schedule(0.0), segments={"back": 5.0})
    scheduler.add(large := make_generation("large", 93))
    while not large.output_token_ids:
        run(scheduler, scheduler.schedule(0.01), 0.01)
    urgent = make_generation("urgent", 12, arrival_s=5.0)
    urgent.request = replace(urgent.request, time_utility=URGENT)
    scheduler.add(urgent)
    if is_reserved:
        scheduler.reserve("urgent", 7)
    assert scheduler.schedule(5.0).num_scheduled_tokens == {"large": 1, "urgent": 12}


def test_the_lowest_ranked_running_one_is_preempted():
    scheduler = make_scheduler("fcfs", num_kv_blocks=9, block_size=4)
    first, last = make_generation("first", num_prompt_tokens=15), make_generation("last", num_prompt_tokens=14)
    scheduler.add(first)
    scheduler.add(last)
    for _ in range(10):
        run(scheduler, scheduler.schedule(0.0))
    assert last.num_preemptions == 1
    assert first.num_preemptions == 0
    assert last.state is GenerationState.WAITING
    scheduler.end("first")
    scheduled = scheduler.schedule(0.0)
    assert scheduled.new[0].output_token_ids == (7,) * last.num_output_tokens


def test_one_that_decodes_keeps_its_kv_where_a_worse_ranked_prompt_can_give_its_own():
    """The batch limit leaves prompts for later, but not their memory."""
    scheduler = make_scheduler("tardiness", num_kv_blocks=12, can_offload=False, max_num_batched_tokens=2)
    urgent, normal = make_generation("urgent", num_prompt_tokens=15), make_generation("normal", num_prompt_tokens=28)
    urgent.request = replace(urgent.request, time_utility=URGENT)
    scheduler.add(urgent)
    while not urgent.output_token_ids:
        run(scheduler, scheduler.schedule(0.0))
    scheduler.add(normal)
    while urgent.num_tokens < 22:  # six blocks
        run(scheduler, scheduler.schedule(0.0))
    assert (urgent.num_preemptions, normal.num_preemptions) == (0, 1)


def test_a_generation_beyond_the_whole_cache_is_unschedulable():
    scheduler = make_scheduler("fcfs", num_kv_blocks=3, block_size=4)
    scheduler.add(make_generation("r", num_prompt_tokens=11))
    for _ in range(4):
        run(scheduler, scheduler.schedule(0.0))
    assert scheduler.take_unschedulable() == ["r"]
    assert scheduler.take_unschedulable() == []


def test_nothing_to_do_is_never():
    scheduler = make_scheduler()
    assert scheduler.next_wakeup_s(0.0) is None
    assert scheduler.schedule(0.0).is_empty
    scheduler.add(make_generation("r"))
    assert scheduler.next_wakeup_s(5.0) == 5.0
    scheduler.end("r")
    assert scheduler.schedule(5.0).is_empty


def test_a_generation_that_ends_during_the_step_is_not_booked():
    scheduler = make_scheduler()
    scheduler.add(make_generation("r"))
    scheduled = scheduler.schedule(0.0)
    scheduler.end("r")
    output = StepOutput(token_ids={"r": (7,)}, duration_s=0.01)
    scheduler.update(scheduled, output, {"r": 1}, 0.0)
    assert scheduler.schedule(0.0).release == ("r",)
    scheduler.check_integrity()


def test_one_that_is_ready_and_loses_its_kv_is_ranked_by_what_it_must_compute_again(monkeypatch):
    monkeypatch.setattr(StepTimes, "chunk_s", lambda _, num_prompt_tokens: 0.01 * num_prompt_tokens)
    scheduler = make_scheduler("tardiness", num_kv_blocks=24, can_offload=False, max_num_seqs=2)
    kept, lost = make_generation("kept", 36, arrival_s=0.001), make_generation("lost", 36)
    for generation in (kept, lost):
        scheduler.add(generation)
    for _ in range(2):
        run(scheduler, scheduler.schedule(0.0))
    scheduler.add(make_generation("budgeted", 40, arrival_s=5.0))
    scheduler.reserve("budgeted", 0)
    run(scheduler, scheduler.schedule(5.0))  # both pause, and one of them gives its memory
    assert (kept.num_preemptions, lost.num_preemptions) == (0, 1)
    scheduler.end("budgeted")
    scheduler.config = replace(scheduler.config, max_num_seqs=1)
    assert set(scheduler.schedule(5.0).num_scheduled_tokens) == {"kept"}
