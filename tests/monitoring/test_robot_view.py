# SPDX-License-Identifier: Apache-2.0
"""What a robot shows of itself survives the wire; what makes no sense is refused."""

import json
from dataclasses import replace

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.monitoring.robot_view import MAX_THINGS, RobotView, Thing, nearest, outline, parse_home
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.world import WorldObject


def make_view(robot_id="drone_1", model="tello", **changes):
    return replace(outline(RobotLibrary().get(model), robot_id, "kinematic"), **changes)


def make_thing(name, x_m=1.0):
    return Thing(name=name, kind="", role="thing", position_m=(x_m, 0.0, 0.0), size_m=(0.1, 0.1, 0.1))


@pytest.mark.parametrize("model", ["tello", "indy7"])
def test_a_view_survives_the_wire(model):
    view = make_view(model=model, number=7, things=(make_thing("chair"),), held="cup")
    assert RobotView.from_json(view.to_json()) == view


def test_a_drone_has_a_fence_and_an_arm_a_reach():
    drone, arm = make_view(), make_view(model="indy7")
    assert drone.fence_m is not None
    assert drone.reach_m is None
    assert arm.fence_m is None
    assert arm.reach_m is not None


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", '"three"', "null"])
def test_a_pose_that_is_no_place_is_refused(number):
    text = make_view(pose=Pose(x_m=1.25)).to_json().replace("1.25", number)
    with pytest.raises(PlannerError, match="pose") as refused:
        RobotView.from_json(text)
    assert refused.value.code is ErrorCode.INVALID_POSE


@pytest.mark.parametrize("changes", [{"robot_id": "x" * 1000}, {"things": (make_thing("t"),) * 1000}])
def test_a_view_that_is_a_flood_is_refused(changes):
    with pytest.raises(PlannerError):
        RobotView.from_json(make_view(**changes).to_json())


def test_another_version_is_refused_and_new_fields_are_not():
    document = json.loads(make_view().to_json())
    assert RobotView.from_json(json.dumps(document | {"colour": "red"})) == make_view()
    with pytest.raises(PlannerError, match="version 2"):
        RobotView.from_json(json.dumps(document | {"version": 2}))


@pytest.mark.parametrize(("text", "home"), [("", None), (" 1.5, -2,90 ", Pose(x_m=1.5, y_m=-2.0, yaw_deg=90.0))])
def test_a_home_is_three_numbers_or_unknown(text, home):
    assert parse_home(text) == home
    view = make_view(home=home)
    assert RobotView.from_json(view.to_json()) == view


@pytest.mark.parametrize("text", ["1,2", "1,2,3,4", "a,b,c", "nan,0,0", "1;2;3"])
def test_a_home_that_is_none_is_refused(text):
    with pytest.raises(PlannerError, match="X,Y,YAW") as refused:
        parse_home(text)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_things_move():
    ball = WorldObject(name="ball", position_m=(1.0, 0.0, 0.0), velocity_m_per_s=(0.5, 0.0, 0.0))
    assert Thing.of(ball, 2.0).position_m == (2.0, 0.0, 0.0)
    assert Thing.of(ball, 2.0).is_moving


def test_of_too_many_things_the_nearest_are_shown():
    things = tuple(make_thing(f"t{i}", x_m=float(100 - i)) for i in range(MAX_THINGS + 10))
    shown = nearest(things, Pose())
    assert len(shown) == MAX_THINGS
    assert {thing.name for thing in things[:10]}.isdisjoint(thing.name for thing in shown)
