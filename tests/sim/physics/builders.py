# SPDX-License-Identifier: Apache-2.0
"""Builders with defaulted arguments: a world with one robot, its driver, and a plan carried out by the executor."""

import random

import pytest

from llm_planner.core.segment import ZERO_DURATION, Segment
from llm_planner.robots.executor import ExecutorState, SegmentExecutor
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.world import World, WorldObject

pytest.importorskip("mujoco")

from llm_planner.sim.physics.arm_driver import ArmDriver
from llm_planner.sim.physics.drone_driver import DroneDriver
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.port import LocalPort
from llm_planner.sim.physics.world import PhysicsWorld

LIBRARY = RobotLibrary()
PERIOD_S = 0.02


def cube(name="chair", x=2.0, y=0.0, z=1.0, size=0.3, **options):
    return WorldObject(name=name, position_m=(x, y, z), size_m=(size, size, size), **options)


def drone(*objects, pose=None, seed=0, wind=0.0, home=None, world=None):
    """Returns the driver of a drone that hovers, in a physical world (``driver.physics``) of its own."""
    model = LIBRARY.get("tello")
    world = world or PhysicsWorld(wind_m_per_s=wind, seed=seed)
    name = f"drone_{len(world.robots) + 1}"
    world.add_robot(name, model, home or Home())
    driver = DroneDriver(model, LocalPort(world, name, model), random.Random(seed))
    driver.enter(World(objects), pose, 0.0)
    return driver, world


def arm(*objects, pose=None, seed=0, home=None, world=None):
    """Returns the driver of an arm at its table."""
    model = LIBRARY.get("indy7")
    world = world or PhysicsWorld(wind_m_per_s=0.0, seed=seed)
    name = f"arm_{len(world.robots) + 1}"
    world.add_robot(name, model, home or Home(z_m=0.75))
    driver = ArmDriver(model, LocalPort(world, name, model), random.Random(seed))
    driver.enter(World(objects), pose, 0.0)
    return driver, world


def run(driver, *texts, until_s=60.0):
    """Carries segments out through the ordinary executor; returns it, its reports and when it was done."""
    reports = []
    executor = SegmentExecutor(driver.model, driver, reports.append)
    now_s = 0.0
    executor.begin("goal", now_s)
    for index, text in enumerate(texts):
        executor.add("goal", Segment(index=index, text=text, calls=(), expected=ZERO_DURATION), now_s)
    executor.expect("goal", len(texts), now_s)
    while (executor.state is ExecutorState.ACTIVE or executor.is_acting) and now_s < until_s:
        now_s += PERIOD_S
        executor.tick(now_s)
    return executor, reports, now_s
