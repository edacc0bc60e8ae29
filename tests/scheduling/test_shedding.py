# SPDX-License-Identifier: Apache-2.0
"""Load shedding: what has not started and is worth nothing any more is named, once, and nothing else is."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.time_utility import NORMAL, URGENT, TimeUtility
from tests.scheduling.builders import make_generation, make_scheduler, make_segment, run

WORTHLESS_AT_S = {NORMAL: 1.5, URGENT: 0.5}


def waiting(scheduler, request_id="r", time_utility=NORMAL, arrival_s=0.0):
    generation = make_generation(request_id, arrival_s=arrival_s)
    generation.request = replace(generation.request, time_utility=time_utility)
    scheduler.add(generation)
    return generation


def test_by_default_nothing_is_shed():
    scheduler = make_scheduler()
    waiting(scheduler)
    assert scheduler.shed(1e6) == []
    assert scheduler.num_shed == 0


@pytest.mark.parametrize("time_utility", [NORMAL, URGENT])
def test_it_is_shed_when_its_utility_has_reached_zero_and_not_before(time_utility):
    scheduler = make_scheduler(sheds_load=True)
    waiting(scheduler, time_utility=time_utility, arrival_s=3.0)
    worthless_at_s = 3.0 + WORTHLESS_AT_S[time_utility]
    assert scheduler.shed(worthless_at_s - 1e-6) == []
    assert scheduler.shed(worthless_at_s + 1e-6) == ["r"]
    assert scheduler.num_shed == 1


def test_what_has_started_is_never_shed():
    scheduler = make_scheduler(sheds_load=True, max_num_batched_tokens=8)
    generation = waiting(scheduler)
    run(scheduler, scheduler.schedule(0.0))  # the first chunk of its prompt
    assert scheduler.shed(1e6) == []
    scheduler.insert("r", (), 100, 0.0)  # takes it out of the batch
    assert generation.request_id in {g.request_id for g in scheduler.ready}
    assert scheduler.shed(1e6) == []


def test_what_lost_its_memory_has_started():
    scheduler = make_scheduler(sheds_load=True)
    waiting(scheduler).num_preemptions = 1
    assert scheduler.shed(1e6) == []


def test_what_was_sent_by_a_process_before_this_one_has_started():
    scheduler = make_scheduler(sheds_load=True)
    waiting(scheduler).execution.deliver(make_segment(), 0.0)
    assert scheduler.shed(1e6) == []


def test_a_reserved_slot_was_promised():
    scheduler = make_scheduler(sheds_load=True)
    waiting(scheduler)
    scheduler.reserve("r", 4)
    assert scheduler.shed(1e6) == []


def test_a_utility_that_never_reaches_zero_is_never_shed():
    scheduler = make_scheduler(sheds_load=True)
    waiting(scheduler, "flat", TimeUtility(1.0, 0.0, 1.0))
    waiting(scheduler, "exponential", TimeUtility(1.0, -0.01, 1.0, "exponential"))
    waiting(scheduler, "firm", TimeUtility(1.0, -1.0, 1.0, "step"))
    assert scheduler.shed(100.0) == ["firm"]


@given(
    arrivals=st.lists(st.tuples(st.floats(0, 10), st.sampled_from([NORMAL, URGENT])), max_size=20),
    now_s=st.floats(0, 20),
)
def test_exactly_the_worthless_are_shed(arrivals, now_s):
    scheduler = make_scheduler(sheds_load=True)
    for number, (arrival_s, time_utility) in enumerate(arrivals):
        waiting(scheduler, f"r{number}", time_utility, arrival_s)
    worthless = {f"r{n}" for n, (arrival_s, utility) in enumerate(arrivals) if utility(now_s - arrival_s) <= 0}
    assert set(scheduler.shed(now_s)) == worthless
