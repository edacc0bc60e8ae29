# SPDX-License-Identifier: Apache-2.0
"""The drone's way to Gazebo, in front of a body that moves exactly as VelocityControl tells it."""

import math
import random

import numpy as np
import pytest

pytest.importorskip("mujoco")

from llm_planner.core.clock import ManualClock
from llm_planner.core.segment import ZERO_DURATION, Segment
from llm_planner.core.skill import SkillCall
from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.executor import ExecutorState, SegmentExecutor
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.model import Pose
from llm_planner.robots.world import World, WorldObject
from llm_planner.sim.gazebo.drone_port import GazeboDronePort, Velocity
from llm_planner.sim.physics.driver import LOST
from llm_planner.sim.physics.drone_driver import DroneDriver
from llm_planner.sim.physics.frame import Home

TELLO = RobotLibrary().get("tello")
HOME = Home(x_m=3.0, y_m=-2.0, yaw_deg=90.0)
STEP_S = 0.02


class Body:
    """Moves at the velocity that it was told last, in its own frame; the floor stops it."""

    def __init__(self, home: Home = HOME, things=(), **options) -> None:
        self.clock = ManualClock()
        self.velocity, self.sent = Velocity(), []
        self.position = np.array([home.x_m, home.y_m, home.z_m + TELLO.body.link.radius_m / 2.0])
        self.yaw = math.radians(home.yaw_deg)
        self.port = GazeboDronePort(TELLO, home=home, things=things, send=self.take, clock=self.clock, **options)
        self.is_silent = False
        self.port.note_odometry(self.position, self.yaw)

    def take(self, velocity: Velocity) -> None:
        self.velocity = velocity
        self.sent.append(velocity)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            self.step()

    def step(self) -> None:
        v, c, s = self.velocity, math.cos(self.yaw), math.sin(self.yaw)
        level = np.array([c * v.forward - s * v.left, s * v.forward + c * v.left, v.up])
        self.position = self.position + STEP_S * level
        self.position[2] = max(self.position[2], TELLO.body.link.radius_m / 2.0)
        self.yaw += STEP_S * v.turn
        self.clock.advance(STEP_S)
        if not self.is_silent:
            self.port.note_odometry(self.position, self.yaw)
        self.port.tick()


def fly(body: Body, *texts: str, objects=(), until_s: float = 60.0):
    """Carries segments out through the ordinary executor and driver; returns the executor, driver and reports."""
    driver = DroneDriver(TELLO, body.port, random.Random(0))
    driver.enter(World(objects), None, 0.0)
    body.run(4.0)
    reports, start_s = [], body.clock.now_s() - 4.0
    executor = SegmentExecutor(TELLO, driver, reports.append)
    executor.begin("goal", 4.0)
    for index, text in enumerate(texts):
        executor.add("goal", Segment(index=index, text=text, calls=(), expected=ZERO_DURATION), 4.0)
    executor.expect("goal", len(texts), 4.0)
    while executor.state is ExecutorState.ACTIVE and body.clock.now_s() - start_s < until_s:
        body.step()
        executor.tick(body.clock.now_s() - start_s)
    return executor, driver, reports


def test_a_plan_is_flown_in_the_robots_own_frame():
    body = Body()
    executor, driver, reports = fly(body, "mf(100);", "tc(90);mf(50);mu(30);")
    assert executor.state is ExecutorState.DONE, reports
    pose = driver.state.pose
    assert (pose.x_m, pose.y_m, pose.z_m) == pytest.approx((1.0, -0.5, 1.3), abs=0.1)
    assert pose.yaw_deg == pytest.approx(-90.0, abs=4.0)
    assert body.position[:2] == pytest.approx((3.5, -1.0), abs=0.1)  # home looks along y of the world
    fastest = max(math.hypot(v.forward, v.left, v.up) for v in body.sent)
    assert fastest < 1.3 * TELLO.body.flight.speed_m_per_s.value


def test_landing_ends_on_the_floor_and_only_a_take_off_moves_it_again():
    body = Body()
    executor, driver, reports = fly(body, "ld();", "tk();mf(50);")
    assert executor.state is ExecutorState.DONE, reports
    assert driver.state.pose.z_m == pytest.approx(1.0, abs=0.1)
    _, driver, reports = fly(Body(), "ld();mf(50);")
    assert "take off first" in reports[-1].reason
    assert driver.state.pose.z_m == 0.0


def test_things_of_the_world_are_found_from_where_the_robot_stands():
    ahead = WorldObject(name="chair", kind="chair", position_m=(3.0, 0.5, 1.0), size_m=(0.3, 0.3, 0.3))
    body = Body(things=(ahead,))
    executor, driver, reports = fly(body, "g(chair);", "->iv(chair);")
    assert executor.state is ExecutorState.DONE, reports
    assert reports[-1].value is True
    assert driver.state.pose.x_m == pytest.approx(2.0, abs=0.15)  # 2.5 m ahead, half a metre short
    told = WorldObject(name="chair", kind="chair", position_m=(1.0, 0.0, 1.0), size_m=(0.3, 0.3, 0.3))
    body = Body(things=(ahead,))
    fly(body, "d(0);", objects=(told,))
    assert [thing.position_m for thing in body.port.look()] == [(1.0, 0.0, 1.0)]  # what was told counts more


def test_a_stop_brakes_and_nothing_is_sent_once_odometry_is_lost():
    body = Body()
    driver = DroneDriver(TELLO, body.port, random.Random(0))
    driver.enter(World(), None, 0.0)
    body.run(4.0)
    body.port.fly(Pose(x_m=5.0, z_m=1.0), 0.0)
    body.run(2.0)
    before = body.position.copy()
    body.port.stop()
    body.run(2.0)
    assert 0.0 < np.linalg.norm(body.position - before) < 0.8
    body.port.fly(Pose(x_m=-5.0, z_m=1.0), 0.0)
    body.run(0.5)
    body.is_silent = True
    body.run(1.5)
    assert body.velocity == Velocity()
    assert not body.port.read(9.0).is_settled
    body.port.close()
    assert body.sent[-1] == Velocity()


def test_a_skill_fails_at_once_when_nothing_is_received_any_more():
    body = Body()
    driver = DroneDriver(TELLO, body.port, random.Random(0))
    driver.enter(World(), None, 0.0)
    body.run(4.0)
    driver.start(SkillCall("mf", (300.0,)), 4.0)
    body.run(0.5)
    body.is_silent = True
    body.run(1.2)
    result = driver.tick(5.7)
    assert (result.status, result.reason) == (SkillStatus.FAILED, LOST)
    driver.start(SkillCall("mf", (300.0,)), 5.8)
    assert driver.tick(5.8).reason == LOST
    assert body.velocity == Velocity()


def test_a_drone_that_is_in_the_air_already_stays_there():
    body = Body()
    body.port = GazeboDronePort(TELLO, home=HOME, things=(), send=body.take, clock=body.clock)
    body.port.note_odometry([3.0, -2.0, 1.5], 0.0)
    assert body.port.read(0.0).is_armed
    assert body.port.picture() == ""
