# SPDX-License-Identifier: Apache-2.0
"""A track answers for every time that was not forgotten."""

import bisect

from hypothesis import given
from hypothesis import strategies as st

from llm_planner.robots.model import Pose
from llm_planner.robots.track import Track


@given(st.lists(st.floats(0, 100), max_size=20), st.floats(0, 100), st.lists(st.floats(0, 100), min_size=1))
def test_what_was_not_forgotten_is_remembered(times_s, before_s, asked_s):
    times_s.sort()
    track = Track(Pose(x_m=-1.0))
    for number, time_s in enumerate(times_s):
        track.note(time_s, Pose(x_m=float(number)))
    track.forget(before_s)
    for time_s in asked_s:
        if time_s >= before_s:
            assert track.at(time_s).x_m == bisect.bisect_right(times_s, time_s) - 1


def test_what_is_forgotten_is_gone():
    track = Track(Pose())
    for number in range(1000):
        track.note(float(number), Pose())
        track.forget(number - 10.0)
    assert len(track._poses) == 11
