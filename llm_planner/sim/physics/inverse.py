# SPDX-License-Identifier: Apache-2.0
"""Where an arm's tool is, and which joint angles bring it to a point from above: for any chain of a robot model."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from llm_planner.robots.shape import ChainBody, Point
from llm_planner.sim.physics.solids import quaternion

Matrix = NDArray[np.float64]
NEAR_M, NEAR_AXIS = 1e-3, 2e-2
MAX_STEPS = 60
AXIS_WEIGHT_M = 0.3  # a tool that points sideways costs as much as one that is this far away
_DAMPING = 0.02
_LONGEST_STEP = 0.35  # rad


class ChainKinematics:
    """Forward and inverse kinematics of an arm, in the frame of its base; angles in radians.

    The inverse is damped least squares (Wampler, 1986; Nakamura and Hanafusa, 1986) within the joint limits, the tool
    pointing down, any turn about the vertical. It knows no obstacle.
    """

    def __init__(self, shape: ChainBody) -> None:
        self._origins = [_frame(joint.at_m, quaternion(joint.rpy_deg)) for joint in shape.joints]
        self._tool = _frame((0.0, 0.0, shape.tool.length_m.value), (1.0, 0.0, 0.0, 0.0))
        self._limits = np.radians([joint.limit_deg.value for joint in shape.joints])
        self.home = np.radians([joint.home_deg for joint in shape.joints])

    def tool(self, joints: Sequence[float] | Matrix) -> Matrix:
        """Returns the tool's frame, shape (4, 4); its z axis is where the tool points."""
        return self.frames(joints)[-1]

    def position_m(self, joints: Sequence[float] | Matrix) -> Point:
        """Returns where the tool is."""
        x, y, z = self.tool(joints)[:3, 3]
        return float(x), float(y), float(z)

    def joints(self, point_m: Point, near: Sequence[float] | Matrix) -> Matrix | None:
        """Returns joint angles that bring the tool to a point from above, None if none are found.

        Args:
            point_m: In the frame of the base.
            near: Where the joints are; the search begins there, so that the way is short.
        """
        target = np.array(point_m)
        for start in self._starts(point_m, near):
            found = self._search(target, np.clip(start, -self._limits, self._limits))
            if found is not None:
                return found
        return None

    def _search(self, target: Matrix, joints: Matrix) -> Matrix | None:
        for _ in range(MAX_STEPS):
            *frames, tool = self.frames(joints)
            error = np.concatenate([target - tool[:3, 3], AXIS_WEIGHT_M * (np.array([0.0, 0.0, -1.0]) - tool[:3, 2])])
            is_there = float(np.linalg.norm(error[:3])) <= NEAR_M
            if is_there and float(np.linalg.norm(error[3:])) <= AXIS_WEIGHT_M * NEAR_AXIS:
                return joints
            axes = np.array([frame[:3, 2] for frame in frames])
            arms = tool[:3, 3] - np.array([frame[:3, 3] for frame in frames])
            slope = np.concatenate([np.cross(axes, arms), AXIS_WEIGHT_M * np.cross(axes, tool[:3, 2])], axis=1).T
            step = slope.T @ np.linalg.solve(slope @ slope.T + _DAMPING**2 * np.eye(6), error)
            step *= min(1.0, _LONGEST_STEP / max(1e-9, float(np.max(np.abs(step)))))
            joints = np.clip(joints + step, -self._limits, self._limits)
        return None

    def _starts(self, point_m: Point, near: Sequence[float] | Matrix) -> Iterator[Matrix]:
        """Yields angles to search from: the present ones, home, and home turned towards the point."""
        yield np.array(near, dtype=np.float64)
        yield self.home
        for lift in (0.0, math.radians(-30.0), math.radians(30.0)):
            turned = self.home.copy()
            turned[0] = math.atan2(point_m[1], point_m[0])
            turned[1:2] += lift
            yield turned

    def frames(self, joints: Sequence[float] | Matrix) -> list[Matrix]:
        """Returns the frame of each joint after its turn, and that of the tool."""
        frames: list[Matrix] = []
        frame = np.eye(4)
        for origin, angle in zip(self._origins, joints, strict=True):
            turn = np.eye(4)
            turn[:2, :2] = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
            frame = frame @ origin @ turn
            frames.append(frame)
        return [*frames, frame @ self._tool]


def _frame(at_m: Point, turn: tuple[float, float, float, float]) -> Matrix:
    w, x, y, z = turn
    frame = np.eye(4)
    frame[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    frame[:3, 3] = at_m
    return frame
