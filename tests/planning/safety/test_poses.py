# SPDX-License-Identifier: Apache-2.0
"""Sets of poses against sampled poses: no motion loses a pose that was possible."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.planning.safety.forecast import MAX_ALTERNATIVES, joined
from llm_planner.planning.safety.poses import Box, Poses, merged

TOLERANCE = 1e-9


def point(x=0.0, y=0.0, z=1.0, heading=0.0):
    return Poses(Box((x, x), (y, y), (z, z)), heading)


def holds(box, position):
    return all(low - TOLERANCE <= p <= high + TOLERANCE for (low, high), p in zip(box.sides, position, strict=True))


meters = st.floats(-5, 5)
angles = st.floats(-360, 360)
steps = st.one_of(
    st.tuples(st.just("move"), meters, meters, meters),
    st.tuples(st.just("turn"), angles),
    st.tuples(st.just("scan"), angles),
    st.tuples(st.just("approach"), angles, st.floats(0, 1)),
)


@given(st.lists(steps, max_size=12))
def test_a_sampled_robot_stays_in_the_box(script):
    poses, (x, y, z, yaw) = point(), (0.0, 0.0, 1.0, 0.0)
    for kind, *amounts in script:
        if kind == "move":
            poses = poses.moved(*amounts)
            forward, left, up = amounts
            cos, sin = math.cos(math.radians(yaw)), math.sin(math.radians(yaw))
            x, y, z = x + forward * cos - left * sin, y + forward * sin + left * cos, z + up
        elif kind == "turn":
            poses, yaw = poses.turned(amounts[0]), yaw + amounts[0]
        elif kind == "scan":
            poses, yaw = poses.turned_anywhere(), yaw + amounts[0]
        else:
            poses, bearing, length = poses.spread(2.0), math.radians(yaw + amounts[0]), 2.0 * amounts[1]
            x, y = x + length * math.cos(bearing), y + length * math.sin(bearing)
        assert holds(poses.box, (x, y, z))


def test_known_headings_stay_exact():
    poses = point()
    for _ in range(4):
        poses = poses.moved(3.0, 0.0, 0.0).turned(-90.0)
    assert poses.box.x == pytest.approx((0.0, 0.0))
    assert poses.box.y == pytest.approx((0.0, 0.0))
    assert poses.is_heading_known


def test_unknown_headings_stay_exact_relative_to_themselves():
    poses = point().turned_anywhere().moved(3.0, 0.0, 0.0)
    assert poses.box == Box((-3.0, 3.0), (-3.0, 3.0), (1.0, 1.0))
    assert poses.turned(180.0).moved(3.0, 0.0, 0.0).box.x == pytest.approx((0.0, 0.0))


@given(st.lists(st.tuples(meters, meters, st.floats(0, 3), angles), min_size=1, max_size=30))
def test_joining_keeps_every_pose_and_the_floor_apart(starts):
    alternatives = tuple(point(x, y, z if z > 0.5 else 0.0, heading) for x, y, z, heading in starts)
    result = joined(alternatives)
    assert len(result) <= MAX_ALTERNATIVES
    for poses in alternatives:
        position = tuple(low for low, _ in poses.box.sides)
        same = [r for r in result if holds(r.box, position) and r.is_on_floor == poses.is_on_floor]
        assert any(r.heading_deg == poses.heading_deg or not r.is_heading_known for r in same)


def test_merging_forgets_the_heading():
    poses = merged((point(1.0), point(2.0, heading=90.0)))
    assert not poses.is_heading_known
    assert poses.box == Box((1.0, 2.0), (0.0, 0.0), (1.0, 1.0))
