# SPDX-License-Identifier: Apache-2.0
"""A schedule follows from its seed alone, and ends no process so often that a fleet gives up."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.ros.process import MAX_RESTARTS, RESTARTS_PER_S
from llm_planner_lab.bench.chaos.schedule import MEANINGS, SIGKILL_SPACING_S, FaultKind, schedule

ROBOTS = ("drone_1", "drone_2", "arm_1")
KINDS = st.lists(st.sampled_from(FaultKind), min_size=1, unique=True)


def first(number, seed, kinds=tuple(FaultKind), every_s=4.0):
    return list(itertools.islice(schedule(seed, kinds, ROBOTS, every_s=every_s), number))


@given(st.integers(0, 1000), KINDS, st.floats(0.1, 10.0))
def test_faults_are_numbered_in_order_of_time_and_repeat_with_their_seed(seed, kinds, every_s):
    faults = first(60, seed, kinds, every_s)
    assert faults == first(60, seed, kinds, every_s)
    assert [fault.index for fault in faults] == list(range(60))
    assert [fault.at_s for fault in faults] == sorted(fault.at_s for fault in faults)
    assert {fault.kind for fault in faults} == set(kinds)
    ended = [fault for fault in faults if fault.kind.name.startswith("KILL") or fault.kind is FaultKind.MEMORY]
    for target in {fault.target for fault in ended}:
        times_s = [fault.at_s for fault in ended if fault.target == target]
        assert all(later - earlier >= SIGKILL_SPACING_S - 0.01 for earlier, later in itertools.pairwise(times_s))


def test_seeds_differ_and_no_kind_gives_no_fault():
    assert first(20, 1) != first(20, 2)
    assert first(1, 1, ()) == []


def test_a_fleet_bears_the_spacing_and_every_kind_is_explained():
    assert MAX_RESTARTS * SIGKILL_SPACING_S > RESTARTS_PER_S
    assert set(MEANINGS) == set(FaultKind)


@pytest.mark.parametrize("kind", FaultKind)
def test_every_kind_hits_something_that_there_is(kind):
    targets = {fault.target for fault in first(30, 0, (kind,))}
    assert targets <= {"", "engine", "planner", "world", "dashboard", *ROBOTS}
