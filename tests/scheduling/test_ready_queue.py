# SPDX-License-Identifier: Apache-2.0
from contextlib import closing
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.request import Urgency
from llm_planner.core.time_utility import NORMAL, URGENT
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.policies.pricing import NominalForecast
from llm_planner.scheduling.ready_queue import ReadyQueue
from tests.scheduling.builders import make_generation

POLICIES = (
    *("fcfs_segment", "edf_segment", "pud_printed", "pud", "gain_density", "tardiness"),
    *("a_max", "a_min", "a_l", "adaptive", "tardiness_safe"),
)

members = st.lists(
    st.tuples(st.booleans(), st.floats(0, 5), st.integers(1, 60), st.integers(0, 2)), min_size=1, max_size=20
)


def generations(rows):
    made = []
    for order, (is_urgent, arrival_s, num_prompt_tokens, num_segments) in enumerate(rows):
        generation = make_generation(f"r{order}", num_prompt_tokens, arrival_s=arrival_s)
        time_utility = URGENT if is_urgent else NORMAL
        generation.request = replace(generation.request, time_utility=time_utility)
        generation.order = order
        generation.num_segments = num_segments
        generation.robot_idle_at_s = arrival_s + num_segments
        made.append(generation)
    return made


def queue_of(policy, made):
    queue = ReadyQueue(policy)
    for generation in made:
        queue.add(generation)
    return queue


@pytest.mark.parametrize("name", POLICIES)
@given(rows=members, now_s=st.floats(0, 10))
def test_lanes_give_the_order_that_ranking_everybody_gives(name, rows, now_s):
    policy = make_policy(name)
    made = generations(rows)
    expected = sorted(made, key=lambda g: policy.rank(g, now_s))
    with closing(queue_of(policy, made).ranked(now_s)) as ranked:
        assert [g.request_id for g in ranked] == [g.request_id for g in expected]


class ByUrgency(NominalForecast):
    """Plans of emergencies are short, as in service (``step_times``)."""

    def generation_time_s(self, generation):
        return 0.01 if generation.request.urgency is Urgency.URGENT else 2.0


@pytest.mark.parametrize("name", ["tardiness", "tardiness_safe"])
@given(rows=members, now_s=st.floats(0, 10))
def test_urgent_ones_are_other_work_though_they_lose_as_much(name, rows, now_s):
    policy = make_policy(name)
    policy.forecast = ByUrgency()
    made = generations((False, *row) for _, *row in rows)
    for (is_urgent, *_), generation in zip(rows, made, strict=True):
        urgency = Urgency.URGENT if is_urgent else Urgency.NORMAL
        generation.request = replace(generation.request, urgency=urgency, time_utility=NORMAL)
    expected = sorted(made, key=lambda g: policy.rank(g, now_s))
    with closing(queue_of(policy, made).ranked(now_s)) as ranked:
        assert list(ranked) == expected


@given(rows=members, now_s=st.floats(0, 10), num_taken=st.integers(0, 20), data=st.data())
def test_what_is_popped_while_looking_is_gone_and_the_rest_stays(rows, now_s, num_taken, data):
    policy = make_policy("tardiness")
    made = generations(rows)
    queue = queue_of(policy, made)
    gone = set()
    with closing(queue.ranked(now_s)) as ranked:
        for generation in islice(ranked, num_taken):
            if data.draw(st.booleans()):
                assert queue.pop(generation.request_id) is generation
                gone.add(generation.request_id)
    back = data.draw(st.sampled_from(made))
    if back.request_id in gone:
        queue.add(back)
        gone.remove(back.request_id)
    expected = sorted((g for g in made if g.request_id not in gone), key=lambda g: policy.rank(g, now_s))
    with closing(queue.ranked(now_s)) as ranked:
        assert list(ranked) == expected
    assert len(queue) == len(expected)


def test_one_that_has_ended_does_not_take_the_place_of_a_new_one_of_its_id():
    ended, new = make_generation("r"), make_generation("r")
    queue = queue_of(make_policy("tardiness"), [new])
    queue.place_again(ended)
    assert list(queue.values()) == [new]
