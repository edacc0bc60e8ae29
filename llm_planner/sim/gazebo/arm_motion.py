# SPDX-License-Identifier: Apache-2.0
"""Motions of joints as Gazebo's JointTrajectoryController wants them: many points, each with its speed.

It does not interpolate: its target is the first point whose time has not passed (gz-sim,
``src/systems/joint_traj_control/JointTrajectoryController.cc``).
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
POINT_S = 0.02  # between points


class Motion(Protocol):
    """Where joints should be through time."""

    @property
    def end_s(self) -> float:
        """When the set point stands."""
        ...

    def at(self, time_s: float) -> tuple[Vector, Vector]:
        """Returns angles and rates in radians."""
        ...


@dataclass(frozen=True, slots=True)
class Brake:
    """Joints that come to rest together, evenly braked."""

    start_s: float
    begin: Vector
    rates: Vector
    deceleration: float

    @property
    def end_s(self) -> float:
        """When the set point stands: the fastest joint brakes as hard as it may."""
        return self.start_s + float(np.max(np.abs(self.rates))) / self.deceleration

    def at(self, time_s: float) -> tuple[Vector, Vector]:
        """Returns angles and rates in radians."""
        duration_s = self.end_s - self.start_s
        gone_s = min(max(0.0, time_s - self.start_s), duration_s)
        left = 1.0 - gone_s / duration_s if duration_s else 0.0
        return self.begin + self.rates * gone_s * (1.0 + left) / 2.0, self.rates * left


@dataclass(frozen=True, slots=True)
class JointPoint:
    """A point of a trajectory: seconds since it began, radians, radians per second."""

    after_s: float
    positions: tuple[float, ...]
    velocities: tuple[float, ...]


def points(motion: Motion, start_s: float) -> list[JointPoint]:
    """Returns what is left of a motion at a time, at least one point."""
    left_s = max(0.0, motion.end_s - start_s)
    found = []
    for after_s in np.linspace(0.0, left_s, 1 + math.ceil(left_s / POINT_S)):
        angles, rates = motion.at(start_s + after_s)
        found.append(JointPoint(float(after_s), tuple(map(float, angles)), tuple(map(float, rates))))
    return found
