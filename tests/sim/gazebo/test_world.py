# SPDX-License-Identifier: Apache-2.0
"""Worlds for Gazebo: everything of the YAML is there, every topic is bridged, and libsdformat has nothing to say."""

import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

pytest.importorskip("mujoco")

from llm_planner.core.errors import PlannerError
from llm_planner.sim.gazebo.files import fleet, write_world
from llm_planner.sim.gazebo.sdf import sdf_text
from llm_planner.sim.gazebo.world import bridge_text, world_text
from llm_planner.sim.physics.world_file import load_world_file
from tests.sim.gazebo.programs import compiled, environment

WORLDS = ("house", "table", "")


@pytest.fixture(params=WORLDS)
def paths(request: pytest.FixtureRequest, tmp_path: Path):
    return write_world(tmp_path, request.param, drones=2, arms=1), request.param


def test_a_world_holds_its_things_and_its_fleet(paths):
    (sdf, _), name = paths
    world = ET.parse(sdf).getroot().find("world")
    names = [element.get("name") for tag in ("model", "actor") for element in world.findall(tag)]
    assert len(names) == len(set(names))
    things = [] if not name else [thing.known.name for thing in load_world_file(name).things]
    assert set(names) == {*things, "floor", "drone_1", "drone_2", "arm_1", "arm_1_bench"}
    loose = [] if not name else [thing.known.name for thing in load_world_file(name).things if thing.is_loose]
    detachable = [p for p in world.iter("plugin") if p.get("name").endswith("DetachableJoint")]
    in_reach = loose if name == "table" else []  # the house's backpack lies in another room
    assert [plugin.find("child_model").text for plugin in detachable] == in_reach
    tracked = [model.get("name") for model in world.findall("model") if model.find("plugin/odom_topic") is not None]
    assert tracked == [*loose, "drone_1", "drone_2"]


def test_every_topic_of_a_robot_is_bridged(paths):
    (sdf, bridge), _ = paths
    bridged = {entry["gz_topic_name"] for entry in yaml.safe_load(bridge.read_text())}
    tags = ("topic", "odom_topic", "attach_topic", "detach_topic", "output_topic")
    named = {element.text for tag in tags for element in ET.parse(sdf).getroot().iter(tag)}
    assert named | {"/clock"} == bridged


def test_commands_to_a_system_go_to_gazebo_and_its_states_come_back(paths):
    (_, bridge), name = paths
    entries = yaml.safe_load(bridge.read_text())
    ways = {
        "cmd_vel": ("ROS_TO_GZ", "geometry_msgs/msg/Twist", "gz.msgs.Twist"),
        "odometry": ("GZ_TO_ROS", "nav_msgs/msg/Odometry", "gz.msgs.Odometry"),
        "joint_trajectory": ("ROS_TO_GZ", "trajectory_msgs/msg/JointTrajectory", "gz.msgs.JointTrajectory"),
        "joint_states": ("GZ_TO_ROS", "sensor_msgs/msg/JointState", "gz.msgs.Model"),
        "attach": ("ROS_TO_GZ", "std_msgs/msg/Empty", "gz.msgs.Empty"),
        "detach": ("ROS_TO_GZ", "std_msgs/msg/Empty", "gz.msgs.Empty"),
        "grip": ("GZ_TO_ROS", "std_msgs/msg/String", "gz.msgs.StringMsg"),
        "clock": ("GZ_TO_ROS", "rosgraph_msgs/msg/Clock", "gz.msgs.Clock"),
    }
    seen = set()
    for entry in entries:
        (word,) = {word for word in entry["ros_topic_name"].split("/") if word in ways}
        assert (entry["direction"], entry["ros_type_name"], entry["gz_type_name"]) == ways[word]
        seen.add(word)
    assert seen == set(ways) - (set() if name == "table" else {"attach", "detach", "grip"})


def test_arms_that_are_far_away_do_not_begin_attached_to_what_others_reach():
    root = ET.fromstring(world_text(fleet(0, 3), load_world_file("table")))
    held = {
        model.get("name"): [child.text for child in model.iter("child_model")]
        for model in root.find("world").findall("model")
        if model.get("name") in ("arm_1", "arm_2", "arm_3")
    }
    assert "red_box" in held["arm_1"]
    assert held["arm_2"] == held["arm_3"] == []


def test_a_walker_goes_its_way_at_its_speed():
    world_file = load_world_file("table")
    root = ET.fromstring(world_text(fleet(0, 0), world_file))
    (actor,) = root.iter("actor")
    times = [float(time.text) for time in actor.iter("time")]
    walker = world_file.walkers[0]
    assert times == pytest.approx([0.0, 8.0 / walker.speed_m_per_s, 16.0 / walker.speed_m_per_s])
    assert actor.find("script/loop").text == "true"


def test_more_robots_than_places_and_unknown_worlds_are_refused(tmp_path: Path):
    with pytest.raises(PlannerError, match="has places for"):
        write_world(tmp_path, "table", drones=3, arms=0)
    with pytest.raises(PlannerError, match="no world"):
        write_world(tmp_path, "moon", drones=1, arms=0)
    assert not list(tmp_path.iterdir())
    assert bridge_text({}, None).count("topic_name") == 2


@pytest.fixture(scope="session")
def sdf_loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that reads SDF with libsdformat."""
    return compiled("load_sdf.cpp", tmp_path_factory.mktemp("sdf"))


def is_good(loader: Path, *paths: Path) -> str:
    """Returns what libsdformat says of files; nothing if they are good."""
    command = [str(loader), *map(str, paths)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment(), timeout=60)
    return done.stdout + done.stderr if done.returncode else ""


def test_libsdformat_reads_worlds_without_a_warning(sdf_loader: Path, paths):
    (sdf, _), _ = paths
    assert is_good(sdf_loader, sdf) == ""


def test_libsdformat_reads_robots_and_would_have_complained(sdf_loader: Path, tmp_path: Path):
    for name, model in fleet(1, 1).items():
        path = tmp_path / f"{name}.sdf"
        path.write_text(sdf_text(model, name))
        assert is_good(sdf_loader, path) == ""
        path.write_text(sdf_text(model, name).replace("<inertia>", "<inertia><nonsense/>"))
        assert "nonsense" in is_good(sdf_loader, path)
