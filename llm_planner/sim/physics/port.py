# SPDX-License-Identifier: Apache-2.0
"""The way from a robot's driver to its body: set points out, telemetry back, all in the robot's own frame.

``LocalPort`` is in the same process as the world; ``physics.client`` has one that is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.model import Pose, RobotModel
from llm_planner.robots.shape import QuadrotorBody
from llm_planner.robots.world import WorldObject
from llm_planner.sim.physics.camera import drone_picture, save
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.senses import Senses
from llm_planner.sim.physics.things import on_stage
from llm_planner.sim.physics.world import PhysicsWorld

Vector = NDArray[np.float64]
MAX_OBJECTS = 1_000  # of one robot: MuJoCo compiles them all again whenever something comes or goes
MAX_NUMBER = 1e5  # metres, degrees, radians
NUM_LOOKS, LOOK_S = 5, 0.05  # of the world's time, after a robot was put somewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """A robot by its own account.

    Attributes:
        time_s: On the world's clock.
        pose: Of the body, or of an arm's tool.
        is_settled: Whether what it was told last has been done.
        is_armed: Whether a drone's motors run.
        is_crashed: Whether a drone lies on its back.
        is_blocked: Whether something keeps an arm from following.
        is_lost: Whether the body sends nothing any more, or nothing yet; all else is then old.
        battery: Share that is left.
        collisions: Names of what it has touched since the last telemetry.
        held: Name of what a gripper holds.
        joints: Angles of an arm in radians.
        near: What its sensors notice that moves, where it is now, and how fast.
    """

    time_s: float
    pose: Pose
    is_settled: bool
    is_armed: bool = True
    is_crashed: bool = False
    is_blocked: bool = False
    is_lost: bool = False
    battery: float = 1.0
    collisions: tuple[str, ...] = ()
    held: str | None = None
    joints: tuple[float, ...] = ()
    near: tuple[WorldObject, ...] = ()


class RobotPort(Protocol):
    """What a driver needs of any body; nothing blocks longer than the world takes to step."""

    def enter(self, objects: Sequence[WorldObject], pose: Pose) -> float:
        """Clears the robot's stage, puts objects and the robot there; returns the world's time."""
        ...

    def read(self, until_s: float) -> Telemetry:
        """Returns the telemetry; a world in virtual time is brought to ``until_s`` first."""
        ...

    def look(self) -> tuple[WorldObject, ...]:
        """Returns what is in sight, whichever way the robot looks, and where it seems to be now."""
        ...

    def survey(self) -> tuple[WorldObject, ...]:
        """Returns everything on the robot's stage as it really is now: for judges, not for robots."""
        ...

    def stop(self) -> None:
        """Brakes and holds."""
        ...

    def close(self) -> None:
        """Makes the robot safe and lets it go."""
        ...


class DronePort(RobotPort, Protocol):
    """The same of a drone."""

    def fly(self, target: Pose, turn_deg: float) -> None:
        """Flies straight to a pose, turning meanwhile."""
        ...

    def take_off(self, altitude_m: float) -> None:
        """Starts the motors and lets the drone rise."""
        ...

    def land(self) -> None:
        """Lets the drone sink until it touches something."""
        ...

    def picture(self) -> str:
        """Takes a picture, if the world keeps any; returns the name of its file, or an empty text."""
        ...


class ArmPort(RobotPort, Protocol):
    """The same of an arm."""

    def move(self, joints: Sequence[float]) -> None:
        """Brings the joints to angles in radians."""
        ...

    def grip(self, *, is_open: bool) -> None:
        """Opens or closes the gripper; what its tip touches is then held."""
        ...


class LocalPort:
    """A robot of a world in this process: a ``DronePort`` or an ``ArmPort``, as the robot is.

    Args:
        world: That has the robot.
        name: Of the robot there.
        model: Of the robot.
    """

    def __init__(self, world: PhysicsWorld, name: str, model: RobotModel) -> None:
        self._world, self._name, self._model = world, name, model
        self._senses = Senses(world, name, model)
        self._num_collisions = world.num_collisions

    def enter(self, objects: Sequence[WorldObject], pose: Pose) -> float:
        """Clears the robot's stage, puts objects and the robot there; returns the world's time.

        Raises:
            PlannerError: INVALID_POSE for numbers that are none, INVALID_CONFIG for things that overlap.
        """
        world, home = self._world, self._home
        require_finite(objects, pose)
        arm = world.arms.get(self._name)
        if arm is not None:
            world.grip(self._name, is_open=True)
            world.pose_arm(self._name, pose)
        else:
            world.hover(self._name, pose)
        old = [thing for thing in world.scene.things.values() if thing.owner == self._name]
        are_loose = arm is not None
        new = [
            on_stage(thing, owner=self._name, home=home, now_s=world.time_s, are_loose=are_loose) for thing in objects
        ]
        world.change(take=old, put=new)
        world.scene.require_apart([self._name])
        self._senses.forget()
        for _ in range(NUM_LOOKS):  # a robot has looked around before it is told what to do
            world.advance(world.time_s + LOOK_S)
            self._senses.near(world.time_s)
        self._num_collisions = world.num_collisions
        return world.time_s

    def read(self, until_s: float) -> Telemetry:
        """Returns the telemetry, with the world brought to ``until_s``."""
        world = self._world
        world.advance(until_s)
        now_s = world.time_s
        news = world.collisions_since(self._num_collisions)
        self._num_collisions = world.num_collisions
        touched = tuple(c.other.rpartition(":")[2] for c in news if c.robot == self._name)
        near = self._senses.near(now_s)
        drone = world.drones.get(self._name)
        if drone is not None:
            return Telemetry(
                time_s=now_s,
                pose=drone.pose,
                is_settled=drone.is_settled(now_s) if drone.is_armed else True,
                is_armed=drone.is_armed,
                is_crashed=drone.is_crashed,
                battery=drone.battery,
                collisions=touched,
                near=near,
            )
        arm = world.arms[self._name]
        x, y, z = self._home.to_robot(world.tool_m(self._name))
        held = world.scene.things.get(arm.held or "")
        return Telemetry(
            time_s=now_s,
            pose=replace(self._model.start, x_m=x, y_m=y, z_m=z),
            is_settled=arm.is_settled(now_s),
            is_blocked=arm.is_blocked(now_s),
            collisions=touched,
            held=held.known.name if held else None,
            joints=tuple(float(angle) for angle in arm.joints),
            near=near,
        )

    def look(self) -> tuple[WorldObject, ...]:
        """Returns what is in sight."""
        return self._senses.look()

    def survey(self) -> tuple[WorldObject, ...]:
        """Returns everything on the robot's stage."""
        return self._senses.survey()

    @property
    def true_pose(self) -> Pose:
        """Where a drone really is: for judges."""
        return self._world.drones[self._name].true_pose

    def fly(self, target: Pose, turn_deg: float) -> None:
        """Flies a drone straight to a pose, turning meanwhile."""
        _require_sane(target.x_m, target.y_m, target.z_m, target.yaw_deg, turn_deg)
        self._world.drones[self._name].fly(target, turn_deg, self._world.time_s)

    def take_off(self, altitude_m: float) -> None:
        """Starts a drone's motors and lets it rise."""
        _require_sane(altitude_m)
        self._world.drones[self._name].take_off(altitude_m, self._world.time_s)

    def land(self) -> None:
        """Lets a drone sink until it touches something."""
        self._world.drones[self._name].land(self._world.time_s)

    def move(self, joints: Sequence[float]) -> None:
        """Brings an arm's joints to angles."""
        _require_sane(*joints)
        arm = self._world.arms[self._name]
        if len(joints) != len(arm.joints):
            raise PlannerError(
                ErrorCode.INVALID_CONFIG, f"{self._name} has {len(arm.joints)} joints, not {len(joints)}"
            )
        arm.move(np.array(joints), self._world.time_s)

    def grip(self, *, is_open: bool) -> None:
        """Opens or closes an arm's gripper."""
        self._world.grip(self._name, is_open=is_open)

    def picture(self) -> str:
        """Writes what a drone's camera sees to the world's directory for pictures; returns the file's name.

        Raises:
            PlannerError: ENGINE_FAILED where no renderer exists, INVALID_CONFIG where it cannot be written.
        """
        directory, camera = self._world.pictures, self._model.camera
        if directory is None or camera is None or not isinstance(self._model.body, QuadrotorBody):
            return ""
        picture = drone_picture(self._world, self._name, self._model.body, camera.vertical_field_of_view_deg)
        path: Path = directory / f"{self._name}_{round(1000 * self._world.time_s):07d}.png"
        try:
            save(picture, path)
        except OSError as error:
            raise PlannerError(ErrorCode.INVALID_CONFIG, f"the picture cannot be written to {path}: {error}") from error
        return path.name

    def stop(self) -> None:
        """Brakes and holds."""
        robots = self._world.drones | self._world.arms
        robots[self._name].stop(self._world.time_s)

    def close(self) -> None:
        """Lands a drone, stops an arm; the body stays in the world."""
        if self._name in self._world.drones:
            self.land()
        else:
            self.stop()

    @property
    def _home(self) -> Home:
        robots = self._world.drones | self._world.arms
        return robots[self._name].home


def require_finite(objects: Sequence[WorldObject], pose: Pose) -> None:
    """Raises PlannerError INVALID_POSE or INVALID_CONFIG if a number is none, or too large; or there are too many."""
    if not _are_sane(pose.x_m, pose.y_m, pose.z_m, pose.yaw_deg):
        raise PlannerError(ErrorCode.INVALID_POSE, f"the robot's pose is {pose}; give finite numbers")
    if len(objects) > MAX_OBJECTS:
        raise PlannerError(ErrorCode.INVALID_WORLD, f"world: {len(objects)} things are more than {MAX_OBJECTS}")
    for thing in objects:
        numbers = (*thing.position_m, *thing.size_m, *thing.velocity_m_per_s)
        if not _are_sane(*numbers) or any(size < 0 for size in thing.size_m):
            raise PlannerError(ErrorCode.INVALID_WORLD, f"world: {thing.name} has a number that is none: {numbers}")


def _are_sane(*numbers: float) -> bool:
    """Whether physics can reckon with numbers: a single one that is not finite would spoil the world of all robots."""
    return all(abs(number) <= MAX_NUMBER for number in numbers)


def _require_sane(*numbers: float) -> None:
    if not _are_sane(*numbers):
        raise PlannerError(ErrorCode.INVALID_POSE, f"an order has a number that is none, or too large: {numbers}")
