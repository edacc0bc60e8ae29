# SPDX-License-Identifier: Apache-2.0
"""Arcs through two points."""

import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from llm_planner.sim.emulator.curve import arc

points = st.tuples(*[st.floats(-5.0, 5.0)] * 3)


@given(points, points)
def test_an_arc_leads_through_both_points_at_one_distance_from_its_centre(through, end):
    assume(all(math.dist(a, b) > 0.2 for a, b in ((through, end), (through, (0, 0, 0)), (end, (0, 0, 0)))))
    found = arc(through, end, 720)
    assume(found is not None and found[0] < 20.0)
    radius, way = found
    assert way[-1] == pytest.approx(end, abs=1e-6)
    assert min(math.dist(point, through) for point in way) < math.pi * radius / 720 + 1e-6
    steps = [math.dist(a, b) for a, b in pairwise(way)]
    assert max(steps) - min(steps) < 1e-6


def test_there_is_no_arc_along_a_line():
    assert arc((1.0, 0.0, 0.0), (2.0, 0.0, 0.0), 4) is None
    assert arc((0.0, 0.0, 0.0), (2.0, 0.0, 0.0), 4) is None
