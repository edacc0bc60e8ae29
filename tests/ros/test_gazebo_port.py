# SPDX-License-Identifier: Apache-2.0
"""The node's side of a drone in Gazebo: topics by its name, and clear words where it cannot be."""

import math
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest

pytest.importorskip("mujoco")

from rclpy.clock_type import ClockType

from llm_planner.core.clock import ManualClock
from llm_planner.core.errors import PlannerError
from llm_planner.robots.library import RobotLibrary
from llm_planner.ros.gazebo_port import open_gazebo_port

pytestmark = pytest.mark.ros
TELLO = RobotLibrary().get("tello")


def unguarded(callback):
    return callback


class FakeNode:
    """As much of a node as the port uses."""

    def __init__(self, name: str) -> None:
        self.name, self.sent, self.topics, self.receive, self.tick = name, [], [], None, None

    def get_name(self) -> str:
        return self.name

    def create_publisher(self, _type, topic, _qos):
        self.topics.append(topic)
        return SimpleNamespace(publish=self.sent.append)

    def create_subscription(self, _type, topic, callback, _qos):
        self.topics.append(topic)
        self.receive = callback

    def create_timer(self, period_s, callback, *, clock):
        assert clock.clock_type is ClockType.STEADY_TIME
        assert period_s == pytest.approx(0.02)
        self.tick = callback


def odometry(x: float, y: float, z: float, yaw: float):
    orientation = SimpleNamespace(x=0.0, y=0.0, z=math.sin(yaw / 2), w=math.cos(yaw / 2))
    pose = SimpleNamespace(position=SimpleNamespace(x=x, y=y, z=z), orientation=orientation)
    return SimpleNamespace(pose=SimpleNamespace(pose=pose))


@pytest.fixture
def _nav_msgs(monkeypatch: pytest.MonkeyPatch):
    """A stand-in: only its name is needed."""
    messages = ModuleType("nav_msgs.msg")
    messages.Odometry = object
    monkeypatch.setitem(sys.modules, "nav_msgs", ModuleType("nav_msgs"))
    monkeypatch.setitem(sys.modules, "nav_msgs.msg", messages)


@pytest.mark.usefixtures("_nav_msgs")
def test_a_drone_receives_its_own_odometry_and_its_velocity_commands():
    node, clock = FakeNode("drone_2"), ManualClock()
    port = open_gazebo_port(node, unguarded, TELLO, "table", clock)
    assert node.topics == ["/model/drone_2/cmd_vel", "/model/drone_2/odometry"]
    node.receive(odometry(-2.0, -2.0, 0.05, 0.0))  # where the world has its second drone
    assert port.read(0.0).pose.x_m == pytest.approx(0.0)
    port.take_off(1.0)
    clock.advance(0.5)
    node.receive(odometry(-2.0, -2.0, 0.1, 0.0))
    node.tick()
    assert node.sent[-1].linear.z > 0.1
    assert {thing.name for thing in port.look()} >= {"red_box", "lemon"}


@pytest.mark.usefixtures("_nav_msgs")
def test_who_cannot_be_flown_is_told_so():
    with pytest.raises(PlannerError, match="has none"):
        open_gazebo_port(FakeNode("drone_1"), unguarded, replace(TELLO, body=None), "", ManualClock())
    with pytest.raises(PlannerError, match="has places for"):
        open_gazebo_port(FakeNode("drone_9"), unguarded, TELLO, "table", ManualClock())
    with pytest.raises(PlannerError, match="no world"):
        open_gazebo_port(FakeNode("drone_1"), unguarded, TELLO, "moon", ManualClock())


def test_without_nav_msgs_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    for name in ("nav_msgs", "nav_msgs.msg"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(PlannerError, match="apt install"):
        open_gazebo_port(FakeNode("drone_1"), unguarded, TELLO, "", ManualClock())
