# SPDX-License-Identifier: Apache-2.0
"""Poses travel as ``geometry_msgs/Pose``."""

import math
from dataclasses import replace

import pytest
from geometry_msgs.msg import Point, Quaternion
from geometry_msgs.msg import Pose as StandardPose

import llm_planner.msg as msgs
from llm_planner.action import PlanTask
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.core.request import PlanRequest
from llm_planner.core.segment import Situation
from llm_planner.ros import conversions, poses
from llm_planner.ros.situations import from_situation, to_situation
from llm_planner.serving.admission import Admission

pytestmark = pytest.mark.ros

HERE = Pose(x_m=1.0, y_m=-2.0, z_m=0.5, yaw_deg=90.0)
HALF = math.sqrt(0.5)
THERE = StandardPose(position=Point(x=3.0), orientation=Quaternion(z=HALF, w=-HALF))
"""At x = 3 m, turned 90 degrees to the right."""


def is_here(message):
    place, turn = message.position, message.orientation
    return (place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w) == pytest.approx((1, -2, 0.5, 0, 0, HALF, HALF))


def start_of(**fields):
    goal = PlanTask.Goal(robot_id="drone_1", robot_model="tello", instruction="go", **fields)
    return conversions.to_request(goal, "0" * 32).start_pose


def test_goals_and_situations_have_a_pose_of_ros():
    request = PlanRequest(
        request_id="0" * 32, robot_id="drone_1", robot_model="tello", instruction="go", start_pose=HERE
    )
    goal, situation = conversions.to_goal(request), from_situation(Situation(scene="", pose=HERE))
    assert (goal.has_start_pose, situation.has_pose) == (True, True)
    assert is_here(goal.robot_pose)
    assert is_here(situation.robot_pose)


def test_the_pose_of_ros_is_read():
    assert start_of(has_start_pose=True, robot_pose=THERE) == Pose(x_m=3.0, yaw_deg=-90.0)
    assert to_situation(msgs.Situation(has_pose=True, robot_pose=THERE)).pose == Pose(x_m=3.0, yaw_deg=-90.0)


def test_home_is_a_pose_and_no_pose_is_none():
    assert start_of(has_start_pose=True) == Pose()
    assert start_of(robot_pose=THERE) is None
    assert to_situation(msgs.Situation(robot_pose=THERE)).pose is None


def test_a_robot_that_banks_has_the_heading_that_it_has():
    """A roll of 20 degrees is within the yaw of 60 degrees: q = q_yaw * q_roll."""
    yaw, roll = math.radians(60) / 2, math.radians(20) / 2
    turn = Quaternion(
        x=math.cos(yaw) * math.sin(roll),
        y=math.sin(yaw) * math.sin(roll),
        z=math.sin(yaw) * math.cos(roll),
        w=math.cos(yaw) * math.cos(roll),
    )
    assert poses.to_pose(StandardPose(orientation=turn)) == Pose(yaw_deg=60.0)


@pytest.mark.parametrize("field", ["x_m", "yaw_deg"])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_pose_that_is_not_finite_is_refused_as_that(field, number):
    pose = replace(HERE, **{field: number})
    request = PlanRequest(
        request_id="0" * 32, robot_id="drone_1", robot_model="tello", instruction="go", start_pose=pose
    )
    with pytest.raises(PlannerError) as caught:
        Admission(PlannerConfig(), ("tello",)).check(conversions.to_request(conversions.to_goal(request), "0" * 32), {})
    assert caught.value.code is ErrorCode.INVALID_POSE
    with pytest.raises(PlannerError) as caught:
        from_situation(Situation(scene="", pose=pose))
    assert caught.value.code is ErrorCode.INVALID_POSE
