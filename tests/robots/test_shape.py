# SPDX-License-Identifier: Apache-2.0
"""Bodies of robot models: what contradicts itself, or the model's limits, is refused with its reason."""

import math

import pytest
import yaml

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir
from llm_planner.robots.library import RobotLibrary, load_robot_model
from llm_planner.robots.shape import ChainBody, QuadrotorBody, Shape


def changed(tmp_path, name, path, value):
    document = yaml.safe_load((share_dir() / "robot_models" / f"{name}.yaml").read_text())
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    file = tmp_path / f"{name}.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def test_bundled_robots_have_bodies():
    library = RobotLibrary()
    assert isinstance(library.get("tello").body, QuadrotorBody)
    arm = library.get("indy7").body
    assert isinstance(arm, ChainBody)
    assert len(arm.joints) == 6


@pytest.mark.parametrize(
    ("name", "path", "value", "reason"),
    [
        ("tello", ("body", "link", "mass_kg", "value"), 0.2, "do not lift"),
        ("tello", ("body", "flight", "acceleration_m_per_s2", "value"), 9.0, "less than the acceleration"),
        ("tello", ("body", "flight", "speed_m_per_s", "value"), 2.0, "over 1"),
        ("tello", ("body", "rotors", "radius_m", "value"), 0.06, "would hit each other"),
        ("tello", ("geofence", "z_m"), [0.02, 3.0], "touches the floor"),
        ("tello", ("reflex", "distance_m"), 0.05, "it is hit before reflex.distance_m"),
        ("tello", ("body", "kind"), "chain", "body"),
        ("tello", ("body", "link", "shapes", 0, "size_m"), [0.1, 0.1], "a box has 3 sizes"),
        ("tello", ("body", "link", "shapes", 0, "size_m"), [0.1, -0.1, 0.1], "sizes must be > 0"),
        ("tello", ("body", "link", "mass_kg", "value"), float("nan"), "body"),
        ("indy7", ("workspace", "reach_m"), [0.15, 3.0], "workspace.reach_m says 3"),
        ("indy7", ("body", "joints", 2, "home_deg"), -190.0, "home_deg is beyond limit_deg"),
        ("indy7", ("body", "joints", 2, "name"), "joint0", "different names"),
        ("indy7", ("body", "speed_share", "value"), 1.0, "turns at 150 deg/s"),
    ],
)
def test_contradictions_are_refused(tmp_path, name, path, value, reason):
    with pytest.raises(PlannerError, match="body") as caught:
        load_robot_model(changed(tmp_path, name, path, value))
    assert caught.value.code is ErrorCode.INVALID_ROBOT_MODEL
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("shape", "volume", "radius"),
    [
        (Shape(kind="box", size_m=(1.0, 2.0, 3.0)), 6.0, math.hypot(1, 2, 3) / 2),
        (Shape(kind="cylinder", size_m=(1.0, 2.0)), 2 * math.pi, math.hypot(1, 1)),
        (Shape(kind="sphere", size_m=(1.0,)), 4 / 3 * math.pi, 1.0),
    ],
)
def test_volume_and_radius(shape, volume, radius):
    assert shape.volume_m3 == pytest.approx(volume)
    assert shape.radius_m == pytest.approx(radius)
