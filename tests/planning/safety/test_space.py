# SPDX-License-Identifier: Apache-2.0
"""The space of a robot: a fence, or the ring of an arm."""

import pytest

from llm_planner.planning.safety.poses import Box
from llm_planner.planning.safety.space import ArmSpace, FencedSpace
from llm_planner.robots.model import Geofence, Workspace

FENCE = FencedSpace(Geofence(x_m=(-1.0, 2.0), y_m=(-1.0, 1.0), z_m=(0.2, 3.0)))
RING = ArmSpace(Workspace(reach_m=(0.2, 0.8), z_m=(0.0, 1.0)))


def at(x=0.0, y=0.0, z=1.0):
    return Box((x, x), (y, y), (z, z))


@pytest.mark.parametrize(
    ("start", "end", "problem"),
    [
        (at(), at(2.0, 1.0, 3.0), ""),
        (at(), at(2.0 + 1e-7), ""),
        (at(), at(2.5), "x = 2.50 m, 0.50 m beyond the limit of 2 m"),
        (at(), at(-1.5, 1.2), "x = -1.50 m, 0.50 m beyond the limit of -1 m"),
        (at(), at(z=0.0), "z = 0.00 m, 0.20 m beyond the limit of 0.2 m"),
        (at(z=0.0), at(1.0, z=0.0), ""),  # drives
        (at(z=0.0), at(z=3.5), "z = 3.50 m, 0.50 m beyond the limit of 3 m"),
    ],
)
def test_fence(start, end, problem):
    assert FENCE.problem(start, end) == problem


@pytest.mark.parametrize(
    ("start", "end", "problem"),
    [
        (at(0.5), at(0.3, 0.4), ""),
        (at(0.5), at(0.7, 0.7), "reach = 0.99 m, 0.19 m beyond the limit of 0.8 m"),
        (at(0.5), at(0.1), "reach = 0.10 m, 0.10 m beyond the limit of 0.2 m"),
        (at(0.5, 0.0), at(-0.5, 0.0), ""),  # the tool goes around the base (robots.tool_path)
        (at(0.9), at(0.5), ""),  # back inside
        (at(0.5), at(0.5, 0.0, 1.5), "z = 1.50 m, 0.50 m beyond the limit of 1 m"),
    ],
)
def test_arm(start, end, problem):
    assert RING.problem(start, end) == problem
