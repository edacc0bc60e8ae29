# SPDX-License-Identifier: Apache-2.0
"""Mass, centre and inertia of a link: MuJoCo reckons them from shapes by itself, URDF and SDF must be told."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llm_planner.robots.shape import Link, Point, Shape

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Inertia:
    """Of one rigid part, about its own centre of mass, along the axes of its link.

    Attributes:
        tensor: (3, 3), kg m2.
    """

    mass_kg: float
    at_m: Point
    tensor: Matrix


def rotation(rpy_deg: Point) -> Matrix:
    """Returns URDF's rotation: roll, then pitch, then yaw about fixed axes."""
    roll, pitch, yaw = (math.radians(angle) for angle in rpy_deg)
    cr, sr, cp, sp, cy, sy = (f(a) for a in (roll, pitch, yaw) for f in (math.cos, math.sin))
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def inertia_of(shapes: tuple[Shape, ...], mass_kg: float) -> Inertia:
    """Returns the inertia of solids that share a mass by their volume."""
    total_m3 = sum(shape.volume_m3 for shape in shapes)
    masses = [mass_kg * shape.volume_m3 / total_m3 for shape in shapes]
    places = [np.array(shape.at_m) for shape in shapes]
    centre = sum((m * p for m, p in zip(masses, places, strict=True)), np.zeros(3)) / mass_kg
    tensor = np.zeros((3, 3))
    for shape, mass, place in zip(shapes, masses, places, strict=True):
        turned, arm = rotation(shape.rpy_deg), place - centre
        tensor += turned @ np.diag(_principal(shape, mass)) @ turned.T
        tensor += mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return Inertia(mass_kg, (float(centre[0]), float(centre[1]), float(centre[2])), tensor)


def link_inertia(link: Link) -> Inertia:
    """Returns the inertia of a link."""
    return inertia_of(link.shapes, link.mass_kg.value)


def _principal(shape: Shape, mass_kg: float) -> tuple[float, float, float]:
    """Returns the moments of an even solid about its own axes."""
    if shape.kind == "box":
        x, y, z = shape.size_m
        return mass_kg * (y * y + z * z) / 12, mass_kg * (x * x + z * z) / 12, mass_kg * (x * x + y * y) / 12
    radius_m = shape.size_m[0]
    if shape.kind == "sphere":
        return (0.4 * mass_kg * radius_m**2,) * 3
    across = mass_kg * (3 * radius_m**2 + shape.size_m[1] ** 2) / 12
    return across, across, mass_kg * radius_m**2 / 2
