# SPDX-License-Identifier: Apache-2.0
"""All drones of a world: their state between steps, and one call that flies them all."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_planner.robots.model import Pose
from llm_planner.robots.shape import GRAVITY_M_PER_S2, QuadrotorBody
from llm_planner.sim.physics.flight import FlightController
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.reference import Path, Ramp, SetPoint, brake, hold

Vector = NDArray[np.float64]
FLOOR_M = 0.1  # what it stands on is the floor up to here
TUMBLED = -0.2  # cosine of the lean at which the motors are switched off: it lies on its back
LANDING_M_PER_S = 0.4
BATTERY_CHANGE_S = 60.0  # assumed: a person changes the battery of a drone that stands there for this long
WEAR_EVERY = 10  # battery and drift need not be computed as often as thrusts


@dataclass(slots=True)
class Drone:
    """One drone. Positions are in the world frame; ``drift`` is what its odometry is wrong by.

    Attributes:
        path: Of its set point, as it believes.
        is_armed: Whether its motors run.
        is_landing: Whether what it touches next is where it lands.
        battery: Share that is left.
        rested_s: For how long its motors have been off.
        stands_on: Where it landed last.
    """

    name: str
    shape: QuadrotorBody
    home: Home
    rng: random.Random
    position: Vector = field(default_factory=lambda: np.zeros(3))
    velocity: Vector = field(default_factory=lambda: np.zeros(3))
    yaw: float = 0.0
    drift: Vector = field(default_factory=lambda: np.zeros(3))
    yaw_drift: float = 0.0
    path: Path = field(default_factory=lambda: hold(np.zeros(3), 0.0))
    is_armed: bool = False
    armed_at_s: float = 0.0
    is_landing: bool = False
    is_crashed: bool = False
    battery: float = 1.0
    rested_s: float = 0.0
    stands_on: str = ""

    @property
    def believed(self) -> Vector:
        """Where it believes to be."""
        return self.position + self.drift

    @property
    def pose(self) -> Pose:
        """By its own account, in its own frame; on the floor at height 0."""
        return self._grounded(self.home.pose(self.believed, self.yaw + self.yaw_drift))

    @property
    def true_pose(self) -> Pose:
        """Where it really is, in its own frame."""
        return self._grounded(self.home.pose(self.position, self.yaw))

    def _grounded(self, pose: Pose) -> Pose:
        return pose if self.is_armed else Pose(x_m=pose.x_m, y_m=pose.y_m, z_m=0.0, yaw_deg=pose.yaw_deg)

    def fly(self, target: Pose, turn_deg: float, now_s: float) -> None:
        """Takes the order to fly straight to a pose of its own frame, turning meanwhile."""
        flight = self.shape.flight
        latency_s = flight.latency_s.value * math.exp(self.rng.gauss(0.0, flight.latency_sigma.value))
        here = self.path.at(now_s)
        begin = here.position if np.linalg.norm(here.position - self.believed) < 0.3 else self.believed
        end = self.home.to_world((target.x_m, target.y_m, target.z_m))
        self.path = Path(
            now_s + latency_s,
            begin,
            end,
            here.yaw,
            Ramp(float(np.linalg.norm(end - begin)), flight.speed_m_per_s.value, flight.acceleration_m_per_s2.value),
            Ramp(abs(turn_deg), flight.turn_deg_per_s.value, flight.turn_deg_per_s2.value),
            math.copysign(1.0, turn_deg),
        )
        self.is_landing = False

    def stop(self, now_s: float) -> None:
        """Brakes as fast as it can, once the order has reached it, and holds."""
        begin = self.believed + self.velocity * self.shape.flight.stop_latency_s.value
        self.path = brake(begin, self.velocity, self.path.at(now_s).yaw, 1.5 * self._acceleration)
        self.is_landing = False

    def take_off(self, altitude_m: float, now_s: float) -> None:
        """Starts the motors and rises from where it stands, be it the floor or something on it."""
        self.is_armed, self.armed_at_s, self.rested_s = True, now_s, 0.0
        self.path = hold(self.believed, self.yaw + self.yaw_drift)
        pose = self.home.pose(self.believed, 0.0)
        stands_m = pose.z_m if pose.z_m > FLOOR_M else 0.0
        self.fly(Pose(x_m=pose.x_m, y_m=pose.y_m, z_m=stands_m + altitude_m), 0.0, now_s)

    def land(self, now_s: float) -> None:
        """Sinks until it touches something."""
        begin, yaw = self.path.at(now_s).position, self.path.at(now_s).yaw
        depth_m = self.believed[2] + 2.0
        still = Ramp(0.0, 1.0, 1.0)
        end = begin - np.array([0.0, 0.0, depth_m])
        way = Ramp(depth_m, LANDING_M_PER_S, self._acceleration)
        self.path = Path(now_s + self.shape.flight.latency_s.value, begin, end, yaw, way, still)
        self.is_landing = True

    def touch_down(self, on: str) -> None:
        """Switches the motors off, on something."""
        self.is_armed, self.is_landing, self.stands_on = False, False, on

    @property
    def _acceleration(self) -> float:
        return self.shape.flight.acceleration_m_per_s2.value

    def is_settled(self, now_s: float) -> bool:
        """Whether it has arrived: the set point stands, and the drone stands near it."""
        flight, point = self.shape.flight, self.path.at(now_s)
        off_m = float(np.linalg.norm(point.position - self.believed))
        off = abs(math.remainder(point.yaw - self.yaw - self.yaw_drift, 2.0 * math.pi))
        is_slow = float(np.linalg.norm(self.velocity)) < 0.1
        return now_s >= self.path.end_s and off_m < flight.settle_m.value and is_slow and off < math.radians(2.0)


class DroneFleet:
    """Flies the drones of one compiled model.

    Args:
        mujoco: The library.
        model: Compiled.
        drones: Which are in it.
    """

    def __init__(self, mujoco: Any, model: Any, drones: Sequence[Drone]) -> None:
        self.drones = drones
        bodies = [model.body(drone.name).id for drone in drones]
        self._bodies = np.array(bodies, dtype=int)
        joints = [int(model.body_jntadr[body]) for body in bodies]
        self._qpos = np.array([model.jnt_qposadr[joint] for joint in joints], dtype=int)[:, None]
        self._qvel = np.array([model.jnt_dofadr[joint] for joint in joints], dtype=int)[:, None]
        self._rotors = np.array(
            [[model.actuator(f"{drone.name}/rotor{number}").id for number in range(4)] for drone in drones], dtype=int
        ).reshape(-1, 4)
        self._acts = np.array(model.actuator_actadr[self._rotors])
        inertia = np.array([_inertia(mujoco, model, body) for body in bodies]).reshape(-1, 3)
        self._num_controls = 0
        self._controller = FlightController([drone.shape for drone in drones], inertia)

    def read(self, data: Any) -> None:
        """Takes over where the drones are."""
        positions = data.qpos[self._qpos + np.arange(3)]
        velocities = data.qvel[self._qvel + np.arange(3)]
        self._rotations = data.xmat[self._bodies].reshape(-1, 3, 3)
        self._rates = data.qvel[self._qvel + np.arange(3, 6)]
        yaws = np.arctan2(self._rotations[:, 1, 0], self._rotations[:, 0, 0])
        for drone, position, velocity, yaw in zip(self.drones, positions, velocities, yaws, strict=True):
            drone.position, drone.velocity, drone.yaw = position, velocity, float(yaw)
        self._positions, self._velocities = positions, velocities

    def put(self, data: Any, drone: Drone, at_m: Vector, yaw: float) -> None:
        """Puts a drone somewhere at once, level and at rest."""
        number = self.drones.index(drone)
        adr, dof = int(self._qpos[number, 0]), int(self._qvel[number, 0])
        data.qpos[adr : adr + 7] = [*at_m, math.cos(yaw / 2.0), 0.0, 0.0, math.sin(yaw / 2.0)]
        data.qvel[dof : dof + 6] = 0.0
        drone.position, drone.velocity, drone.yaw = np.array(at_m), np.zeros(3), yaw
        thrust_n = drone.shape.link.mass_kg.value * GRAVITY_M_PER_S2 / 4.0
        data.act[self._acts[number]] = thrust_n
        self._controller.reset(number)

    def control(self, data: Any, now_s: float, step_s: float) -> None:
        """Reads the drones, and sets the thrusts of their rotors for the next ``step_s``."""
        if not self.drones:
            return
        self.read(data)
        self._num_controls += 1
        is_worn = self._num_controls % WEAR_EVERY == 0
        points = []
        for number, drone in enumerate(self.drones):
            if drone.is_armed and self._rotations[number, 2, 2] < TUMBLED:
                drone.is_armed, drone.is_crashed = False, True
            if drone.is_armed:
                if is_worn:
                    _wear(drone, WEAR_EVERY * step_s)
                points.append(_as_seen(drone, drone.path.at(now_s)))
            else:
                _rest(drone, step_s)
                self._controller.reset(number)
                points.append(SetPoint(drone.position, np.zeros(3), np.zeros(3), drone.yaw, 0.0))
        thrusts = self._controller.thrusts(
            self._positions, self._velocities, self._rotations, self._rates, points, step_s
        )
        thrusts[[not drone.is_armed for drone in self.drones]] = 0.0
        data.ctrl[self._rotors] = thrusts


def _as_seen(drone: Drone, point: SetPoint) -> SetPoint:
    """Returns the set point where the drone, misled by its odometry, really goes."""
    return SetPoint(
        point.position - drone.drift, point.velocity, point.acceleration, point.yaw - drone.yaw_drift, point.yaw_rate
    )


def _rest(drone: Drone, step_s: float) -> None:
    """Lets a drone stand there with its motors off, until a person has changed its battery."""
    drone.rested_s += step_s
    if drone.rested_s >= BATTERY_CHANGE_S:
        drone.battery = 1.0


def _wear(drone: Drone, step_s: float) -> None:
    """Drains the battery and lets the odometry drift: a random walk, by the way flown and by time."""
    flight = drone.shape.flight
    drone.battery = max(0.0, drone.battery - step_s / flight.endurance_s.value)
    spread = flight.drift_share.value * math.sqrt(float(np.linalg.norm(drone.velocity)) * step_s)
    drone.drift = drone.drift + np.array([drone.rng.gauss(0.0, spread), drone.rng.gauss(0.0, spread), 0.0])
    drone.yaw_drift += math.radians(flight.drift_deg_per_s.value) * drone.rng.gauss(0.0, math.sqrt(step_s))


def _inertia(mujoco: Any, model: Any, body: int) -> Vector:
    """Returns the diagonal of a body's inertia in its own frame."""
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, model.body_iquat[body])
    turn = rotation.reshape(3, 3)
    return np.asarray(np.diag(turn @ np.diag(model.body_inertia[body]) @ turn.T), dtype=np.float64)
