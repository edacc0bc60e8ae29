# SPDX-License-Identifier: Apache-2.0
"""Ways of an arm's tool: every point of them lies in the workspace, for straight legs and for motions of the joints."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.robots.drivers.indy7_kinematics import Indy7Kinematics
from llm_planner.robots.model import Workspace
from llm_planner.robots.tool_path import JOINT_TOLERANCE_M, joint_legs, straight_legs
from tests.robots.builders import HOME_DEG, LIBRARY

RING = Workspace(reach_m=(0.2, 0.8), z_m=(0.0, 1.0))
INDY7 = LIBRARY.get("indy7").workspace
ANGLES = st.floats(-math.pi, math.pi)


@st.composite
def rings(draw):
    nearest = draw(st.floats(0.0, 1.0))
    return Workspace(reach_m=(nearest, nearest + draw(st.floats(0.05, 2.0))), z_m=(-0.5, draw(st.floats(0.0, 2.0))))


@st.composite
def points(draw, space):
    reach, angle = draw(st.floats(*space.reach_m)), draw(ANGLES)
    return reach * math.cos(angle), reach * math.sin(angle), draw(st.floats(*space.z_m))


def samples(begin, ends, number=50):
    for end in ends:
        for step in range(number + 1):
            yield tuple(a + step / number * (b - a) for a, b in zip(begin, end, strict=True))
        begin = end


@given(st.data())
def test_every_point_of_a_straight_way_is_inside(data):
    space = data.draw(rings())
    begin, end = data.draw(points(space)), data.draw(points(space))
    legs = straight_legs(space, begin, end)
    assert legs is not None
    assert legs[-1] == end
    assert all(space.excess_m(point) < 2e-6 for point in samples(begin, legs))


@given(st.data(), st.tuples(*[st.floats(-2.0, 2.0)] * 3))
def test_a_tool_that_is_outside_returns_and_gets_no_farther_outside(data, begin):
    end = data.draw(points(RING))
    legs = straight_legs(RING, begin, end)
    assert legs is not None
    outside_m = RING.excess_m(begin)
    assert all(RING.excess_m(point) <= outside_m + 2e-6 for point in samples(begin, legs))


def test_a_straight_way_that_is_safe_stays_straight():
    assert straight_legs(RING, (0.5, 0.0, 0.5), (0.3, 0.4, 0.1)) == ((0.3, 0.4, 0.1),)
    assert len(straight_legs(RING, (0.5, 0.0, 0.5), (-0.5, 0.0, 0.5))) > 1


@pytest.mark.parametrize(
    "end",
    [(0.1, 0.0, 0.5), (0.9, 0.0, 0.5), (0.5, 0.0, 1.1), (0.5, 0, math.nan), (math.nan, 0, 0.5), (0.5, math.inf, 0)],
)
def test_there_is_no_way_to_a_point_outside(end):
    assert straight_legs(RING, (0.5, 0.0, 0.5), end) is None


def test_a_ring_that_is_too_thin_has_no_way():
    thin = Workspace(reach_m=(0.5, 0.5 + 1e-9), z_m=(0.0, 1.0))
    assert straight_legs(thin, (0.5, 0.0, 0.5), (-0.5, 0.0, 0.5)) is None


def test_every_point_of_a_joint_motion_is_inside():
    arm, rng = Indy7Kinematics(0.14), random.Random(32)
    here, num_direct_outside, num_solved = HOME_DEG, 0, 0
    for _ in range(12):
        reach, angle, z = rng.uniform(*INDY7.reach_m), rng.uniform(-math.pi, math.pi), rng.uniform(0.0, 0.3)
        end = (reach * math.cos(angle), reach * math.sin(angle), z)
        legs = joint_legs(arm, INDY7, here, end)
        if legs is None:
            continue
        assert arm.position_m(legs[-1]) == pytest.approx(end, abs=2e-3)
        worst_m = max(INDY7.excess_m(arm.position_m(joints)) for joints in samples(here, legs))
        assert worst_m < JOINT_TOLERANCE_M + 1e-3
        direct = samples(here, [arm.joints(end, here)])
        num_direct_outside += max(INDY7.excess_m(arm.position_m(joints)) for joints in direct) > 0.01
        num_solved += 1
        here = legs[-1]
    assert num_solved > 8
    assert num_direct_outside > 0  # a check of nothing would pass


def test_joints_that_do_not_reach_a_point_have_no_way():
    assert joint_legs(Indy7Kinematics(), INDY7, HOME_DEG, (1.2, 0.0, 0.1)) is None
