# SPDX-License-Identifier: Apache-2.0
"""What a robot notices: what moves in its range and in sight, with the speed that it saw, and nothing of the future."""

import math

import pytest

pytest.importorskip("mujoco")

from llm_planner.robots.world import WorldObject
from llm_planner.sim.physics.frame import Home
from tests.sim.physics.builders import arm, cube, drone


def person(x=4.0, y=0.0, speed=-1.0, **options):
    return WorldObject(
        name="person", kind="person", position_m=(x, y, 0.9), size_m=(0.5, 0.5, 1.8),
        velocity_m_per_s=(speed, 0.0, 0.0), **options,
    )  # fmt: skip


def noticed(driver, now_s, since_s=0.0):
    for tick in range(int(since_s / 0.05), int(now_s / 0.05) + 1):
        driver.tick(0.05 * tick)
    return {thing.name: thing for thing in driver.noticed(now_s)}


def test_who_walks_is_noticed_where_he_is_and_as_fast_as_he_is():
    driver, _ = drone(person())
    thing = noticed(driver, 1.0)["person"]
    assert thing.velocity_m_per_s[0] == pytest.approx(-1.0, abs=0.15)
    x, y, _ = thing.position_at(1.0)
    assert math.dist((x, y), (4.0 - 1.25, 0.0)) < 0.15  # he walked while the robot looked around


def test_what_stands_is_not_noticed_what_has_stopped_is_remembered():
    driver, _ = drone(cube("chair"), person(moves_for_s=1.0))
    assert set(noticed(driver, 0.5)) == {"person"}
    thing = noticed(driver, 3.0, 0.5)["person"]
    assert math.hypot(*thing.velocity_m_per_s) < 0.01
    assert any(thing.velocity_m_per_s)


def test_who_is_behind_a_wall_or_far_away_is_not_noticed():
    wall = WorldObject(name="wall", position_m=(1.0, 0.0, 1.5), size_m=(0.1, 6.0, 3.0))
    driver, _ = drone(wall, person(speed=-0.1))
    assert not noticed(driver, 1.0)
    driver, _ = drone(person(x=9.0))
    assert not noticed(driver, 1.0)
    assert "person" in noticed(driver, 4.0, 1.0)


def test_another_drone_is_noticed_once_it_moves():
    first, world = drone()
    second, _ = drone(home=Home(x_m=3.0), world=world)
    assert not noticed(first, 0.5)
    world.drones["drone_2"].fly(second.state.pose.__class__(x_m=-1.0, z_m=1.0), 0.0, world.time_s)
    seen = noticed(first, 1.6, 0.5)
    assert set(seen) == {"drone_2"}
    assert seen["drone_2"].velocity_m_per_s[0] < -0.3


def test_an_arm_notices_who_comes_and_not_what_it_moves_itself():
    driver, _ = arm(cube("red_box", x=0.5, z=0.025, size=0.05), person(x=1.8, speed=-0.3))
    assert set(noticed(driver, 1.0)) == {"person"}
    assert set(driver.world.objects) == {"red_box", "person"}
    assert {thing.name for thing in driver.in_sight(1.0)} == {"red_box", "person"}


def test_a_person_of_unusually_small_size_is_a_solid_all_the_same():
    driver, _ = drone(cube("girl", kind="girl", size=0.15))
    assert "girl" in driver.world.objects
