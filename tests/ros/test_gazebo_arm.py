# SPDX-License-Identifier: Apache-2.0
"""An arm's robot node in front of a node that speaks as Gazebo's bridge does: real messages, over DDS."""

import sys

import numpy as np
import pytest
import rclpy
import yaml

pytest.importorskip("mujoco")
pytest.importorskip("nav_msgs")
pytest.importorskip("sensor_msgs")
pytest.importorskip("trajectory_msgs")

from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState
from std_msgs.msg import Empty, String
from trajectory_msgs.msg import JointTrajectory

from llm_planner.core.clock import ManualClock, MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.ros.gazebo_port import open_gazebo_port
from llm_planner.sim.gazebo.arm_motion import JointPoint
from llm_planner.sim.gazebo.world import bridge_text, homes
from llm_planner.sim.physics.world_file import load_world_file
from tests.ros.nodes import Spinner, wait_until
from tests.ros.test_robot_node import start_operator  # noqa: F401 (a fixture)
from tests.sim.gazebo.bodies import INDY7, STEP_S, GazeboArm

pytestmark = pytest.mark.ros
TABLE = load_world_file("table")
SCALE = 1.0


class Bridge:
    """The topics of one arm and of loose things, with ``GazeboArm`` behind them."""

    def __init__(self, name: str) -> None:
        self.gazebo = GazeboArm(homes({name: INDY7}, TABLE)[name], TABLE.things)
        self.node = node = rclpy.create_node(f"{name}_bridge")
        base = f"/model/{name}"
        self.joint_states = node.create_publisher(JointState, f"{base}/joint_states", 10)
        self.places = {
            thing: node.create_publisher(Odometry, f"/model/{thing}/odometry", 10) for thing in self.gazebo.loose
        }
        self.grips = {thing: node.create_publisher(String, f"{base}/grip/{thing}", 10) for thing in self.gazebo.loose}
        node.create_subscription(JointTrajectory, f"{base}/joint_trajectory", self.take, 10)
        for thing in self.gazebo.loose:
            for word in ("attach", "detach"):
                node.create_subscription(Empty, f"{base}/{word}/{thing}", self.order(thing, word == "attach"), 10)
        self.clock, self.num_steps, self.is_silent = MonotonicClock(), 0, False
        self.gazebo.time_s = SCALE * self.clock.now_s()
        node.create_timer(STEP_S, self.step)
        self.spinner = Spinner(node)

    def take(self, message: JointTrajectory) -> None:
        assert message.joint_names == [joint.name for joint in INDY7.body.joints]
        points = [
            JointPoint(p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec, p.positions, p.velocities)
            for p in message.points
        ]
        self.gazebo.take_trajectory(points)

    def order(self, thing: str, attach: bool):
        def take(_: Empty) -> None:
            self.gazebo.take_order(thing, attach)
            self.tell()

        return take

    def tell(self) -> None:
        while self.gazebo.news:
            name, is_attached = self.gazebo.news.pop(0)
            self.grips[name].publish(String(data="attached" if is_attached else "detached"))

    def step(self) -> None:
        self.gazebo.step(SCALE * self.clock.now_s() - self.gazebo.time_s)  # a timer that is late loses no time
        if self.is_silent:
            return
        self.num_steps += 1
        message = JointState(name=["foot", *(joint.name for joint in INDY7.body.joints)])
        message.position = [0.0, *map(float, self.gazebo.joints)]
        message.header.stamp.sec = int(self.gazebo.time_s)
        message.header.stamp.nanosec = int(self.gazebo.time_s % 1.0 * 1e9)
        self.joint_states.publish(message)
        for name, publisher in self.places.items() if self.num_steps % 5 == 0 else ():
            odometry = Odometry()
            place, turn = odometry.pose.pose.position, odometry.pose.pose.orientation
            place.x, place.y, place.z = self.gazebo.position_m(name)
            turn.z, turn.w = float(np.sin(self.gazebo.yaw(name) / 2)), float(np.cos(self.gazebo.yaw(name) / 2))
            publisher.publish(odometry)

    def stop(self) -> None:
        self.spinner.stop()
        self.node.destroy_node()


@pytest.fixture
def bridge(ros):
    bridge = Bridge("arm_1")
    yield bridge
    bridge.stop()


def body(**more):
    return {"robot_model": "indy7", "driver": "gazebo", "address": "table", "time_scale": SCALE} | more


@pytest.mark.slow
def test_a_box_is_stacked_over_ros_and_silence_ends_a_plan(planner, bridge, start_operator):  # noqa: F811
    operator = start_operator("arm_1", **body())
    wait_until(lambda: not bridge.gazebo.attached, 20.0, "everything let go")
    assert bridge.gazebo.joints.tolist() == [0.0] * 6  # it was not told to move
    assert operator.instruct("pick(red_box);place(red_box,blue_box);").accepted
    wait_until(lambda: operator.outcomes, 60.0, "outcome")
    assert operator.outcome().error_code == ErrorCode.NONE, operator.outcome().error_msg
    red, blue = (np.array(bridge.gazebo.position_m(name)) for name in ("red_box", "blue_box"))
    assert red - blue == pytest.approx([0.0, 0.0, 0.05], abs=0.005)
    bridge.is_silent = True
    assert operator.instruct("move_to(bin);").accepted
    wait_until(lambda: len(operator.outcomes) > 1, 20.0, "outcome")
    assert operator.outcome(2).error_code == ErrorCode.SKILL_FAILED
    assert "nothing is received" in operator.outcome(2).error_msg


def test_the_node_has_the_topics_of_the_bridge(ros):
    node = rclpy.create_node("arm_1")
    try:
        open_gazebo_port(node, lambda callback: callback, INDY7, "table", ManualClock())
        entries = yaml.safe_load(bridge_text({"arm_1": INDY7}, TABLE))
        bridged = {(e["ros_topic_name"], e["direction"]): e["ros_type_name"] for e in entries}
        del bridged["/clock", "GZ_TO_ROS"]
        own = [("ROS_TO_GZ", node.get_publisher_names_and_types_by_node)]
        own += [("GZ_TO_ROS", node.get_subscriber_names_and_types_by_node)]
        found = {
            (topic, way): kinds[0]
            for way, names in own
            for topic, kinds in names("arm_1", "/")
            if topic.startswith("/model/")
        }
        assert found == bridged
    finally:
        node.destroy_node()


def test_without_its_messages_the_node_says_what_to_do(ros, monkeypatch: pytest.MonkeyPatch):
    node = rclpy.create_node("arm_1")
    monkeypatch.setitem(sys.modules, "trajectory_msgs", None)
    monkeypatch.setitem(sys.modules, "trajectory_msgs.msg", None)
    try:
        with pytest.raises(PlannerError, match=r"ROS_DISTRO-trajectory-msgs"):
            open_gazebo_port(node, lambda callback: callback, INDY7, "table", ManualClock())
    finally:
        node.destroy_node()
