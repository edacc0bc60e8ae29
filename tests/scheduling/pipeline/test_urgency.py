# SPDX-License-Identifier: Apache-2.0
from llm_planner.core.time_utility import NORMAL, URGENT
from llm_planner.scheduling.pipeline.urgency import urgent, urgent_requests
from tests.scheduling.builders import make_generation


def test_an_urgent_request_among_normal_ones_is_urgent_once_it_would_be_late():
    assert urgent([(URGENT, 0.15), (NORMAL, 0.15), (NORMAL, 0.15)], 0.1) == [True, False, False]
    assert urgent([(URGENT, 0.05), (NORMAL, 0.05), (NORMAL, 0.05)], 0.1) == [False, False, False]


def test_if_all_lose_alike_nobody_is():
    assert urgent([(NORMAL, 9.0)] * 5, 0.1) == [False] * 5
    assert urgent([(URGENT, 9.0)] * 5, 0.1) == [False] * 5


def test_one_alone_needs_nobody_to_give_way_but_is_not_held_back():
    assert urgent([(NORMAL, 9.0)], 0.1) == [True]
    assert urgent([], 0.1) == []


def test_a_robot_between_two_segments_is_late_at_once():
    first, later = make_generation("first"), make_generation("later")
    first.robot_idle_at_s = later.robot_idle_at_s = 100.0
    later.num_segments = 1
    assert urgent_requests([first, later], 100.1, 0.02) == ("later",)
    assert urgent_requests([first], 100.1, 0.02) == ()
