# SPDX-License-Identifier: Apache-2.0
"""An arm's port, driver and executor in front of something that behaves like Gazebo."""

import random

import numpy as np

from llm_planner.core.clock import ManualClock
from llm_planner.core.segment import ZERO_DURATION, Segment
from llm_planner.robots.executor import ExecutorState, SegmentExecutor
from llm_planner.robots.world import World
from llm_planner.sim.gazebo.arm_port import GazeboArmPort
from llm_planner.sim.gazebo.world import homes
from llm_planner.sim.physics.arm_driver import ArmDriver
from llm_planner.sim.physics.world_file import load_world_file
from tests.sim.gazebo.bodies import INDY7, STEP_S

TABLE = load_world_file("table")
HOME = homes({"arm_1": INDY7}, TABLE)["arm_1"]


class Stage:
    """Steps a Gazebo (``bodies.GazeboArm``, or the same with physics) in virtual time, and passes its messages on.

    Args:
        gazebo: The one.
        is_connected: Whether its messages come through.
    """

    def __init__(self, gazebo, *, is_connected: bool = True) -> None:
        self.gazebo, self.home = gazebo, gazebo.home
        self.clock, self.is_connected = ManualClock(), is_connected
        self.port = GazeboArmPort(
            INDY7, home=self.home, things=TABLE.things, send=self.send, order=gazebo.take_order, clock=self.clock
        )
        self.trajectories = []
        self.driver = ArmDriver(INDY7, self.port, random.Random(0))
        self.driver.enter(World(), None, 0.0)
        self.reports = []
        self.step()

    def send(self, points) -> None:
        self.trajectories.append(points)
        self.gazebo.take_trajectory(points)

    def step(self) -> None:
        self.gazebo.step()
        self.clock.advance(STEP_S)
        if self.is_connected:
            names = [joint.name for joint in INDY7.body.joints]
            angles = dict(zip(names, self.gazebo.joints, strict=True))
            self.port.note_joints(self.gazebo.time_s, {"foot": 0.0, **angles})
            for name in self.gazebo.loose:
                self.port.note_place(name, self.gazebo.position_m(name), self.gazebo.yaw(name))
            while self.gazebo.news:
                name, is_attached = self.gazebo.news.pop(0)
                self.port.note_grip(name, is_attached=is_attached)
        self.port.tick()

    def run(self, *texts: str, until_s: float = 120.0, at=lambda _: None) -> SegmentExecutor:
        """Carries segments out; returns the executor."""
        executor = SegmentExecutor(INDY7, self.driver, self.reports.append)
        executor.begin("goal", self.clock.now_s())
        for index, text in enumerate(texts):
            executor.add("goal", Segment(index=index, text=text, calls=(), expected=ZERO_DURATION), self.clock.now_s())
        executor.expect("goal", len(texts), self.clock.now_s())
        end_s = self.clock.now_s() + until_s
        while (executor.state is ExecutorState.ACTIVE or executor.is_acting) and self.clock.now_s() < end_s:
            self.step()
            at(self)
            executor.tick(self.clock.now_s())
        return executor

    def own(self, name: str):
        """Returns where a thing is, in the frame of the arm."""
        return self.home.to_robot(np.array(self.gazebo.position_m(name)))
