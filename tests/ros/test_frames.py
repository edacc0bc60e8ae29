# SPDX-License-Identifier: Apache-2.0
"""Kinematic robots say where they are as other robots do: odometry, and the frames of REP-105."""

import math
from types import SimpleNamespace

import pytest
from builtin_interfaces.msg import Time

nav_msgs = pytest.importorskip("nav_msgs.msg", reason="nav_msgs is not installed")
tf2_msgs = pytest.importorskip("tf2_msgs.msg", reason="tf2_msgs is not installed")

from llm_planner.core.clock import ManualClock  # noqa: E402 -- after the check
from llm_planner.core.errors import ErrorCode  # noqa: E402
from llm_planner.core.pose import Pose  # noqa: E402
from llm_planner.robots.library import RobotLibrary  # noqa: E402
from llm_planner.ros.frames import FramesPublisher  # noqa: E402
from tests.ros.nodes import wait_until  # noqa: E402
from tests.ros.test_robot_node import start_operator  # noqa: E402, F401 -- a fixture

pytestmark = pytest.mark.ros


def listen(operator, kind, topic):
    received = []
    operator.node.create_subscription(kind, topic, received.append, 10)
    return received


def place(transform):
    v, r = transform.transform.translation, transform.transform.rotation
    return pytest.approx((v.x, v.y, v.z, math.degrees(2 * math.atan2(r.z, r.w))), abs=1e-6)


def latest(messages, prefix):
    """Returns the last transforms of a robot by parent and child."""
    found = {}
    for message in list(messages):
        own = [t for t in message.transforms if t.child_frame_id.startswith(prefix)]
        found.update({(t.header.frame_id, t.child_frame_id): t for t in own})
    return found


def test_a_drone_publishes_odometry_and_its_frames(planner, start_operator):  # noqa: F811
    operator = start_operator("framed_1", home="2.0,1.0,90.0")
    transforms, odometry = (
        listen(operator, tf2_msgs.TFMessage, "/tf"),
        listen(operator, nav_msgs.Odometry, "/framed_1/odom"),
    )
    assert operator.instruct("mf(100);tu(90);").accepted
    assert operator.outcome().error_code == ErrorCode.NONE
    del transforms[:], odometry[:]
    wait_until(lambda: len(odometry) > 1 and latest(transforms, "framed_1/"), what="odometry and /tf")
    found = latest(transforms, "framed_1/")
    assert found.keys() == {("map", "framed_1/odom"), ("framed_1/odom", "framed_1/base_link")}
    assert place(found["map", "framed_1/odom"]) == (2.0, 1.0, 0.0, 90.0)
    assert place(found["framed_1/odom", "framed_1/base_link"]) == (1.0, 0.0, 1.0, 90.0)
    last = odometry[-1]
    assert (last.header.frame_id, last.child_frame_id) == ("framed_1/odom", "framed_1/base_link")
    assert (last.pose.pose.position.x, last.pose.pose.position.z) == pytest.approx((1.0, 1.0))
    assert last.header.stamp.sec > 0


def test_odometry_says_how_fast_a_drone_flies_ahead(planner, start_operator):  # noqa: F811
    operator = start_operator("framed_2", time_scale=1.0)
    odometry = listen(operator, nav_msgs.Odometry, "/framed_2/odom")
    assert operator.instruct("mb(200);").accepted
    assert operator.outcome().error_code == ErrorCode.NONE
    fastest = min(message.twist.twist.linear.x for message in list(odometry))
    assert -1.5 < fastest < -0.3
    assert all(abs(message.twist.twist.linear.y) < 1e-6 for message in list(odometry))


def test_an_arm_publishes_where_its_tool_is_and_no_map_that_it_does_not_know(planner, start_operator):  # noqa: F811
    operator = start_operator("framed_3", robot_model="indy7")
    transforms = listen(operator, tf2_msgs.TFMessage, "/tf")
    wait_until(lambda: latest(transforms, "framed_3/"), what="/tf")
    assert latest(transforms, "framed_3/").keys() == {("framed_3/base_link", "framed_3/tool0")}
    assert not operator.node.get_publishers_info_by_topic("/framed_3/odom")


@pytest.mark.parametrize(("x_m", "speed_m_per_s"), [(0.5, 1.0), (math.inf, 0.0)])
def test_the_speed_does_not_follow_a_clock_that_is_set(x_m, speed_m_per_s):
    sent, seconds = [], [1000, 5, 4]
    node = SimpleNamespace(
        get_clock=lambda: SimpleNamespace(now=lambda: SimpleNamespace(to_msg=lambda: Time(sec=seconds.pop(0)))),
        create_publisher=lambda kind, *_: SimpleNamespace(
            msg_type=kind, publish=sent.append, get_subscription_count=lambda: int(kind is nav_msgs.Odometry)
        ),
    )
    clock, robot = ManualClock(), SimpleNamespace(pose=Pose())
    frames = FramesPublisher(node, "drone", robot, RobotLibrary().get("tello"), None, clock)
    frames.tick()
    clock.advance(0.5)
    robot.pose = Pose(x_m=x_m)
    frames.tick()
    assert sent[1].twist.twist.linear.x == pytest.approx(speed_m_per_s)
