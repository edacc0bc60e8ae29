# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics of any chain, against forward kinematics and against MuJoCo."""

import math

import numpy as np
import pytest

pytest.importorskip("mujoco")

from llm_planner.robots.drivers.indy7_kinematics import Indy7Kinematics
from llm_planner.sim.physics.inverse import ChainKinematics
from tests.sim.physics.builders import LIBRARY, arm

BODY = LIBRARY.get("indy7").body


def test_the_yaml_chain_is_the_published_one():
    chain, published = ChainKinematics(BODY), Indy7Kinematics(BODY.tool.length_m.value - 0.06)
    rng = np.random.default_rng(1)
    for _ in range(20):
        joints = rng.uniform(-170, 170, 6)
        assert np.allclose(chain.tool(np.radians(joints)), published.tool(joints), atol=1e-9)


@pytest.mark.parametrize("reach", [0.25, 0.4, 0.55, 0.7])
@pytest.mark.parametrize("bearing", [0.0, 70.0, -120.0])
@pytest.mark.parametrize("height", [0.0, 0.1, 0.3])
def test_the_tool_comes_from_above_to_a_millimetre(reach, bearing, height):
    chain = ChainKinematics(BODY)
    point = (reach * math.cos(math.radians(bearing)), reach * math.sin(math.radians(bearing)), height)
    joints = chain.joints(point, chain.home)
    assert joints is not None
    assert math.dist(chain.position_m(joints), point) <= 1e-3
    assert chain.tool(joints)[2, 2] < -0.999
    assert (abs(np.degrees(joints)) <= [joint.limit_deg.value for joint in BODY.joints]).all()


@pytest.mark.parametrize("point", [(1.2, 0.0, 0.1), (0.5, 0.0, 0.8), (0.0, 0.0, -0.5)])
def test_what_is_out_of_reach_has_no_solution(point):
    chain = ChainKinematics(BODY)
    assert chain.joints(point, chain.home) is None


def test_the_body_in_physics_is_where_the_kinematics_say():
    driver, world = arm()
    tool = world.arms["arm_1"].home.to_robot(world.tool_m("arm_1"))
    assert math.dist(tool, driver._chain.position_m(world.arms["arm_1"].joints)) < 1e-6
    assert math.dist(tool, (0.35, 0.0, 0.45)) < 2e-3
