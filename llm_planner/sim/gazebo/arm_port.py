# SPDX-License-Identifier: Apache-2.0
"""An arm in Gazebo as the way to a body: trajectories out, joint states and places of things back. No ROS in here.

Times of motions are Gazebo's, from the stamps of joint states: that it runs slower than real time does not matter to
them. A motion waits until the gripper has let go of what it should not hold, or it would drag that along.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llm_planner.core.interfaces import Clock
from llm_planner.robots.model import Pose, RobotModel
from llm_planner.robots.shape import ChainBody
from llm_planner.robots.world import WorldObject
from llm_planner.sim.gazebo.arm_motion import Brake, JointPoint, Motion, points
from llm_planner.sim.gazebo.gripper import Gripper, graspable
from llm_planner.sim.physics.arms import sweep
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.inverse import ChainKinematics
from llm_planner.sim.physics.port import Telemetry, require_finite
from llm_planner.sim.physics.things import Thing

Vector = NDArray[np.float64]
JOINT_STATES_TIMEOUT_S = 1.0
ARRIVED_M = 0.005  # so near to its place the tool has arrived
BLOCKED_M = 0.06  # this far from where it should be, and from where it should have been lately, it is blocked
LATEST_S, LATE_STEP_S = 0.5, 0.05  # an order may be on its way for this long
REACH_M = 0.02  # what is so near to the tip of the tool is held when the gripper closes


@dataclass(frozen=True, slots=True)
class Place:
    """Where a thing was last, in Gazebo's world."""

    position_m: Vector
    yaw: float


class GazeboArmPort:
    """Implements ``physics.port.ArmPort``. Safe to use from any thread.

    Args:
        model: Of the arm, with a chain for a body.
        home: Where its base is in Gazebo's world.
        things: What stands there, in the world frame.
        send: Sends a trajectory.
        order: Sends attach (True) or detach (False) for a thing.
        clock: Tells when joint states have been missing for too long.
    """

    def __init__(
        self,
        model: RobotModel,
        *,
        home: Home,
        things: Sequence[Thing],
        send: Callable[[Sequence[JointPoint]], None],
        order: Callable[[str, bool], None],
        clock: Clock,
    ) -> None:
        assert isinstance(model.body, ChainBody)
        self._model, self._shape, self._home, self._send, self._clock = model, model.body, home, send, clock
        self._chain = ChainKinematics(model.body)
        self._names = [joint.name for joint in model.body.joints]
        self._things = {thing.known.name: thing for thing in things}
        self._places = {
            name: Place(np.array(thing.known.position_m), math.radians(thing.yaw_deg))
            for name, thing in self._things.items()
        }
        self._graspable = graspable(model, home, things)
        self._gripper = Gripper(self._graspable, order)
        self._lock = threading.RLock()
        self._joints, self._time_s = self._chain.home, 0.0
        self._received_at_s: float | None = None
        self._motion: Motion | None = None
        self._target: Vector | None = None  # waits until nothing hangs on the arm that should not
        self._told: dict[str, WorldObject] = {}

    # --- From Gazebo

    def note_joints(self, time_s: float, angles: Mapping[str, float]) -> None:
        """Takes joint states, with Gazebo's time; what is incomplete or no number is ignored."""
        joints = np.array([angles.get(name, math.nan) for name in self._names])
        if not (np.isfinite(joints).all() and math.isfinite(time_s)):
            return
        with self._lock:
            if time_s < self._time_s:  # Gazebo was reset
                self._motion = self._target = None
            self._joints, self._time_s, self._received_at_s = joints, time_s, self._clock.now_s()

    def note_place(self, name: str, position_m: Sequence[float], yaw: float) -> None:
        """Takes where a thing is in the world, yaw in radians."""
        if name in self._places and all(map(math.isfinite, (*position_m, yaw))):
            with self._lock:
                self._places[name] = Place(np.array(position_m, dtype=np.float64), yaw)

    def note_grip(self, name: str, *, is_attached: bool) -> None:
        """Takes what Gazebo says of the joint between the gripper and a thing."""
        with self._lock:
            self._gripper.note(name, is_attached=is_attached)

    def tick(self) -> None:
        """Repeats orders that were not obeyed, and holds once joint states are missing; ten times a second will do."""
        with self._lock:
            if self._is_lost:
                if self._motion is not None and self._now_s < self._motion.end_s:
                    self.stop()
                return
            self._gripper.urge()
            self._begin()

    @property
    def _is_lost(self) -> bool:
        return self._received_at_s is None or self._clock.now_s() - self._received_at_s > JOINT_STATES_TIMEOUT_S

    @property
    def _now_s(self) -> float:
        """Gazebo's time, as far as can be told."""
        silent_s = 0.0 if self._received_at_s is None else self._clock.now_s() - self._received_at_s
        return self._time_s + silent_s

    # --- For the driver

    def enter(self, objects: Sequence[WorldObject], pose: Pose) -> float:
        """Notes what a robot was told of; Gazebo's world stays as it is, and the arm where it is.

        Raises:
            PlannerError: INVALID_POSE or INVALID_CONFIG for numbers that are none.
        """
        require_finite(objects, pose)
        with self._lock:
            self._told = {thing.name: thing for thing in objects if thing.name not in self._things}
        return 0.0

    def read(self, until_s: float) -> Telemetry:
        """Returns the telemetry, dated as the driver asks: both live in real time."""
        with self._lock:
            x, y, z = self._chain.position_m(self._joints)
            return Telemetry(
                time_s=until_s,
                pose=replace(self._model.start, x_m=x, y_m=y, z_m=z),
                is_settled=self._is_settled(),
                is_lost=self._is_lost,
                is_blocked=self._is_blocked(),
                held=self._gripper.held,
                joints=tuple(float(angle) for angle in self._joints),
            )

    def _is_settled(self) -> bool:
        if self._is_lost or self._target is not None:
            return False
        if self._motion is None:
            return True
        return self._time_s >= self._motion.end_s and self._gap_m() <= ARRIVED_M

    def _is_blocked(self) -> bool:
        lates_s = np.arange(0.0, LATEST_S + LATE_STEP_S / 2.0, LATE_STEP_S)
        return all(self._gap_m(float(late_s)) > BLOCKED_M for late_s in lates_s)

    def _gap_m(self, late_s: float = 0.0) -> float:
        """Returns how far the tool is from where it should be; one that presses on something may be turned a little."""
        if self._motion is None:
            return 0.0
        wanted, _ = self._motion.at(self._time_s - late_s)
        return math.dist(self._chain.position_m(wanted), self._chain.position_m(self._joints))

    def look(self) -> tuple[WorldObject, ...]:
        """Returns all there is, where Gazebo says that it is; and what the robot was told of and Gazebo has not."""
        with self._lock:
            known = (
                replace(thing.known, position_m=self._home.to_robot(self._places[name].position_m))
                for name, thing in self._things.items()
            )
            return (*known, *self._told.values())

    def survey(self) -> tuple[WorldObject, ...]:
        """Returns the same: nothing is hidden from an arm."""
        return self.look()

    def move(self, joints: Sequence[float]) -> None:
        """Brings all joints to angles in radians, together, as fast as the slowest may."""
        with self._lock:
            self._target = np.array(joints, dtype=np.float64)
            self._begin()

    def _begin(self) -> None:
        if self._target is None or self._is_lost or not self._gripper.is_clear:
            return
        target, self._target = self._target, None
        begin = self._joints
        if self._motion is not None and not self._is_blocked():
            begin = self._motion.at(self._now_s)[0]  # it may lag a little: no jerk back
        self._follow(sweep(self._shape, begin, target, self._now_s))

    def stop(self) -> None:
        """Brakes and holds."""
        with self._lock:
            self._target = None
            if self._received_at_s is None:
                return
            begin, rates = self._joints, np.zeros(len(self._joints))
            if self._motion is not None and not self._is_blocked():
                begin, rates = self._motion.at(self._now_s)
            acceleration = math.radians(self._shape.acceleration_deg_per_s2.value)
            self._follow(Brake(self._now_s, begin, rates, acceleration))

    def _follow(self, motion: Motion) -> None:
        self._motion = motion
        self._send(points(motion, self._now_s))

    def grip(self, *, is_open: bool) -> None:
        """Opens the gripper, or lets it hold the loose thing that is nearest to the tip of the tool, within reach."""
        with self._lock:
            if is_open:
                self._gripper.want(None)
            elif self._gripper.held is None:
                self._gripper.want(self._touched())

    def _touched(self) -> str | None:
        """Returns the nearest thing in reach, unless it is too heavy."""
        tip = self._home.to_world(self._chain.position_m(self._joints))
        gaps = {name: _reach_m(tip, self._things[name].known, self._places[name]) for name in self._graspable}
        nearest = min(gaps, key=gaps.__getitem__, default=None)
        if nearest is None or gaps[nearest] > REACH_M:
            return None
        return nearest if self._things[nearest].mass_kg <= self._shape.tool.payload_kg.value else None

    def close(self) -> None:
        """Stops; what is held stays held."""
        self.stop()


def _reach_m(tip: Vector, known: WorldObject, place: Place) -> float:
    """Returns how far a point is from the box around a thing that stands upright."""
    x, y, z = tip - place.position_m
    c, s = math.cos(place.yaw), math.sin(place.yaw)
    local = (c * x + s * y, -s * x + c * y, z)
    return math.hypot(*(max(0.0, abs(p) - size / 2.0) for p, size in zip(local, known.size_m, strict=True)))
