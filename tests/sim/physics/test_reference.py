# SPDX-License-Identifier: Apache-2.0
"""Set points through time: trapezoids without jumps, that end where they should."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("mujoco")

from llm_planner.sim.physics.arms import sweep
from llm_planner.sim.physics.reference import Path, Ramp, brake, hold
from tests.sim.physics.builders import LIBRARY

LENGTHS, SPEEDS, ACCELERATIONS = st.floats(0.01, 20), st.floats(0.05, 3), st.floats(0.1, 5)


@given(LENGTHS, SPEEDS, ACCELERATIONS, st.floats(0, 1))
def test_a_ramp_keeps_its_limits_and_has_no_jumps(length, speed, acceleration, share):
    ramp = Ramp(length, speed, acceleration)
    time_s, step_s = share * ramp.duration_s, 1e-4 * ramp.duration_s
    way, rate, change = ramp.at(time_s)
    later, _, _ = ramp.at(time_s + step_s)
    assert -1e-9 <= way <= length + 1e-9
    assert 0 <= rate <= speed + 1e-9
    assert abs(change) <= acceleration + 1e-9
    assert later - way == pytest.approx(rate * step_s, abs=acceleration * step_s**2 + 1e-9)


@given(LENGTHS, SPEEDS, ACCELERATIONS)
def test_a_ramp_begins_and_ends_at_rest(length, speed, acceleration):
    ramp = Ramp(length, speed, acceleration)
    assert ramp.at(-1.0) == (0.0, 0.0, 0.0)
    assert ramp.at(ramp.duration_s + 1.0) == (length, 0.0, 0.0)
    assert ramp.at(ramp.duration_s * (1 - 1e-9))[0] == pytest.approx(length)


def test_a_path_goes_straight_and_turns_meanwhile():
    path = Path(1.0, np.zeros(3), np.array([3.0, 4.0, 0.0]), 0.5, Ramp(5.0, 1.0, 1.0), Ramp(90.0, 90.0, 90.0), -1.0)
    assert path.at(0.5).position.tolist() == [0, 0, 0]
    middle = path.at(1.0 + 3.0)
    assert middle.position[1] / middle.position[0] == pytest.approx(4 / 3)
    assert np.linalg.norm(middle.velocity) == pytest.approx(1.0)
    assert path.at(path.end_s + 1).yaw == pytest.approx(0.5 - math.pi / 2)
    assert hold(np.ones(3), 0.1).at(99.0).position.tolist() == [1, 1, 1]
    assert brake(np.zeros(3), np.array([2.0, 0, 0]), 0.0, 2.0).at(0.0).position.tolist() == [1, 0, 0]


@given(st.lists(st.floats(-2.5, 2.5), min_size=6, max_size=6), st.lists(st.floats(-2.5, 2.5), min_size=6, max_size=6))
def test_all_joints_end_together_and_none_is_too_fast(begin, end):
    shape = LIBRARY.get("indy7").body
    motion = sweep(shape, np.array(begin), np.array(end), 0.0)
    limit = np.radians([joint.speed_deg_per_s.value for joint in shape.joints]) * shape.speed_share.value
    for share in (0.1, 0.5, 0.9):
        angles, rates = motion.at(share * motion.end_s)
        assert (abs(rates) <= limit + 1e-6).all()
    angles, rates = motion.at(motion.end_s + 1e-6)
    assert np.allclose(angles, end)
    assert np.allclose(rates, 0.0)
