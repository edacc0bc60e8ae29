# SPDX-License-Identifier: Apache-2.0
"""An arm and loose things that behave as Gazebo's stock systems tell them to, without physics: joints are where the
trajectory says, what is attached moves with the gripper, what is let go falls onto what lies below.
"""

import math

import numpy as np

from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.world import ObjectRole
from llm_planner.sim.gazebo.arm_motion import JointPoint
from llm_planner.sim.gazebo.gripper import graspable
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.inverse import ChainKinematics
from llm_planner.sim.physics.things import WALL_M

INDY7 = RobotLibrary().get("indy7")
STEP_S = 0.02


class GazeboArm:
    """Gazebo with one arm. Faults are attributes; what is received and sent is a callable.

    Attributes:
        attaches: Whether the joints of the gripper obey orders to attach.
        detaches: The same of orders to detach.
        jams: Whether the joints stand, whatever they are told.
        rate: Seconds of Gazebo for one of ours.
    """

    def __init__(self, home: Home, things) -> None:
        self.chain, self.home = ChainKinematics(INDY7.body), home
        self.things = {thing.known.name: thing for thing in things if thing.walk is None}
        self.poses = {}
        for name, thing in self.things.items():
            self.poses[name] = _turned(math.radians(thing.yaw_deg))
            self.poses[name][:3, 3] = thing.known.position_m
        self.time_s, self.rate = 0.0, 1.0
        self.joints = np.zeros(6)  # as the SDF has them
        self.trajectory: list[JointPoint] = []
        self.begun_s = 0.0
        held = graspable(INDY7, home, things)
        self.attached = {name: self._grasp(name) for name in held}  # DetachableJoint begins attached
        self.news: list[tuple[str, bool]] = [(name, True) for name in held]
        self.attaches = self.detaches = True
        self.jams = False

    @property
    def loose(self) -> list[str]:
        return [name for name, thing in self.things.items() if thing.is_loose]

    def take_trajectory(self, points) -> None:
        assert points, "the controller reads the first point of an empty trajectory, and Gazebo dies"
        assert [point.after_s for point in points] == sorted(point.after_s for point in points)
        self.trajectory, self.begun_s = list(points), self.time_s

    def take_order(self, name: str, attach: bool) -> None:
        if attach and self.attaches and name not in self.attached:
            self.attached[name] = self._grasp(name)
            self.news.append((name, True))
        if not attach and self.detaches and name in self.attached:
            del self.attached[name]
            self.poses[name][2, 3] = self._height_under(name)
            self.news.append((name, False))

    def step(self, seconds: float = STEP_S) -> None:
        self.time_s += seconds * self.rate
        if self.trajectory and not self.jams:
            gone_s = self.time_s - self.begun_s
            ahead = [point for point in self.trajectory if point.after_s >= gone_s] or self.trajectory[-1:]
            self.joints = np.array(ahead[0].positions)
        for name, grasp in self.attached.items():
            self.poses[name] = self._tool() @ grasp

    def position_m(self, name: str):
        return tuple(float(x) for x in self.poses[name][:3, 3])

    def yaw(self, name: str) -> float:
        return math.atan2(self.poses[name][1, 0], self.poses[name][0, 0])

    def _tool(self):
        base = _turned(math.radians(self.home.yaw_deg))
        base[:3, 3] = self.home.origin
        return base @ self.chain.tool(self.joints)

    def _grasp(self, name: str):
        return np.linalg.inv(self._tool()) @ self.poses[name]

    def _height_under(self, name: str) -> float:
        """Returns the height of a thing's centre once it lies on what is below it."""
        size, at = self.things[name].known.size_m, self.position_m(name)
        tops = [0.0]
        for other, thing in self.things.items():
            there, its_size = self.position_m(other), thing.known.size_m
            gap = [abs(at[axis] - there[axis]) - (size[axis] + its_size[axis]) / 2.0 for axis in (0, 1)]
            if other == name or max(gap) >= 0.0:
                continue
            is_container = thing.known.role is ObjectRole.CONTAINER
            height_m = thing.known.size_m[2] / 2.0
            tops.append(self.position_m(other)[2] + (WALL_M - height_m if is_container else height_m))
        below = [top for top in tops if top <= at[2] - size[2] / 2.0 + 0.01]
        return max(below) + size[2] / 2.0


def _turned(yaw: float):
    frame = np.eye(4)
    frame[:2, :2] = [[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]]
    return frame
