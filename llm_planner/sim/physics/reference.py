# SPDX-License-Identifier: Apache-2.0
"""Set points through time: where a drone should be now, how fast, how strongly accelerated."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llm_planner.robots.duration import trap

Vector = NDArray[np.float64]
_ZERO = np.zeros(3)


@dataclass(frozen=True, slots=True)
class SetPoint:
    """What the flight controller follows; world frame, shape (3,); angles in radians."""

    position: Vector
    velocity: Vector
    acceleration: Vector
    yaw: float
    yaw_rate: float


@dataclass(frozen=True, slots=True)
class Ramp:
    """A way of some length from rest to rest with a trapezoidal speed."""

    length: float
    speed: float
    acceleration: float

    @property
    def duration_s(self) -> float:
        """How long it takes."""
        return trap(self.length, self.speed, self.acceleration) if self.length else 0.0

    def at(self, time_s: float) -> tuple[float, float, float]:
        """Returns way, speed and acceleration at a time after the start."""
        total_s = self.duration_s
        if time_s <= 0.0 or total_s == 0.0:
            return 0.0, 0.0, 0.0
        if time_s >= total_s:
            return self.length, 0.0, 0.0
        ramp_s = min(self.speed / self.acceleration, total_s / 2.0)
        if time_s < ramp_s:
            return self.acceleration * time_s**2 / 2.0, self.acceleration * time_s, self.acceleration
        left_s = total_s - time_s
        if left_s < ramp_s:
            return self.length - self.acceleration * left_s**2 / 2.0, self.acceleration * left_s, -self.acceleration
        top = self.acceleration * ramp_s
        return self.acceleration * ramp_s**2 / 2.0 + top * (time_s - ramp_s), top, 0.0


@dataclass(frozen=True, slots=True)
class Path:
    """A straight way in space and a turn, both from rest to rest, beginning together.

    Attributes:
        start_s: When it begins, on the world's clock; before, the set point is its beginning.
    """

    start_s: float
    begin: Vector
    end: Vector
    yaw: float
    way: Ramp
    turn: Ramp
    turn_sign: float = 1.0

    @property
    def end_s(self) -> float:
        """When the set point stands."""
        return self.start_s + max(self.way.duration_s, self.turn.duration_s)

    def at(self, time_s: float) -> SetPoint:
        """Returns the set point at a time."""
        elapsed_s = time_s - self.start_s
        if elapsed_s <= 0.0 or (self.way.length == 0.0 and self.turn.length == 0.0):
            return SetPoint(self.begin, _ZERO, _ZERO, self.yaw, 0.0)
        way, speed, acceleration = self.way.at(elapsed_s)
        turned, rate, _ = self.turn.at(elapsed_s)
        ahead = (self.end - self.begin) / self.way.length if self.way.length else np.zeros(3)
        return SetPoint(
            self.begin + ahead * way,
            ahead * speed,
            ahead * acceleration,
            self.yaw + self.turn_sign * math.radians(turned),
            self.turn_sign * math.radians(rate),
        )


def hold(position: Vector, yaw: float) -> Path:
    """Returns the path of a drone that stays where it is."""
    still = Ramp(0.0, 1.0, 1.0)
    return Path(0.0, position, position, yaw, still, still)


def brake(position: Vector, velocity: Vector, yaw: float, deceleration: float) -> Path:
    """Returns a path that ends where a drone comes to rest that brakes now."""
    speed = float(np.linalg.norm(velocity))
    return hold(position + velocity * speed / (2.0 * deceleration), yaw)
