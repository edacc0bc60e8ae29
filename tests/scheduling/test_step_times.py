# SPDX-License-Identifier: Apache-2.0
"""What the one source of step times learns, and what it answers."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.request import Urgency
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.core.time_utility import NORMAL
from llm_planner.prediction.execution_time import ProfiledTimes
from llm_planner.prediction.profile import Chunk, find_profile
from llm_planner.scheduling.step_model import DEFAULT_STEP_S, MOST_OFF
from llm_planner.scheduling.step_times import DEFAULT_SEGMENT_STEPS, ENOUGH_STEPS, SmoothedBound, StepTimes
from tests.scheduling.builders import make_generation, make_scheduler

PROFILE = find_profile("llama3-8b-rtx4090")


def step(*num_tokens):
    return SchedulerOutput(num_scheduled_tokens={f"r{i}": n for i, n in enumerate(num_tokens)})


def chunks(*num_tokens):
    return [(n, 50) for n in num_tokens]


def decoding(urgency=Urgency.NORMAL, **changes):
    generation = make_generation("r", 20)
    generation.request = replace(generation.request, urgency=urgency, **changes)
    generation.num_computed_tokens = 19
    return generation


def test_a_steady_quantity_is_learned():
    bound = SmoothedBound(9.0)
    assert bound.bound == 9.0
    for _ in range(100):
        bound.observe(2.0)
    assert bound.bound == pytest.approx(2.0)


@given(st.lists(st.floats(0.0, 100.0), min_size=1))
def test_the_bound_is_never_below_the_least(values):
    bound = SmoothedBound(0.0)
    for value in values:
        bound.observe(value)
    assert bound.bound >= min(values) - 1e-9


def test_noise_keeps_a_margin():
    bound = SmoothedBound(0.0)
    for i in range(200):
        bound.observe(1.0 if i % 2 else 3.0)
    assert 3.0 < bound.bound < 5.0


def test_a_segment_takes_steps_times_tokens():
    times = StepTimes()
    for _ in range(100):
        times.observe_step(chunks(1), 0.01)
        times.observe_segment(decoding(), 20)
    assert times.generation_time_s(decoding()) == pytest.approx(0.2, rel=1e-3)
    assert times.resume_lead_s(decoding()) == times.generation_time_s(decoding())


def test_segments_of_another_kind_are_learned_apart():
    times = StepTimes()
    for _ in range(100):
        times.observe_step(chunks(1), 0.01)
        times.observe_segment(decoding(), 4)
    assert times.remaining_steps(decoding()) == pytest.approx(4, rel=1e-3)
    assert times.remaining_steps(decoding(Urgency.URGENT)) == DEFAULT_SEGMENT_STEPS
    assert times.resume_lead_s(decoding()) == pytest.approx(0.04, rel=1e-3)
    assert times.resume_lead_s(decoding(Urgency.URGENT)) == pytest.approx(0.01 * DEFAULT_SEGMENT_STEPS, rel=1e-3)


def test_a_response_time_that_a_client_chooses_makes_no_kind_of_its_own():
    times = StepTimes()
    for ert_s in range(1, 101):
        times.observe_segment(decoding(time_utility=replace(NORMAL, ert_s=ert_s / 10)), 4)
    assert times.remaining_steps(decoding()) == pytest.approx(4, rel=1e-3)
    assert len(times._kinds) == 1


def test_before_anything_was_seen_a_step_is_slow():
    assert StepTimes().bound_s(step(1)) == DEFAULT_STEP_S
    assert StepTimes().bound_s(step(1, 400)) > 2 * DEFAULT_STEP_S


def test_a_prompt_makes_only_the_steps_with_a_prompt_longer():
    times = StepTimes()
    times.observe_step(chunks(1, 1), 0.01)
    times.observe_step(chunks(1, 200), 0.21, num_prompt_tokens=200)
    assert times.bound_s(step(1, 3)) == 0.01  # a few tokens at once are decoding
    assert abs(times.bound_s(step(1, 100)) - 0.11) < 1e-9


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=50))
def test_no_step_is_longer_than_what_was_seen_of_late(durations_s):
    times, most_s = StepTimes(), math.inf
    for duration_s in durations_s:
        times.observe_step(chunks(1), duration_s)
        assert min(duration_s, most_s) <= times.bound_s(step(1)) <= max(durations_s)
        most_s = MOST_OFF * times.bound_s(step(1))


def test_a_step_that_was_held_up_is_no_bound_of_those_that_follow():
    times = StepTimes()
    for _ in range(20):
        times.observe_step(chunks(1), 0.01)
        times.observe_step(chunks(1, 200), 0.03, num_prompt_tokens=200)
    times.observe_step(chunks(1, 20), 1.0, num_prompt_tokens=20)
    assert times.bound_s(step(1, 1000)) < 0.5
    times.observe_step(chunks(1), 30.0)
    assert times.bound_s(step(1)) <= 0.04


@pytest.mark.parametrize("duration_s", [5.0, 30.0])
def test_a_stall_does_not_make_what_steps_take_infeasible(duration_s):
    """Nothing that is refused for it would run, and so nothing would ever correct it."""
    times = StepTimes()
    for _ in range(50):
        times.observe_step(chunks(1), 0.01)
    times.observe_step(chunks(1), duration_s)
    assert times.engine.cautious.decode_line(1).q_s < 0.02
    assert times.step_s < 0.02


def test_a_slow_step_is_forgotten():
    times = StepTimes()
    times.observe_step(chunks(1), 1.0)
    for _ in range(200):
        times.observe_step(chunks(1), 0.01)
    assert times.bound_s(step(1)) < 0.02


def test_an_empty_step_teaches_nothing():
    times = StepTimes()
    for _ in range(2 * ENOUGH_STEPS):
        times.observe_step([], 9.0)
    assert times.bound_s(step(1)) == DEFAULT_STEP_S
    assert times.step_s == DEFAULT_STEP_S
    assert not times.engine.is_known


def test_a_step_that_moves_kv_says_nothing_of_computing():
    times = StepTimes()
    for _ in range(2 * ENOUGH_STEPS):
        times.observe_step(chunks(1), 0.5, moves_kv=True)
    assert not times.engine.is_known


def test_offloaded_kv_takes_the_profiled_time_to_come_back():
    times = StepTimes(engine=ProfiledTimes(PROFILE))
    generation = decoding()
    resident_s = times.resume_lead_s(generation)
    generation.is_offloaded = True
    assert times.resume_lead_s(generation) - resident_s == pytest.approx(PROFILE.resume.time_s(19))
    generation.sequence = replace(generation.sequence, num_cached_tokens=16)  # shared ones never leave
    assert times.resume_lead_s(generation) - resident_s == pytest.approx(PROFILE.resume.time_s(3))


def test_without_a_profile_the_time_to_move_kv_is_learned_from_steps_that_do():
    times, generation = StepTimes(), decoding()
    generation.is_offloaded = True
    for _ in range(100):
        times.observe_step(chunks(1), 0.01)
    assert times.resume_lead_s(generation) == times.generation_time_s(generation)
    for _ in range(40):
        for _ in range(20):
            times.observe_step(chunks(1), 0.01)
        times.observe_step(chunks(1), 0.012, moves_kv=True, num_moved_tokens=100)
    restore_s = times.resume_lead_s(generation) - times.generation_time_s(generation)
    assert 19 * 1.8e-5 < restore_s < 19 * 2.5e-5  # 20 us for each token, on the cautious side


def test_kv_that_was_dropped_takes_the_time_to_compute_it():
    times, generation = StepTimes(engine=ProfiledTimes(PROFILE)), make_generation("r", 1170)
    for num_tokens in (1000, 500, 1170) * 5:
        times.observe_step(chunks(1), PROFILE.step_s([Chunk(1, 50)]))
        duration_s = PROFILE.step_s([Chunk(num_tokens, 0)])
        times.observe_step([(num_tokens, 0)], duration_s, num_prompt_tokens=num_tokens)
    resident = make_generation("r", 1170)
    resident.num_computed_tokens = 1169
    dropped_s = times.resume_lead_s(generation) - times.resume_lead_s(resident)
    assert dropped_s == pytest.approx(PROFILE.prefill_s(1170) - times.step_s, rel=0.05)  # 133 ms, a step hidden in it


def test_one_step_of_the_loop_teaches_every_answer():
    scheduler = make_scheduler()
    scheduler.add(make_generation("r", 20))
    for _ in range(1 + ENOUGH_STEPS):
        scheduled = scheduler.schedule(0.0)
        tokens = dict.fromkeys(scheduled.num_scheduled_tokens, (7,))
        scheduler.update(scheduled, StepOutput(token_ids=tokens, duration_s=0.02), {}, 0.0)
    times = scheduler.times
    assert times.engine.is_known
    assert times.decode_bound_s == pytest.approx(0.02)
    assert times.model.base_s == pytest.approx(0.02)
    assert times.engine.expected.decode_line(1).q_s == pytest.approx(0.02)
    assert times.step_s < DEFAULT_STEP_S
