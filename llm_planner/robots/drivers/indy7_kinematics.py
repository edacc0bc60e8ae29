# SPDX-License-Identifier: Apache-2.0
"""Where the tool of an Indy7 is, and which joint angles bring it somewhere: the geometry of its published URDF.

The URDF is ``indy_description/urdf_files/indy7.urdf`` of neuromeka-robotics/indy-ros2; the links add up to the
data sheet's 0.2995, 0.450, 0.350 and 0.228 m. Angles are in degrees, in the order of the joints.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Point = tuple[float, float, float]
Matrix = NDArray[np.float64]

JOINTS = ("joint0", "joint1", "joint2", "joint3", "joint4", "joint5")
LIMITS_DEG = (175.0, 175.0, 175.0, 175.0, 175.0, 215.0)  # published: both ways
_HALF = math.pi / 2.0
_ORIGINS: tuple[
    tuple[Point, Point], ...
] = (  # published: xyz in metres and roll, pitch, yaw, each in its parent's frame
    ((0.0, 0.0, 0.0775), (0.0, 0.0, 0.0)),
    ((0.0, -0.109, 0.222), (_HALF, _HALF, 0.0)),
    ((-0.45, 0.0, -0.0305), (0.0, 0.0, 0.0)),
    ((-0.267, 0.0, -0.075), (-_HALF, 0.0, _HALF)),
    ((0.0, -0.114, 0.083), (_HALF, _HALF, 0.0)),
    ((-0.168, 0.0, 0.069), (-_HALF, 0.0, _HALF)),
)
FLANGE_M = 0.06  # from the last joint
NEAR_M, NEAR_AXIS = 1e-3, 1e-2
MAX_TRIES = 60
AXIS_WEIGHT_M = 0.3  # a tool that points sideways costs as much as one that is this far away


class Indy7Kinematics:
    """Forward and inverse kinematics.

    Args:
        tool_length_m: From the flange to the middle of the fingers.
    """

    def __init__(self, tool_length_m: float = 0.0) -> None:
        from scipy.optimize import least_squares  # takes a second to load: not while a robot waits

        self._least_squares: Callable[..., Any] = least_squares
        self._tool = _translation((0.0, 0.0, FLANGE_M + tool_length_m))
        self._origins = [_translation(xyz) @ _rotation(rpy) for xyz, rpy in _ORIGINS]

    def tool(self, joints_deg: Sequence[float]) -> Matrix:
        """Returns the tool's frame in that of the base, of shape (4, 4); its z axis is where the tool points."""
        return self._frames(np.radians(joints_deg))[-1]

    def _frames(self, angles: Matrix) -> list[Matrix]:
        """Returns the frame of each joint after its turn, and that of the tool."""
        frames: list[Matrix] = []
        frame = np.eye(4)
        for origin, angle in zip(self._origins, angles, strict=True):
            frame = frame @ origin @ _about_z(float(angle))
            frames.append(frame)
        return [*frames, frame @ self._tool]

    def position_m(self, joints_deg: Sequence[float]) -> Point:
        """Returns where the tool is."""
        x, y, z = self.tool(joints_deg)[:3, 3]
        return float(x), float(y), float(z)

    def joints(self, point_m: Point, near_deg: Sequence[float]) -> tuple[float, ...] | None:
        """Returns joint angles that bring the tool to a point from above, None if there are none.

        Args:
            point_m: In the frame of the base.
            near_deg: Where the joints are; the search begins there, so that the way is short.
        """
        target, limit = np.array(point_m), np.radians(LIMITS_DEG)

        def error(angles: Matrix) -> Matrix:
            frame = self._frames(angles)[-1]
            axis = AXIS_WEIGHT_M * (frame[:3, 2] - np.array([0.0, 0.0, -1.0]))
            return np.concatenate([frame[:3, 3] - target, axis])

        def slope(angles: Matrix) -> Matrix:  # the geometric Jacobian
            *frames, tool = self._frames(angles)
            columns = [
                np.concatenate(
                    [
                        np.cross(frame[:3, 2], tool[:3, 3] - frame[:3, 3]),
                        AXIS_WEIGHT_M * np.cross(frame[:3, 2], tool[:3, 2]),
                    ]
                )
                for frame in frames
            ]
            return np.array(columns).T

        for start in _starts(point_m, near_deg):
            begin = np.clip(np.radians(start), -limit + 1e-6, limit - 1e-6)
            solved = self._least_squares(error, begin, jac=slope, bounds=(-limit, limit), max_nfev=MAX_TRIES)
            rest = error(solved.x)
            if np.linalg.norm(rest[:3]) <= NEAR_M and np.linalg.norm(rest[3:]) <= AXIS_WEIGHT_M * NEAR_AXIS:
                return tuple(float(angle) for angle in np.degrees(solved.x))
        return None


def _starts(point_m: Point, near_deg: Sequence[float]) -> Iterator[Sequence[float]]:
    """Yields angles to search from: the present ones, and two shapes of the elbow turned towards the point."""
    yield near_deg
    base_deg = math.degrees(math.atan2(point_m[1], point_m[0]))
    yield (base_deg, -15.0, -90.0, 0.0, -75.0, 0.0)
    yield (base_deg, -45.0, -60.0, 0.0, -75.0, 0.0)


def _translation(xyz: Point) -> Matrix:
    frame = np.eye(4)
    frame[:3, 3] = xyz
    return frame


def _about_z(angle: float) -> Matrix:
    frame = np.eye(4)
    frame[:2, :2] = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    return frame


def _rotation(rpy: Point) -> Matrix:
    """Returns the rotation of URDF's fixed-axis roll, pitch and yaw."""
    roll, pitch, yaw = rpy
    about_x = np.eye(4)
    about_x[1:3, 1:3] = [[math.cos(roll), -math.sin(roll)], [math.sin(roll), math.cos(roll)]]
    about_y = np.eye(4)
    about_y[0, 0] = about_y[2, 2] = math.cos(pitch)
    about_y[0, 2], about_y[2, 0] = math.sin(pitch), -math.sin(pitch)
    return np.asarray(_about_z(yaw) @ about_y @ about_x, dtype=np.float64)
