# SPDX-License-Identifier: Apache-2.0
"""The flight controller: limits that hold whatever it is told, and a drone that comes back from a push."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("mujoco")

from llm_planner.core.skill import SkillCall
from llm_planner.robots.shape import GRAVITY_M_PER_S2
from llm_planner.sim.physics.flight import FlightController
from llm_planner.sim.physics.reference import SetPoint
from tests.sim.physics.builders import LIBRARY, drone

BODY = LIBRARY.get("tello").body
INERTIA = np.array([[1.4e-4, 1.6e-4, 2.9e-4]])
VECTORS = st.tuples(*[st.floats(-5, 5)] * 3).map(np.array)


def controller():
    return FlightController([BODY], INERTIA.copy())


def thrusts(flight, position=(0, 0, 0), velocity=(0, 0, 0), wanted=(0, 0, 0)):
    zero = np.zeros(3)
    point = SetPoint(np.array(wanted, dtype=float), zero, zero, 0.0, 0.0)
    here, speed = np.array([position], dtype=float), np.array([velocity], dtype=float)
    return flight.thrusts(here, speed, np.eye(3)[None], np.zeros((1, 3)), [point], 0.004)


def test_who_hovers_carries_its_weight():
    total = thrusts(controller()).sum()
    assert total == pytest.approx(BODY.link.mass_kg.value * GRAVITY_M_PER_S2)


@given(VECTORS, VECTORS, VECTORS)
def test_no_rotor_is_asked_for_more_than_it_has(position, velocity, wanted):
    forces = thrusts(controller(), position, velocity, wanted)
    assert np.isfinite(forces).all()
    assert (forces >= 0).all()
    assert (forces <= BODY.rotors.thrust_n.value).all()


@settings(max_examples=5, deadline=None)
@given(st.sampled_from(["mf", "mb", "ml", "mr", "mu"]), st.integers(50, 400), st.integers(0, 99))
def test_speed_and_lean_stay_below_their_limits(skill, way_cm, seed):
    amount = min(way_cm, 180) if skill == "mu" else way_cm
    driver, world = drone(wind=0.5, seed=seed)
    body = world.drones["drone_1"]
    driver.start(SkillCall(skill, (float(amount),)), 0.0)
    fastest, leaning = 0.0, 1.0
    for tick in range(1, 200):
        driver.tick(0.04 * tick)
        fastest = max(fastest, float(np.linalg.norm(body.velocity)))
        leaning = min(leaning, float(world.scene.data.xmat[world.scene.model.body("drone_1").id][8]))
    assert fastest <= driver.model.speed_limits.translation_m_per_s
    assert leaning > math.cos(math.radians(BODY.flight.tilt_deg.value + 8))
    assert world.drones["drone_1"].is_armed


def test_a_push_is_recovered_from():
    driver, world = drone()
    data = world.scene.data
    data.qvel[:6] = [1.5, -1.0, 0.5, 3.0, -3.0, 1.0]
    driver.tick(4.0)
    assert math.dist(world.drones["drone_1"].position, (0, 0, 1)) < 0.1


def test_a_drone_on_its_back_switches_its_motors_off():
    driver, world = drone()
    data = world.scene.data
    data.qpos[3:7] = [0.0, 1.0, 0.0, 0.0]
    driver.start(SkillCall("d", (5.0,)), 0.0)
    result = driver.tick(0.5)
    assert "has crashed" in result.reason
    assert not world.drones["drone_1"].is_armed
    driver.start(SkillCall("mf", (50.0,)), 0.6)
    assert "a person must pick it up" in driver.tick(0.7).reason
