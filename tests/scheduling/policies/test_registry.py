# SPDX-License-Identifier: Apache-2.0
"""Policies by name."""

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.scheduling.policies import make_policy, policy_names
from tests.scheduling.builders import make_generation


@pytest.mark.parametrize("name", ["fcfs", "fcfs_stream", "fcfs_segment"])
def test_first_come_first_served(name):
    policy = make_policy(name)
    assert policy.name == name
    early, late, twin = (make_generation(arrival_s=arrival_s) for arrival_s in (1.0, 2.0, 2.0))
    late.order, twin.order = 1, 2
    ranked = sorted([twin, late, early], key=lambda g: policy.rank(g, 5.0))
    assert ranked == [early, late, twin]


def test_habits():
    habits = {n: (make_policy(n).streams, make_policy(n).suspends) for n in ("fcfs", "fcfs_stream", "fcfs_segment")}
    assert habits == {"fcfs": (False, False), "fcfs_stream": (True, False), "fcfs_segment": (True, True)}


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    with pytest.raises(PlannerError, match="no scheduling policy 'lifo'; known are fcfs") as caught:
        make_policy("lifo")
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert "fcfs" in policy_names()
