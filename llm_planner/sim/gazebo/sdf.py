# SPDX-License-Identifier: Apache-2.0
"""A robot model as SDF 1.9, with the stock systems of Gazebo Harmonic that move it and tell where it is."""

import math
from collections.abc import Iterable

from llm_planner.robots.model import RobotModel
from llm_planner.robots.shape import ChainBody, Point, QuadrotorBody, Shape
from llm_planner.sim.gazebo.elements import (
    STEM_KG,
    TIP_KG,
    Element,
    child,
    children,
    gripper_shapes,
    moments,
    numbers,
    radians,
    text_of,
)
from llm_planner.sim.gazebo.gains import gains
from llm_planner.sim.gazebo.inertia import Inertia, inertia_of, link_inertia
from llm_planner.sim.gazebo.urdf import BASE, GRIPPER, TOOL, require_body
from llm_planner.sim.physics.frame import Home

SDF_VERSION = "1.9"
ODOMETRY_HZ, JOINT_STATES_HZ, PLACES_HZ = 50.0, 50.0, 10.0


def sdf_text(model: RobotModel, name: str = "") -> str:
    """Returns a robot as an SDF document with one model, at the origin.

    Args:
        model: Of the robot.
        name: Of the robot; its model's by default.

    Raises:
        PlannerError: INVALID_ROBOT_MODEL if it has no body.
    """
    root = Element("sdf", version=SDF_VERSION)
    add_robot(root, name or model.name, model, Home())
    return text_of(root)


def add_robot(parent: Element, name: str, model: RobotModel, home: Home, things: Iterable[str] = ()) -> None:
    """Appends a robot at its home.

    Args:
        parent: The document, or a world.
        name: Of the robot, and of its topics: ``/model/NAME/...``.
        model: Of the robot.
        home: Where it stands.
        things: What an arm's gripper may take.
    """
    body = require_body(model)
    element = child(parent, "model", name=name)
    height_m = body.link.radius_m / 2.0 if isinstance(body, QuadrotorBody) else 0.0
    pose = (home.x_m, home.y_m, home.z_m + height_m, 0.0, 0.0, math.radians(home.yaw_deg))
    child(element, "pose", numbers(pose))
    if isinstance(body, QuadrotorBody):
        _add_quadrotor(element, name, body)
    else:
        _add_chain(element, name, body, things)


def add_link(model: Element, name: str, shapes: tuple[Shape, ...], inertia: Inertia, *, has_gravity: bool) -> Element:
    """Appends a link; returns it."""
    link = child(model, "link", name=name)
    child(link, "gravity", str(has_gravity).lower())
    inertial = child(link, "inertial")
    child(inertial, "pose", numbers((*inertia.at_m, 0.0, 0.0, 0.0)))
    child(inertial, "mass", inertia.mass_kg)
    children(child(inertial, "inertia"), moments(inertia))
    add_shapes(link, shapes)
    return link


def add_shapes(link: Element, shapes: tuple[Shape, ...], *, is_solid: bool = True) -> None:
    """Appends what is seen of a link, and what touches."""
    for number, shape in enumerate(shapes):
        for tag in ("visual", "collision") if is_solid else ("visual",):
            part = child(link, tag, name=f"{tag}_{number}")
            child(part, "pose", numbers((*shape.at_m, *radians(shape.rpy_deg))))
            _add_geometry(child(part, "geometry"), shape)
            if tag == "visual":
                material = child(part, "material")
                colour = numbers([*shape.colour, 1.0])
                children(material, {"ambient": colour, "diffuse": colour})


def _add_geometry(geometry: Element, shape: Shape) -> None:
    element = child(geometry, shape.kind)
    if shape.kind == "box":
        child(element, "size", numbers(shape.size_m))
        return
    child(element, "radius", shape.size_m[0])
    if shape.kind == "cylinder":
        child(element, "length", shape.size_m[1])


def _add_quadrotor(model: Element, name: str, body: QuadrotorBody) -> None:
    """Appends a drone that flies at the velocity that it is told: its rotors are in MuJoCo alone."""
    add_link(model, BASE, body.link.shapes, link_inertia(body.link), has_gravity=False)
    _add_system(model, "velocity-control", "VelocityControl", topic=f"/model/{name}/cmd_vel")
    add_odometry(model, name, BASE, ODOMETRY_HZ)


def add_odometry(model: Element, name: str, link: str, frequency_hz: float) -> None:
    """Appends what tells where a model is: in the world's frame, whatever its messages call that."""
    _add_system(
        model,
        "odometry-publisher",
        "OdometryPublisher",
        odom_frame=f"{name}/odom",
        robot_base_frame=f"{name}/{link}",
        odom_topic=f"/model/{name}/odometry",
        odom_publish_frequency=numbers([frequency_hz]),
        dimensions="3",
    )


def _add_chain(model: Element, name: str, body: ChainBody, things: Iterable[str]) -> None:
    """Appends an arm whose joints follow a trajectory; its links hold themselves up, as a good controller does."""
    add_link(model, BASE, body.base.shapes, link_inertia(body.base), has_gravity=False)
    foot = child(model, "joint", name="foot", type="fixed")
    children(foot, {"parent": "world", "child": BASE})
    parent = BASE
    for joint in body.joints:
        link = f"{joint.name}_link"
        element = child(model, "joint", name=joint.name, type="revolute")
        pose = child(element, "pose", numbers((*joint.at_m, *radians(joint.rpy_deg))))
        pose.set("relative_to", parent)
        children(element, {"parent": parent, "child": link})
        axis = child(element, "axis")
        child(axis, "xyz", "0 0 1")
        limit = math.radians(joint.limit_deg.value)
        speed = math.radians(joint.speed_deg_per_s.value)
        limits = {"lower": -limit, "upper": limit, "effort": joint.torque_nm.value, "velocity": speed}
        children(child(axis, "limit"), limits)
        part = add_link(model, link, joint.link.shapes, link_inertia(joint.link), has_gravity=False)
        _place(part, joint.name)
        parent = link
    shapes = gripper_shapes(body)
    gripper = add_link(model, GRIPPER, shapes, inertia_of(shapes, STEM_KG + TIP_KG), has_gravity=False)
    _place(gripper, parent)
    children(child(model, "joint", name=f"{GRIPPER}_joint", type="fixed"), {"parent": parent, "child": GRIPPER})
    frame = child(model, "frame", name=TOOL, attached_to=GRIPPER)
    child(frame, "pose", numbers((0.0, 0.0, body.tool.length_m.value, 0.0, 0.0, 0.0)))
    _add_arm_systems(model, name, body, things)


def _place(link: Element, frame: str, at_m: Point = (0.0, 0.0, 0.0)) -> None:
    """Puts a link at a frame; the pose is the first thing that a link says."""
    pose = Element("pose", relative_to=frame)
    pose.text = numbers((*at_m, 0.0, 0.0, 0.0))
    link.insert(0, pose)


def _add_arm_systems(model: Element, name: str, body: ChainBody, things: Iterable[str]) -> None:
    """Appends what moves an arm. It begins with all joints at 0 and stays there: loose things begin attached to it."""
    topic = f"/model/{name}"
    controller = _add_system(
        model, "joint-trajectory-controller", "JointTrajectoryController", topic=f"{topic}/joint_trajectory"
    )
    for joint, gain in zip(body.joints, gains(body), strict=True):
        child(controller, "joint_name", joint.name)
        for kind, value in (("position", gain.position), ("velocity", gain.velocity)):
            child(controller, f"{kind}_p_gain", value)
            limits = {f"{kind}_cmd_min": -joint.torque_nm.value, f"{kind}_cmd_max": joint.torque_nm.value}
            children(controller, limits)
    _add_system(
        model,
        "joint-state-publisher",
        "JointStatePublisher",
        topic=f"{topic}/joint_states",
        update_rate=numbers([JOINT_STATES_HZ]),
    )
    for thing in things:
        _add_system(
            model,
            "detachable-joint",
            "DetachableJoint",
            parent_link=GRIPPER,
            child_model=thing,
            child_link="link",
            attach_topic=f"{topic}/attach/{thing}",
            detach_topic=f"{topic}/detach/{thing}",
            output_topic=f"{topic}/grip/{thing}",
        )


def _add_system(model: Element, file: str, name: str, **parameters: str) -> Element:
    plugin = child(model, "plugin", filename=f"gz-sim-{file}-system", name=f"gz::sim::systems::{name}")
    children(plugin, parameters)
    return plugin
