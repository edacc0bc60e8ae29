# SPDX-License-Identifier: Apache-2.0
"""Gains of a joint's controllers, from what the joint has to move."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llm_planner.robots.shape import ChainBody
from llm_planner.sim.gazebo.elements import STEM_KG, TIP_KG, gripper_shapes
from llm_planner.sim.gazebo.inertia import inertia_of, link_inertia
from llm_planner.sim.physics.inverse import ChainKinematics

Vector = NDArray[np.float64]
STIFFNESS_PER_S = 30.0
"""Natural frequency of each joint at home, in rad/s. Damped at every step of 2 ms, a joint remains stable while what it
moves is no less than 0.06 of that at home; an Indy7 that stands upright has 0.27 for its first joint. One gain for all
joints (600 N m/rad, 40 N m s/rad) does not: the light last joint stood 3 degrees off and shook."""


@dataclass(frozen=True, slots=True)
class Gains:
    """Torque for each radian, and for each radian per second, that a joint is off; critically damped."""

    position: float
    velocity: float


def gains(body: ChainBody) -> list[Gains]:
    """Returns the gains of all joints of an arm: the same stiffness and damping for what each one moves at home."""
    moved = inertias(body)
    return [Gains(float(i) * STIFFNESS_PER_S**2, 2.0 * float(i) * STIFFNESS_PER_S) for i in moved]


def inertias(body: ChainBody) -> Vector:
    """Returns what each joint moves: the inertia of all links behind it about its axis, the arm at home; kg m2."""
    chain = ChainKinematics(body)
    frames = chain.frames(chain.home)
    parts = [link_inertia(joint.link) for joint in body.joints]
    parts.append(inertia_of(gripper_shapes(body), STEM_KG + TIP_KG))  # in the frame of the last link
    found = np.zeros(len(body.joints))
    for number, part in enumerate(parts):
        frame = frames[min(number, len(body.joints) - 1)]
        centre = frame[:3, :3] @ np.array(part.at_m) + frame[:3, 3]
        tensor = frame[:3, :3] @ part.tensor @ frame[:3, :3].T
        for joint in range(min(number, len(body.joints) - 1) + 1):
            axis, origin = frames[joint][:3, 2], frames[joint][:3, 3]
            lever = float(np.linalg.norm(np.cross(axis, centre - origin)))
            found[joint] += float(axis @ tensor @ axis) + part.mass_kg * math.pow(lever, 2)
    return found
