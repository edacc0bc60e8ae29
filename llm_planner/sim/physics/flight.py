# SPDX-License-Identifier: Apache-2.0
"""Flight of quadrotors by a cascade: position -> velocity -> attitude -> rates -> thrusts, for all drones at once.

Attitude error on SO(3) after Lee, Leok and McClamroch, "Geometric tracking control of a quadrotor UAV on SE(3)" (2010),
Eq. (10). Deviation: their one law is split into a cascade of attitude and rates, with limits between, as autopilots do.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llm_planner.robots.shape import GRAVITY_M_PER_S2, QuadrotorBody
from llm_planner.sim.physics.reference import SetPoint

Array = NDArray[np.float64]

_POSITION, _VELOCITY, _INTEGRAL = 1.2, 3.5, 0.35  # 1/s, 1/s, 1/s2
_ATTITUDE, _RATE = 14.0, 35.0  # 1/s
_AHEAD = 0.8  # share of the acceleration of the set point that is not waited for; all of it overshoots
_YAW_SHARE = 0.4  # yaw is slow: only the drag of the rotors turns it
_GAIN = np.array([_RATE, _RATE, _RATE * _YAW_SHARE])
_MOST_INTEGRAL = 1.5  # m/s2
_CATCH_UP = 1.05  # times the set speed, to catch up with the set point


class FlightController:
    """Thrusts of the rotors of ``n`` drones. Arrays are of shape (n, ...), in the world frame unless said otherwise.

    Args:
        shapes: Of the drones.
        inertia: Diagonal of their inertia in the body frame, kg m2.
    """

    def __init__(self, shapes: Sequence[QuadrotorBody], inertia: Array) -> None:
        self._mass = np.array([s.link.mass_kg.value for s in shapes])
        self._inertia = inertia
        self._tilt = np.tan(np.radians([s.flight.tilt_deg.value for s in shapes]))
        self._speed = _CATCH_UP * np.array([s.flight.speed_m_per_s.value for s in shapes])
        self._most = np.array([s.rotors.thrust_n.value for s in shapes])
        self._mixers = np.array([_mixer(s) for s in shapes]).reshape(-1, 4, 4)
        self._integral = np.zeros((len(shapes), 3))

    def reset(self, number: int) -> None:
        """Forgets what a drone has learnt about wind and weight."""
        self._integral[number] = 0.0

    def thrusts(
        self, position: Array, velocity: Array, rotation: Array, rates: Array, points: Sequence[SetPoint], step_s: float
    ) -> Array:
        """Returns the thrust of each rotor in newtons, shape (n, 4).

        Args:
            position: As the drones believe it, (n, 3).
            velocity: Likewise, (n, 3).
            rotation: Body to world, (n, 3, 3).
            rates: In the body frame, rad/s, (n, 3).
            points: Where they should be.
            step_s: Since the last call.
        """
        error = np.array([p.position for p in points]) - position
        wanted = np.array([p.velocity for p in points]) + _POSITION * error
        wanted *= np.minimum(1.0, self._speed / np.maximum(1e-9, _lengths(wanted)))[:, None]
        slow = wanted - velocity
        self._integral = _within(self._integral + _INTEGRAL * slow * step_s, -_MOST_INTEGRAL, _MOST_INTEGRAL)
        push = _AHEAD * np.array([p.acceleration for p in points]) + _VELOCITY * slow + self._integral
        push[:, 2] = _within(push[:, 2] + GRAVITY_M_PER_S2, 0.3 * GRAVITY_M_PER_S2, 1.8 * GRAVITY_M_PER_S2)
        level = _lengths(push[:, :2])
        push[:, :2] *= np.minimum(1.0, self._tilt * push[:, 2] / np.maximum(1e-9, level))[:, None]
        wrench = np.empty((len(push), 4))
        wrench[:, 0] = np.maximum(self._mass * np.einsum("ni,ni->n", push, rotation[:, :, 2]), 0.0)
        wrench[:, 1:] = self._torque(push, rotation, rates, points)
        return _within(np.einsum("nij,nj->ni", self._mixers, wrench), 0.0, self._most[:, None])

    def _torque(self, push: Array, rotation: Array, rates: Array, points: Sequence[SetPoint]) -> Array:
        up = push / _lengths(push)[:, None]
        yaws = np.array([p.yaw for p in points])
        heading = np.zeros_like(up)
        heading[:, 0], heading[:, 1] = np.cos(yaws), np.sin(yaws)
        left = _cross(up, heading)
        left /= _lengths(left)[:, None]
        wanted = np.empty_like(rotation)
        wanted[:, :, 0], wanted[:, :, 1], wanted[:, :, 2] = _cross(left, up), left, up
        off = np.einsum("nji,njk->nik", wanted, rotation)
        error = np.empty_like(rates)
        for axis, (row, column) in enumerate(((2, 1), (0, 2), (1, 0))):
            error[:, axis] = 0.5 * (off[:, row, column] - off[:, column, row])
        error[:, 2] *= _YAW_SHARE
        spin = -_ATTITUDE * error
        spin[:, 2] += [p.yaw_rate for p in points]
        gyro = _cross(rates, self._inertia * rates)
        return np.asarray(self._inertia * _GAIN * (spin - rates) + gyro, dtype=np.float64)


def _lengths(vectors: Array) -> Array:
    return np.asarray(np.sqrt((vectors * vectors).sum(axis=1)), dtype=np.float64)


def _within(values: Array, low: float, high: float | Array) -> Array:
    """Returns values between two bounds; numpy's own ``clip`` takes three times as long for a handful."""
    return np.asarray(np.minimum(np.maximum(values, low), high), dtype=np.float64)


def _cross(one: Array, two: Array) -> Array:
    """Returns the cross products of rows; numpy's own takes ten times as long for a handful."""
    a, b, c = one.T
    x, y, z = two.T
    product = np.empty_like(one)
    product[:, 0] = b * z - c * y
    product[:, 1] = c * x - a * z
    product[:, 2] = a * y - b * x
    return product


def _mixer(shape: QuadrotorBody) -> Array:
    """Returns the matrix from thrust and torque about x, y, z to the thrusts of the rotors (order: ``solids``)."""
    x, y, _ = shape.rotors.at_m
    drag = shape.rotors.torque_m.value
    effect = np.array([[1, 1, 1, 1], [y, -y, y, -y], [-x, -x, x, x], [drag, -drag, -drag, drag]])
    return np.asarray(np.linalg.inv(effect), dtype=np.float64)
