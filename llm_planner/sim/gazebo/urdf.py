# SPDX-License-Identifier: Apache-2.0
"""A robot model as URDF: for RViz, ``robot_state_publisher``, MoveIt, and any simulator that reads it."""

import math

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.model import RobotModel
from llm_planner.robots.shape import ChainBody, Point, QuadrotorBody, Shape
from llm_planner.sim.gazebo.elements import (
    STEM_KG,
    TIP_KG,
    Element,
    child,
    gripper_shapes,
    moments,
    numbers,
    radians,
    text_of,
)
from llm_planner.sim.gazebo.inertia import Inertia, inertia_of, link_inertia

BASE, TOOL, GRIPPER = "base_link", "tool", "gripper"


def urdf_text(model: RobotModel, name: str = "") -> str:
    """Returns a robot's body as a URDF document.

    Args:
        model: Of the robot.
        name: Of the robot; its model's by default.

    Raises:
        PlannerError: INVALID_ROBOT_MODEL if it has no body.
    """
    body = require_body(model)
    robot = Element("robot", name=name or model.name)
    if isinstance(body, QuadrotorBody):
        _add_link(robot, BASE, body.link.shapes, link_inertia(body.link))
    else:
        _add_chain(robot, body)
    return text_of(robot)


def require_body(model: RobotModel) -> QuadrotorBody | ChainBody:
    """Returns the body of a robot.

    Raises:
        PlannerError: INVALID_ROBOT_MODEL if it has none.
    """
    if model.body is None:
        raise PlannerError(
            ErrorCode.INVALID_ROBOT_MODEL,
            f"robot model {model.name} has no body, so there is nothing to describe; add one (docs/robot_models.md)",
        )
    return model.body


def _add_chain(robot: Element, body: ChainBody) -> None:
    _add_link(robot, BASE, body.base.shapes, link_inertia(body.base))
    parent = BASE
    for joint in body.joints:
        link = f"{joint.name}_link"
        _add_link(robot, link, joint.link.shapes, link_inertia(joint.link))
        element = child(robot, "joint", name=joint.name, type="revolute")
        _connect(element, parent, link, joint.at_m, joint.rpy_deg)
        child(element, "axis", xyz="0 0 1")
        limit = math.radians(joint.limit_deg.value)
        child(
            element,
            "limit",
            lower=numbers([-limit]),
            upper=numbers([limit]),
            effort=numbers([joint.torque_nm.value]),
            velocity=numbers([math.radians(joint.speed_deg_per_s.value)]),
        )
        parent = link
    shapes = gripper_shapes(body)
    _add_link(robot, GRIPPER, shapes, inertia_of(shapes, STEM_KG + TIP_KG))
    _connect(child(robot, "joint", name=f"{GRIPPER}_joint", type="fixed"), parent, GRIPPER)
    child(robot, "link", name=TOOL)
    at_m = (0.0, 0.0, body.tool.length_m.value)
    _connect(child(robot, "joint", name=f"{TOOL}_joint", type="fixed"), parent, TOOL, at_m)


def _connect(
    joint: Element, parent: str, link: str, at_m: Point = (0.0, 0.0, 0.0), rpy_deg: Point = (0.0, 0.0, 0.0)
) -> None:
    child(joint, "parent", link=parent)
    child(joint, "child", link=link)
    child(joint, "origin", xyz=numbers(at_m), rpy=numbers(radians(rpy_deg)))


def _add_link(robot: Element, name: str, shapes: tuple[Shape, ...], inertia: Inertia) -> None:
    link = child(robot, "link", name=name)
    inertial = child(link, "inertial")
    child(inertial, "origin", xyz=numbers(inertia.at_m), rpy="0 0 0")
    child(inertial, "mass", value=numbers([inertia.mass_kg]))
    child(inertial, "inertia", **moments(inertia))
    for number, shape in enumerate(shapes):
        for tag in ("visual", "collision"):
            part = child(link, tag, name=f"{name}_{tag}_{number}")
            child(part, "origin", xyz=numbers(shape.at_m), rpy=numbers(radians(shape.rpy_deg)))
            _add_geometry(child(part, "geometry"), shape)
            if tag == "visual":
                material = child(part, "material", name=f"{name}_{number}")
                child(material, "color", rgba=numbers([*shape.colour, 1.0]))


def _add_geometry(geometry: Element, shape: Shape) -> None:
    if shape.kind == "box":
        child(geometry, "box", size=numbers(shape.size_m))
    elif shape.kind == "cylinder":
        child(geometry, "cylinder", radius=numbers(shape.size_m[:1]), length=numbers(shape.size_m[1:]))
    else:
        child(geometry, "sphere", radius=numbers(shape.size_m))
