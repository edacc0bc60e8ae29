# SPDX-License-Identifier: Apache-2.0
"""An arm between steps: where its joints shall be, and what its gripper holds."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_planner.robots.shape import ChainBody
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.inverse import ChainKinematics
from llm_planner.sim.physics.reference import Ramp
from llm_planner.sim.physics.solids import FINGER, FINGER_M, TOOL

Vector = NDArray[np.float64]
FOLLOW_S = 250.0 / 6000.0  # damping over stiffness of the joints (``solids``): how far they would lag behind
BLOCKED_DEG = 2.5  # joints that are kept from following by more than that press with hundreds of newtons


@dataclass(slots=True)
class Sweep:
    """All joints from rest to rest, beginning and ending together: each a trapezoid, the slowest sets the time."""

    start_s: float
    begin: Vector
    end: Vector
    ramp: Ramp  # of the share of the way, 0-1

    def at(self, time_s: float) -> tuple[Vector, Vector]:
        """Returns the angles and their rates at a time, in radians."""
        share, speed, _ = self.ramp.at(time_s - self.start_s)
        return self.begin + share * (self.end - self.begin), speed * (self.end - self.begin)

    @property
    def end_s(self) -> float:
        """When the set point stands."""
        return self.start_s + self.ramp.duration_s


def sweep(shape: ChainBody, begin: Vector, end: Vector, start_s: float) -> Sweep:
    """Returns the synchronised motion of all joints between two sets of angles, as fast as every joint allows."""
    ways = np.abs(end - begin)
    speeds = np.radians([joint.speed_deg_per_s.value for joint in shape.joints]) * shape.speed_share.value
    acceleration = math.radians(shape.acceleration_deg_per_s2.value)
    is_moving = ways > 1e-9
    if not is_moving.any():
        return Sweep(start_s, begin, end, Ramp(0.0, 1.0, 1.0))
    speed = float((speeds[is_moving] / ways[is_moving]).min())
    return Sweep(start_s, begin, end, Ramp(1.0, speed, acceleration / float(ways.max())))


@dataclass(slots=True)
class Arm:
    """One arm.

    Attributes:
        motion: Of its joints.
        held: Body name of what the gripper holds.
    """

    name: str
    shape: ChainBody
    home: Home
    chain: ChainKinematics
    motion: Sweep
    is_open: bool = True
    held: str | None = None
    joints: Vector = field(default_factory=lambda: np.zeros(0))

    def move(self, target: Vector, now_s: float) -> None:
        """Takes the order to bring all joints to a target."""
        here, _ = self.motion.at(now_s)
        self.motion = sweep(self.shape, here, target, now_s + self.shape.latency_s.value)

    def stop(self, now_s: float) -> None:
        """Stays where the set point is, less what braking takes."""
        here, rates = self.motion.at(now_s)
        speed = float(np.max(np.abs(rates), initial=0.0))
        ahead = rates * speed / (2.0 * math.radians(self.shape.acceleration_deg_per_s2.value) * 2.0)
        self.motion = Sweep(now_s, here + ahead, here + ahead, Ramp(0.0, 1.0, 1.0))

    def is_settled(self, now_s: float) -> bool:
        """Whether it has arrived."""
        wanted, _ = self.motion.at(now_s)
        off = float(np.max(np.abs(wanted - self.joints)))
        return now_s >= self.motion.end_s and off <= math.radians(self.shape.settle_deg.value)

    def is_blocked(self, now_s: float) -> bool:
        """Whether something keeps the joints from following."""
        wanted, _ = self.motion.at(now_s)
        return float(np.max(np.abs(wanted - self.joints))) > math.radians(BLOCKED_DEG)


class ArmRig:
    """The parts of a compiled model that belong to one arm."""

    def __init__(self, mujoco: Any, model: Any, arm: Arm) -> None:
        self._mujoco, self._model, self.arm = mujoco, model, arm
        names = [f"{arm.name}/{joint.name}" for joint in arm.shape.joints]
        self._qpos = np.array([model.joint(name).qposadr[0] for name in names])
        self._qvel = np.array([model.joint(name).dofadr[0] for name in names])
        self._ctrl = np.array([model.actuator(name).id for name in names])
        self._site = model.site(f"{arm.name}/{TOOL}").id
        self._hand = model.body(names[-1]).id
        self.tip = model.geom(f"{arm.name}/{TOOL}").id
        self._fingers = [model.geom(f"{arm.name}/{FINGER}{side:+.0f}").id for side in (-1.0, 1.0)]

    def place(self, data: Any, joints: Vector) -> None:
        """Puts the joints somewhere at once, at rest."""
        data.qpos[self._qpos], data.qvel[self._qvel] = joints, 0.0
        self.arm.joints = joints.copy()
        self.arm.motion = Sweep(0.0, joints, joints, Ramp(0.0, 1.0, 1.0))

    def control(self, data: Any, now_s: float) -> None:
        """Reads the joints, and tells them where to be now."""
        self.arm.joints = data.qpos[self._qpos]
        wanted, rates = self.arm.motion.at(now_s)
        data.ctrl[self._ctrl] = wanted + FOLLOW_S * rates

    def tool_m(self, data: Any) -> Vector:
        """Returns where the tool is in the world."""
        return np.array(data.site_xpos[self._site])

    def weld(self, data: Any, equality: int, body: int) -> None:
        """Fixes a body to the hand as they lie to each other now."""
        mujoco = self._mujoco
        turn, back = np.zeros(4), np.zeros(4)
        mujoco.mju_negQuat(back, data.xquat[self._hand])
        mujoco.mju_mulQuat(turn, back, data.xquat[body])
        offset = np.zeros(3)
        mujoco.mju_rotVecQuat(offset, data.xpos[body] - data.xpos[self._hand], back)
        self._model.eq_data[equality, :3] = 0.0
        self._model.eq_data[equality, 3:6] = offset
        self._model.eq_data[equality, 6:10] = turn
        data.eq_active[equality] = 1

    def close_fingers(self, width_m: float) -> None:
        """Draws the fingers at this distance from each other."""
        for side, finger in zip((-1.0, 1.0), self._fingers, strict=True):
            self._model.geom_pos[finger, 0] = side * (width_m + FINGER_M[0]) / 2.0
