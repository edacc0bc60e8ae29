# SPDX-License-Identifier: Apache-2.0
"""Where a robot's home is in the world, and how its own frame lies there."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llm_planner.robots.model import Pose
from llm_planner.robots.motion import wrapped_deg
from llm_planner.robots.shape import Point

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Origin and heading of a robot's own frame: home on the floor, or the foot of an arm."""

    x_m: float = 0.0
    y_m: float = 0.0
    z_m: float = 0.0
    yaw_deg: float = 0.0

    @property
    def origin(self) -> Vector:
        """As a vector."""
        return np.array([self.x_m, self.y_m, self.z_m])

    def to_world(self, point: Point | Vector) -> Vector:
        """Returns a point of the robot's frame in that of the world."""
        return self.origin + self.turned(point)

    def turned(self, vector: Point | Vector) -> Vector:
        """Returns a direction of the robot's frame in that of the world."""
        c, s = math.cos(math.radians(self.yaw_deg)), math.sin(math.radians(self.yaw_deg))
        return np.array([c * vector[0] - s * vector[1], s * vector[0] + c * vector[1], vector[2]])

    def to_robot(self, point: Vector) -> Point:
        """Returns a point of the world in the robot's frame."""
        return self.turned_back(point - self.origin)

    def turned_back(self, vector: Vector) -> Point:
        """Returns a direction of the world in the robot's frame."""
        c, s = math.cos(math.radians(self.yaw_deg)), math.sin(math.radians(self.yaw_deg))
        x, y, z = (float(v) for v in vector)
        return c * x + s * y, -s * x + c * y, z

    def pose(self, point: Vector, yaw: float) -> Pose:
        """Returns a point and a heading (radians) of the world as a pose in the robot's frame."""
        x, y, z = self.to_robot(point)
        return Pose(x_m=x, y_m=y, z_m=z, yaw_deg=wrapped_deg(math.degrees(yaw) - self.yaw_deg))
