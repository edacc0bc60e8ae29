# SPDX-License-Identifier: Apache-2.0
"""A slow robot is learned within ten segments, and one outlier spoils nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.segment import ExpectedDuration, ReportStatus, SegmentReport
from llm_planner.scheduling.robot_pace import AS_EXPECTED, FASTEST, MAX_ROBOTS, MEMORY, SLOWEST, RobotPace

NOISE = st.floats(0.95, 1.05)
FACTORS = st.floats(FASTEST, SLOWEST)
ANYTHING = st.floats(1e-6, 1e6)


def certain(seconds: float = 2.0) -> ExpectedDuration:
    return ExpectedDuration(min_s=0.95 * seconds, p50_s=seconds, p90_s=1.1 * seconds)


def observe(pace: RobotPace, ratio: float, expected: ExpectedDuration | None = None, **report) -> None:
    expected = expected or certain()
    fields = {"request_id": "g", "index": 0, "status": ReportStatus.SUCCEEDED, "duration_s": ratio * expected.p50_s}
    pace.observe("robot", expected, SegmentReport(**(fields | report)))


@given(FACTORS, st.lists(NOISE, min_size=10, max_size=10), st.integers(0, 9), ANYTHING)
def test_a_slow_robot_is_learned_within_ten_segments_although_one_is_an_outlier(factor, noise, place, outlier):
    pace = RobotPace()
    for index, share in enumerate(noise):
        observe(pace, outlier if index == place else factor * share)
    assert pace.factor("robot") == pytest.approx(factor, rel=AS_EXPECTED + 0.06)


@given(st.lists(NOISE, max_size=30), st.integers(0, 30), ANYTHING)
def test_one_outlier_makes_no_robot_slow(noise, place, outlier):
    pace = RobotPace()
    for share in [*noise[:place], outlier, *noise[place:]]:
        observe(pace, share)
        assert pace.factor("robot") == 1.0


@given(st.lists(FACTORS, min_size=1, max_size=3), FACTORS, st.lists(NOISE, min_size=MEMORY, max_size=MEMORY))
def test_a_change_is_followed(before, factor, noise):
    """A battery that was changed: what was learned is forgotten as soon as most of the memory says otherwise."""
    pace = RobotPace()
    for earlier in before * 4:
        observe(pace, earlier)
    for share in noise:
        observe(pace, factor * share)
    assert pace.factor("robot") == pytest.approx(factor, rel=AS_EXPECTED + 0.06)


@given(st.lists(ANYTHING, max_size=20))
def test_the_factor_is_bounded_and_scales_all_three(ratios):
    pace = RobotPace()
    for ratio in ratios:
        observe(pace, ratio)
    factor = pace.factor("robot")
    assert FASTEST <= factor <= SLOWEST
    scaled = pace.scaled("robot", certain(3.0))
    assert (scaled.min_s, scaled.p50_s, scaled.p90_s) == pytest.approx((2.85 * factor, 3.0 * factor, 3.3 * factor))
    assert pace.factor("another") == 1.0


def test_what_says_nothing_teaches_nothing():
    pace = RobotPace()
    for _ in range(10):
        observe(pace, 3.0, status=ReportStatus.FAILED)
        observe(pace, 3.0, status=ReportStatus.STARTED)
        observe(pace, 3.0, duration_s=math.nan)
        observe(pace, 3.0, duration_s=math.inf)
        observe(pace, 3.0, duration_s=0.0)
        observe(pace, 3.0, certain(0.05))  # too short
        observe(pace, 3.0, ExpectedDuration(min_s=1.0, p50_s=4.0, p90_s=12.0))  # a search: long without being slow
    assert pace.factor("robot") == 1.0


def test_robots_that_were_not_heard_of_for_long_are_forgotten():
    pace = RobotPace()
    report = SegmentReport(request_id="g", index=0, status=ReportStatus.SUCCEEDED, duration_s=4.0)
    for number in range(MAX_ROBOTS + 1):
        for _ in range(4):
            pace.observe(f"r{number}", certain(), report)
    assert pace.factor("r0") == 1.0
    assert pace.factor("r1") == pace.factor(f"r{MAX_ROBOTS}") == 2.0
