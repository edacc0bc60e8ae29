# SPDX-License-Identifier: Apache-2.0
"""A drone in Gazebo as the way to a body: set points become velocities, odometry becomes telemetry. No ROS in here.

Gazebo's VelocityControl makes a body move as it is told, without rotors and wind; OdometryPublisher says where it
is in the world. What stands there is known from the world's file, so nothing is hidden from this robot.
"""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from llm_planner.core.interfaces import Clock
from llm_planner.robots.model import Pose, RobotModel
from llm_planner.robots.motion import wrapped_deg
from llm_planner.robots.shape import QuadrotorBody
from llm_planner.robots.world import WorldObject
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.port import Telemetry
from llm_planner.sim.physics.reference import Path, Ramp, brake, hold

FOLLOW_PER_S = 2.0  # velocity for each metre, or radian, that it lags behind
LANDING_M_PER_S = 0.4
LANDED_M = 0.02  # so near to its lowest place it has landed
SETTLED_M_PER_S, SETTLED_DEG = 0.08, 3.0
ODOMETRY_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Velocity:
    """A twist in the drone's own frame: metres and radians per second."""

    forward: float = 0.0
    left: float = 0.0
    up: float = 0.0
    turn: float = 0.0


class GazeboDronePort:
    """Implements ``physics.port.DronePort``. Safe to use from any thread.

    Args:
        model: Of the drone, with a quadrotor for a body.
        home: Where its own frame lies in Gazebo's world.
        things: What stands there, in the world frame.
        send: Sends a velocity.
        clock: Times set points and odometry.
    """

    def __init__(
        self,
        model: RobotModel,
        *,
        home: Home,
        things: Sequence[WorldObject],
        send: Callable[[Velocity], None],
        clock: Clock,
    ) -> None:
        assert isinstance(model.body, QuadrotorBody)
        self._flight, self._home, self._send, self._clock = model.body.flight, home, send, clock
        self._floor_m = home.z_m + model.body.link.radius_m / 2.0
        self._things = [_seen_from(home, thing) for thing in things]
        self._lock = threading.RLock()
        self._position, self._velocity, self._yaw = home.to_world((0.0, 0.0, 0.0)), np.zeros(3), 0.0
        self._position[2] = self._floor_m
        self._received_at_s: float | None = None
        self._path: Path | None = None
        self._is_armed = self._is_landing = False
        self._told: list[WorldObject] = list(self._things)

    # --- From Gazebo

    def note_odometry(self, position_m: Sequence[float], yaw: float) -> None:
        """Takes where the drone is in the world, yaw in radians; how fast it is follows from the last time."""
        with self._lock:
            now_s, position = self._clock.now_s(), np.array(position_m, dtype=np.float64)
            if self._received_at_s is not None and now_s > self._received_at_s:
                self._velocity = (position - self._position) / (now_s - self._received_at_s)
            if self._received_at_s is None and position[2] > self._floor_m + 0.1:
                self._is_armed = True  # it was in the air before the first question
            self._position, self._yaw, self._received_at_s = position, yaw, now_s

    def tick(self) -> None:
        """Sends the velocity of now; call it as often as odometry comes."""
        with self._lock:
            path, now_s = self._path, self._clock.now_s()
            if path is None or not self._is_armed or self._is_lost(now_s):
                self._send(Velocity())
                return
            if self._is_landing and self._position[2] <= self._floor_m + LANDED_M:
                self._is_armed = self._is_landing = False
                self._path = None
                self._send(Velocity())
                return
            point = path.at(now_s)
            wanted = point.velocity + FOLLOW_PER_S * (point.position - self._position)
            c, s = math.cos(self._yaw), math.sin(self._yaw)
            lag = math.radians(wrapped_deg(math.degrees(point.yaw - self._yaw)))
            self._send(
                Velocity(
                    forward=float(c * wanted[0] + s * wanted[1]),
                    left=float(-s * wanted[0] + c * wanted[1]),
                    up=float(wanted[2]),
                    turn=point.yaw_rate + FOLLOW_PER_S * lag,
                )
            )

    def _is_lost(self, now_s: float) -> bool:
        return self._received_at_s is None or now_s - self._received_at_s > ODOMETRY_TIMEOUT_S

    # --- For the driver

    def enter(self, objects: Sequence[WorldObject], pose: Pose) -> float:
        """Notes what a robot was told of; Gazebo's world stays as it is, and the drone where it is."""
        with self._lock:
            known = {thing.name for thing in objects}
            self._told = [*objects, *(thing for thing in self._things if thing.name not in known)]
            if pose.z_m > 0.0 and not self._is_armed:  # a plan that begins in the air
                self.take_off(pose.z_m)
        return 0.0

    def read(self, until_s: float) -> Telemetry:
        """Returns the telemetry, dated as the driver asks: both live in real time."""
        with self._lock:
            pose = self._home.pose(self._position, self._yaw)
            height_m = pose.z_m - self._floor_m + self._home.z_m if self._is_armed else 0.0
            grounded = Pose(x_m=pose.x_m, y_m=pose.y_m, z_m=max(0.0, height_m), yaw_deg=pose.yaw_deg)
            return Telemetry(
                time_s=until_s,
                pose=grounded,
                is_settled=self._is_settled(),
                is_armed=self._is_armed,
                is_lost=self._is_lost(self._clock.now_s()),
            )

    def _is_settled(self) -> bool:
        now_s = self._clock.now_s()
        if self._is_lost(now_s):
            return False
        if self._path is None or not self._is_armed:
            return True
        point = self._path.at(now_s)
        lag_deg = abs(wrapped_deg(math.degrees(point.yaw - self._yaw)))
        is_near = float(np.linalg.norm(point.position - self._position)) <= self._flight.settle_m.value
        is_slow = float(np.linalg.norm(self._velocity)) <= SETTLED_M_PER_S
        return now_s >= self._path.end_s and is_near and is_slow and lag_deg <= SETTLED_DEG

    def look(self) -> tuple[WorldObject, ...]:
        """Returns everything that it was told of, or that stands in the world's file."""
        with self._lock:
            return tuple(self._told)

    def survey(self) -> tuple[WorldObject, ...]:
        """Returns the same: Gazebo is not asked where things are by now."""
        return self.look()

    def fly(self, target: Pose, turn_deg: float) -> None:
        """Flies straight to a pose, turning meanwhile."""
        with self._lock:
            flight, now_s = self._flight, self._clock.now_s()
            begin, yaw = self._place(now_s)
            end = self._home.to_world((target.x_m, target.y_m, target.z_m + self._floor_m - self._home.z_m))
            way_m = float(np.linalg.norm(end - begin))
            way = Ramp(way_m, flight.speed_m_per_s.value, flight.acceleration_m_per_s2.value)
            turn = Ramp(abs(turn_deg), flight.turn_deg_per_s.value, flight.turn_deg_per_s2.value)
            self._path = Path(now_s, begin, end, yaw, way, turn, math.copysign(1.0, turn_deg))
            self._is_landing = False

    def _place(self, now_s: float) -> tuple[np.ndarray, float]:
        """Returns where the set point is, if the drone is near it; else where the drone is."""
        if self._path is not None:
            point = self._path.at(now_s)
            if float(np.linalg.norm(point.position - self._position)) < 0.3:
                return point.position, point.yaw
        return self._position.copy(), self._yaw

    def take_off(self, altitude_m: float) -> None:
        """Rises straight up."""
        with self._lock:
            self._is_armed = True
            here = self._home.pose(self._position, self._yaw)
            self._path = None
            self.fly(Pose(x_m=here.x_m, y_m=here.y_m, z_m=altitude_m), 0.0)

    def land(self) -> None:
        """Sinks until it is as low as it began."""
        with self._lock:
            begin, yaw = self._place(self._clock.now_s())
            end = np.array([begin[0], begin[1], self._floor_m - 2.0 * LANDED_M])
            way = Ramp(float(begin[2] - end[2]), LANDING_M_PER_S, self._flight.acceleration_m_per_s2.value)
            still = Ramp(0.0, 1.0, 1.0)
            self._path = Path(self._clock.now_s(), begin, end, yaw, way, still)
            self._is_landing = True

    def stop(self) -> None:
        """Brakes and holds."""
        with self._lock:
            if self._is_armed:
                deceleration = 1.5 * self._flight.acceleration_m_per_s2.value
                self._path = brake(self._position.copy(), self._velocity, self._yaw, deceleration)
                self._is_landing = False

    def close(self) -> None:
        """Holds where it is; the last velocity would go on for ever."""
        with self._lock:
            self._path = hold(self._position.copy(), self._yaw) if self._is_armed else None
            self._send(Velocity())

    def picture(self) -> str:
        """Takes no picture: there is no camera sensor in the model."""
        return ""


def _seen_from(home: Home, thing: WorldObject) -> WorldObject:
    return replace(thing, position_m=home.to_robot(np.array(thing.position_m)))
