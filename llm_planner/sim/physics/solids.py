# SPDX-License-Identifier: Apache-2.0
"""Solids and robots' bodies as parts of a MuJoCo specification (MjSpec), made from the robot's own YAML."""

import math
from collections.abc import Sequence
from typing import Any

from llm_planner.robots.shape import ChainBody, Link, Point, QuadrotorBody, Shape
from llm_planner.sim.physics.mujoco_loader import load_mujoco

Quaternion = tuple[float, float, float, float]
TOOL, FINGER = "tool", "finger"
FINGER_M = (0.012, 0.024, 0.05)  # of each finger, drawn only: what is held is welded, not squeezed
_ARMATURE = 0.5  # kg m2: rotor of a geared joint, as the joint feels it
_STIFFNESS, _DAMPING = 6000.0, 250.0  # Nm/rad, Nms/rad: joints that follow as a position controller makes them


def quaternion(rpy_deg: Point) -> Quaternion:
    """Returns the rotation of URDF's fixed-axis roll, pitch and yaw, as w x y z."""
    roll, pitch, yaw = (math.radians(angle) / 2.0 for angle in rpy_deg)
    cr, sr, cp, sp, cy, sy = (f(a) for a in (roll, pitch, yaw) for f in (math.cos, math.sin))
    return (
        cr * cp * cy + sr * sp * sy,
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
    )


def add_shape(body: Any, shape: Shape, **options: Any) -> Any:
    """Adds a primitive to a body of a specification; returns the geom."""
    mujoco = load_mujoco()
    kinds = {"box": "mjGEOM_BOX", "cylinder": "mjGEOM_CYLINDER", "sphere": "mjGEOM_SPHERE"}
    half = [size / 2.0 for size in shape.size_m]
    sizes = {"box": half, "cylinder": [shape.size_m[0], half[-1], 0.0], "sphere": [shape.size_m[0], 0.0, 0.0]}
    return body.add_geom(
        type=getattr(mujoco.mjtGeom, kinds[shape.kind]),
        size=sizes[shape.kind],
        pos=shape.at_m,
        quat=quaternion(shape.rpy_deg),
        rgba=[*shape.colour, 1.0],
        **options,
    )


def add_link(body: Any, link: Link) -> None:
    """Adds the shapes of a link; they share its mass by their volume."""
    total_m3 = sum(shape.volume_m3 for shape in link.shapes)
    for shape in link.shapes:
        add_shape(body, shape, mass=link.mass_kg.value * shape.volume_m3 / total_m3)


def add_quadrotor(spec: Any, name: str, shape: QuadrotorBody, at_m: Sequence[float], yaw_deg: float) -> Any:
    """Adds a drone with its four rotors to a specification; returns its body.

    Rotors are numbered front left, front right, rear left, rear right; the first and the last turn clockwise.
    """
    mujoco = load_mujoco()
    body = spec.worldbody.add_body(name=name, pos=at_m, quat=quaternion((0.0, 0.0, yaw_deg)))
    body.add_freejoint()
    add_link(body, shape.link)
    rotors = shape.rotors
    for number, (x, y) in enumerate(((1, 1), (1, -1), (-1, 1), (-1, -1))):
        site = body.add_site(name=f"{name}/rotor{number}", pos=(x * rotors.at_m[0], y * rotors.at_m[1], rotors.at_m[2]))
        turning = 1.0 if number in (0, 3) else -1.0
        spec.add_actuator(
            name=f"{name}/rotor{number}",
            trntype=mujoco.mjtTrn.mjTRN_SITE,
            target=site.name,
            gear=[0.0, 0.0, 1.0, 0.0, 0.0, turning * rotors.torque_m.value],
            dyntype=mujoco.mjtDyn.mjDYN_FILTEREXACT,
            dynprm=[rotors.lag_s.value] + [0.0] * 9,
            gaintype=mujoco.mjtGain.mjGAIN_FIXED,
            gainprm=[1.0] + [0.0] * 9,
            ctrllimited=True,
            ctrlrange=[0.0, rotors.thrust_n.value],
        )
    return body


def add_chain(spec: Any, name: str, shape: ChainBody, at_m: Sequence[float], yaw_deg: float) -> Any:
    """Adds an arm that stands still on its base to a specification; returns the body of its last link."""
    mujoco = load_mujoco()
    body = spec.worldbody.add_body(name=name, pos=at_m, quat=quaternion((0.0, 0.0, yaw_deg)))
    add_link(body, shape.base)
    for joint in shape.joints:
        body = body.add_body(name=f"{name}/{joint.name}", pos=joint.at_m, quat=quaternion(joint.rpy_deg), gravcomp=1.0)
        limit = math.radians(joint.limit_deg.value)
        body.add_joint(
            name=f"{name}/{joint.name}",
            type=mujoco.mjtJoint.mjJNT_HINGE,
            axis=[0.0, 0.0, 1.0],
            limited=True,
            range=[-limit, limit],
            armature=_ARMATURE,
            ref=0.0,
        )
        add_link(body, joint.link)
        torque = joint.torque_nm.value
        spec.add_actuator(
            name=f"{name}/{joint.name}",
            trntype=mujoco.mjtTrn.mjTRN_JOINT,
            target=f"{name}/{joint.name}",
            gaintype=mujoco.mjtGain.mjGAIN_FIXED,
            gainprm=[_STIFFNESS] + [0.0] * 9,
            biastype=mujoco.mjtBias.mjBIAS_AFFINE,
            biasprm=[0.0, -_STIFFNESS, -_DAMPING] + [0.0] * 7,
            forcelimited=True,
            forcerange=[-torque, torque],
        )
    _add_gripper(body, name, shape)
    _exclude_own(spec, name, shape)
    return body


def _add_gripper(body: Any, name: str, shape: ChainBody) -> None:
    """Adds a tip that touches, and two fingers next to it that are only drawn."""
    length_m = shape.tool.length_m.value
    stem_m = max(0.01, length_m - 0.06 - FINGER_M[2])
    add_shape(body, Shape(kind="cylinder", size_m=(0.025, stem_m), at_m=(0.0, 0.0, 0.06 + stem_m / 2)), mass=0.4)
    tip = Shape(kind="cylinder", size_m=(0.008, FINGER_M[2]), at_m=(0.0, 0.0, length_m - FINGER_M[2] / 2))
    add_shape(body, tip, mass=0.05, name=f"{name}/{TOOL}")
    for side in (-1.0, 1.0):
        at_m = (side * shape.tool.opening_m.value / 2, 0.0, length_m - FINGER_M[2] / 2 + 0.02)
        finger = Shape(kind="box", size_m=FINGER_M, at_m=at_m, colour=(0.1, 0.1, 0.12))
        add_shape(body, finger, mass=0.05, contype=0, conaffinity=0, name=f"{name}/{FINGER}{side:+.0f}", group=1)
    body.add_site(name=f"{name}/{TOOL}", pos=(0.0, 0.0, length_m))


def _exclude_own(spec: Any, name: str, shape: ChainBody) -> None:
    """Links that share a joint, or are one apart, touch by construction."""
    names = [name, *(f"{name}/{joint.name}" for joint in shape.joints)]
    for number, first in enumerate(names):
        for second in names[number + 1 : number + 4]:
            spec.add_exclude(bodyname1=first, bodyname2=second)
