# SPDX-License-Identifier: Apache-2.0
"""URDF and SDF describe the bodies that MuJoCo has: the same masses, the same joints, the same reach."""

import math
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

pytest.importorskip("mujoco")

import mujoco

from llm_planner.core.errors import PlannerError
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.shape import Shape
from llm_planner.sim.gazebo.elements import numbers
from llm_planner.sim.gazebo.gains import inertias
from llm_planner.sim.gazebo.inertia import inertia_of, link_inertia, rotation
from llm_planner.sim.gazebo.sdf import sdf_text
from llm_planner.sim.gazebo.urdf import urdf_text
from llm_planner.sim.physics.inverse import ChainKinematics

TELLO, INDY7 = RobotLibrary().get("tello"), RobotLibrary().get("indy7")
KEEP_ALL = '<mujoco><compiler fusestatic="false" discardvisual="false"/></mujoco>'


def loaded(model):
    """Returns a robot's URDF as MuJoCo reads it; nothing is merged into the world."""
    text = urdf_text(model).replace("</robot>", f"{KEEP_ALL}</robot>")
    return mujoco.MjModel.from_xml_string(text)


def test_a_drone_weighs_what_its_data_sheet_says():
    model = loaded(TELLO)
    assert model.body_mass.sum() == pytest.approx(TELLO.body.link.mass_kg.value)
    assert model.ngeom == 2 * len(TELLO.body.link.shapes)


def test_inertia_is_what_mujoco_makes_of_the_shapes():
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name="link")
    from llm_planner.sim.physics.solids import add_link

    add_link(body, TELLO.body.link)
    model = spec.compile()
    ours = link_inertia(TELLO.body.link)
    number = model.body("link").id
    assert np.allclose(model.body_ipos[number], ours.at_m, atol=1e-9)
    assert np.allclose(sorted(model.body_inertia[number]), sorted(np.linalg.eigvalsh(ours.tensor)), rtol=1e-6)


def test_a_turned_cylinder_has_turned_moments():
    upright = inertia_of((Shape(kind="cylinder", size_m=(0.1, 1.0)),), 2.0)
    lying = inertia_of((Shape(kind="cylinder", size_m=(0.1, 1.0), rpy_deg=(90.0, 0.0, 0.0)),), 2.0)
    assert lying.tensor[1, 1] == pytest.approx(upright.tensor[2, 2])
    assert np.allclose(rotation((0.0, 0.0, 90.0)) @ [1, 0, 0], [0, 1, 0], atol=1e-12)
    ball = inertia_of((Shape(kind="sphere", size_m=(0.2,)),), 5.0)
    assert np.allclose(ball.tensor, np.eye(3) * 0.4 * 5.0 * 0.04)


def test_an_arm_has_its_joints_limits_and_reach():
    model = loaded(INDY7)
    body = INDY7.body
    assert [model.joint(n).name for n in range(model.njnt)] == [joint.name for joint in body.joints]
    limits = [math.radians(joint.limit_deg.value) for joint in body.joints]
    assert np.allclose(model.jnt_range, [(-limit, limit) for limit in limits], atol=1e-6)
    data, chain = mujoco.MjData(model), ChainKinematics(body)
    rng = np.random.default_rng(1)
    for _ in range(10):
        joints = rng.uniform(-2.0, 2.0, len(limits))
        data.qpos[:] = joints
        mujoco.mj_forward(model, data)
        assert np.allclose(data.xpos[model.body("tool").id], chain.position_m(joints), atol=1e-6)


def test_gains_are_those_of_what_each_joint_moves():
    model = loaded(INDY7)
    data, chain = mujoco.MjData(model), ChainKinematics(INDY7.body)
    data.qpos[:] = chain.home
    mujoco.mj_forward(model, data)
    moved = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, moved)
    assert np.allclose(inertias(INDY7.body), np.diag(moved), rtol=1e-6)
    controller = ET.fromstring(sdf_text(INDY7)).find("model/plugin[joint_name]")
    stiff, damped = ([float(e.text) for e in controller.findall(f"{kind}_p_gain")] for kind in ("position", "velocity"))
    step_s = 0.002
    for inertia, position, velocity in zip(inertias(INDY7.body), stiff, damped, strict=True):
        assert velocity == pytest.approx(2.0 * math.sqrt(position * inertia))  # no overshoot
        assert velocity * step_s / inertia < 0.2  # of its speed in one step: far from unstable


@pytest.mark.parametrize("model", [TELLO, INDY7], ids=lambda model: model.name)
def test_sdf_says_the_same_and_names_stock_systems_only(model):
    root = ET.fromstring(sdf_text(model, "robby"))
    (robot,) = root.findall("model")
    assert robot.get("name") == "robby"
    names = {plugin.get("name") for plugin in robot.iter("plugin")}
    stock = {"VelocityControl", "OdometryPublisher", "JointTrajectoryController", "JointStatePublisher"}
    assert {name.removeprefix("gz::sim::systems::") for name in names} <= stock
    masses = [float(mass.text) for mass in robot.iter("mass")]
    urdf = ET.fromstring(urdf_text(model))
    assert sum(masses) == pytest.approx(sum(float(mass.get("value")) for mass in urdf.iter("mass")))
    revolute = [joint.get("name") for joint in robot.findall("joint") if joint.get("type") == "revolute"]
    assert revolute == ([joint.name for joint in model.body.joints] if model is INDY7 else [])
    assert all("robby" in element.text for element in robot.iter("topic"))


def test_numbers_are_plain():
    assert numbers([1.0, -0.0, 1e-12, 0.1, -2.5]) == "1 0 0 0.1 -2.5"


def test_what_has_no_body_is_not_described():
    bare = replace(TELLO, body=None)
    for text in (urdf_text, sdf_text):
        with pytest.raises(PlannerError, match="has no body"):
            text(bare)
