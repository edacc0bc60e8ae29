# SPDX-License-Identifier: Apache-2.0
"""Reflexes: geometry and a rule; every case with the worlds and robot models that ship."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.skill import SkillCall
from llm_planner.robots.dodge import Mover, closest_m, dodge, forecast_s, moved, speed_to, way_to
from llm_planner.robots.library import RobotLibrary, load_robot_model
from llm_planner.robots.model import Pose
from llm_planner.robots.reflex import Reflex, Threat, nearest, step_away
from llm_planner.robots.world import WorldObject

TELLO, INDY7 = RobotLibrary().get("tello"), RobotLibrary().get("indy7")
HOME = TELLO.start
NEAR = replace(TELLO, reflex=replace(TELLO.reflex, ahead_s=0.0))  # acts on distance alone


def ball(x=2.0, y=0.0, z=1.0, *, speed=-1.0, name="ball", **fields):
    position, velocity = (float(x), float(y), float(z)), (speed, 0.0, 0.0)
    return WorldObject(name=name, position_m=position, velocity_m_per_s=velocity, **{"size_m": (0.2,) * 3, **fields})


def look(reflex, things, now_s=0.0, pose=HOME, *, is_at_work=True, is_acting=False):
    return reflex.look(pose, things, now_s, is_at_work=is_at_work, is_acting=is_acting)


def test_what_is_near_is_backed_off_from_once():
    reflex = Reflex(NEAR)
    assert look(reflex, [ball()], 0.0) is None
    assert look(reflex, [ball()], 1.09) is None  # its surface is 0.81 m away
    reaction = look(reflex, [ball()], 1.11)
    assert reaction.calls == (SkillCall("mb", (50.0,)),)
    assert (reaction.text, reaction.reason) == ("mb(50);", "ball is 0.79 m away")
    assert look(reflex, [ball()], 1.13) is None  # the same approach


def test_what_follows_is_backed_off_from_again_when_the_first_step_is_over():
    reflex = Reflex(NEAR)
    assert look(reflex, [ball()], 1.11) is not None
    assert look(reflex, [ball()], 1.4, is_acting=True) is None
    assert look(reflex, [ball()], 1.4) is not None


def test_an_approach_ends_only_well_outside():
    reflex = Reflex(NEAR)
    assert look(reflex, [ball(0.5)]) is not None
    assert look(reflex, [ball(1.0)]) is None  # 0.9 m: still the same
    assert look(reflex, [ball(0.88)]) is None
    assert look(reflex, [ball(1.2)]) is None  # 1.1 m: gone
    assert look(reflex, [ball(0.5)]) is not None


def test_what_comes_while_something_else_is_near_is_dodged_in_time():
    reflex, person = Reflex(TELLO), ball(0.0, 0.9, speed=0.001, name="person")
    assert look(reflex, [person]).reason == "person is 0.80 m away"
    assert look(reflex, [person], 0.2) is None
    coming = ball(3.4, speed=-2.0)
    assert look(reflex, [person, coming], 0.2).reason == "ball comes, and is 2.90 m away"
    assert look(reflex, [person, coming], 0.2) is None  # the same approaches
    assert look(reflex, [coming], 0.2) is None
    assert look(reflex, [person], 0.2) is not None  # it had gone


def test_what_never_moves_is_the_plan_s_business():
    assert look(Reflex(TELLO), [ball(0.1, speed=0.0)]) is None
    assert nearest(HOME, [ball(speed=0.0)], 0.0) is None


def test_holding_denies_every_goal_while_something_is_near():
    reflex, pose = Reflex(INDY7), INDY7.start
    hand = ball(0.45, 0.1, 0.45, speed=0.01, size_m=(0.1, 0.1, 0.1))
    assert look(reflex, [hand], pose=pose).calls == (SkillCall("stop"),)
    assert look(reflex, [hand], pose=pose, is_at_work=False) is None
    assert look(reflex, [hand], pose=pose, is_acting=True) is None
    assert look(reflex, [hand], pose=pose) is not None
    assert look(reflex, [ball(5.0, speed=0.01)], pose=pose) is None


@pytest.mark.parametrize("things", [[], [ball(9.0)]])
def test_an_emergency_without_an_answer_is_answered(things):
    reaction = Reflex(TELLO).answer_missing(HOME, things, 0.0, "why")
    assert reaction.reason == "why"
    (call,) = reaction.calls  # a robot that knows of something gets away from it, another one stops
    assert call.name == ("mb" if things else "h")
    assert Reflex(INDY7).answer_missing(INDY7.start, things, 0.0, "why").calls == (SkillCall("stop"),)


@given(
    x=st.floats(-10, 10), y=st.floats(-10, 10), z=st.floats(0.2, 3), yaw=st.floats(-180, 180),
    bearing=st.floats(0, 2 * math.pi), distance=st.floats(0.1, 0.8),
)  # fmt: skip
def test_a_step_away_leads_away_and_stays_inside(x, y, z, yaw, bearing, distance):
    pose = Pose(x_m=x, y_m=y, z_m=z, yaw_deg=yaw)
    threat = (x + distance * math.cos(bearing), y + distance * math.sin(bearing), z)
    call = step_away(TELLO, pose, Threat("it", threat, distance), 0.5)
    if call is None:
        return  # in a corner; the robot stops
    axis = {s: TELLO.skills[s].effect.axis for s in ("mf", "mb", "ml", "mr", "mu", "md")}[call.name]
    forward, left, up = (component * call.arguments[0] / 100 for component in axis)
    c, s = math.cos(math.radians(yaw)), math.sin(math.radians(yaw))
    end = (x + forward * c - left * s, y + forward * s + left * c, z + up)
    assert TELLO.geofence.contains(*end)
    assert math.dist(end, threat) > distance
    assert TELLO.skills[call.name].number.minimum <= call.arguments[0] <= TELLO.skills[call.name].number.maximum


def test_in_the_open_the_step_leads_straight_away():
    for yaw, skill in ((0.0, "mb"), (90.0, "mr"), (180.0, "mf"), (-90.0, "ml")):
        pose = Pose(x_m=0.0, y_m=0.0, z_m=1.0, yaw_deg=yaw)
        call = step_away(TELLO, pose, Threat("it", (0.5, 0.0, 1.0), 0.5), 0.5)
        assert call.name in {"mb": "mb", "mr": "ml", "mf": "mf", "ml": "mr"}[skill]


def test_what_comes_is_dodged_before_it_is_near():
    reflex = Reflex(TELLO)
    assert look(reflex, [ball(6.0, speed=-2.0)], 0.2) is None
    reaction = look(reflex, [ball(3.4, speed=-2.0)], 0.2)
    assert reaction.reason == "ball comes, and is 2.90 m away"
    (step,) = reaction.calls
    assert step.name == "ml"  # out of its way, not along it
    assert look(reflex, [ball(3.4, speed=-2.0)], 0.2, is_acting=True) is None


def test_what_passes_by_and_what_goes_away_is_let_be():
    assert look(Reflex(TELLO), [ball(3.0, 1.5, speed=-2.0)], 0.2) is None
    assert look(Reflex(TELLO), [ball(1.5, speed=2.0)], 0.2) is None


def test_what_the_robot_is_leaving_already_is_no_reason_to_interrupt_it():
    def comes(target):
        reaction = Reflex(TELLO).look(
            HOME, [ball(3.4, speed=-2.0)], 0.2, is_at_work=True, is_acting=False, target=target
        )
        return reaction is not None

    assert comes(None)
    assert comes(Pose(x_m=1.0, y_m=0.0, z_m=1.0))
    assert not comes(Pose(x_m=0.0, y_m=1.5, z_m=1.0))


def under_way(target, things, now_s=0.2, *, speed_m_per_s=0.85, is_acting=False, model=TELLO):
    return Reflex(model).look(
        HOME, things, now_s, is_at_work=not is_acting, is_acting=is_acting, target=target, speed_m_per_s=speed_m_per_s
    )


def test_a_motion_that_leads_towards_what_comes_or_along_its_way_is_overridden():
    towards, along = Pose(x_m=1.0, z_m=1.0), Pose(x_m=-1.5, z_m=1.0)
    assert under_way(towards, [ball(3.4, speed=-2.0)]).calls[0].name == "ml"
    (call,) = under_way(along, [ball(2.7, speed=-2.0)]).calls  # it is faster than the robot
    assert call.name in ("ml", "mr")


@pytest.mark.parametrize("is_acting", [False, True])
def test_a_motion_is_not_interrupted_where_nothing_else_keeps_clearer(is_acting):
    aside = Pose(y_m=1.5, z_m=1.0)
    near = ball(0.85, -0.3, speed=-1.0)
    assert look(Reflex(TELLO), [near]) is not None  # of a robot that stands
    assert under_way(aside, [near], is_acting=is_acting) is None
    assert under_way(Pose(y_m=-1.5, z_m=1.0), [near], is_acting=is_acting) is not None  # across its way
    assert under_way(aside, [near], model=NEAR) is not None  # a robot without a forecast knows the distance alone


def test_a_way_under_way_has_no_lag():
    aside = Pose(y_m=1.5, z_m=1.0)
    begun = way_to(HOME, aside, 0.85, 1.0)
    half = way_to(HOME, aside, 0.85, 1.0, 0.425)
    flown = way_to(HOME, aside, 0.85, 1.0, 0.85)
    assert begun[4][1] == pytest.approx(0.0)
    assert half[4][1] == pytest.approx(0.2 * 0.85)
    assert flown[4][1] == pytest.approx(0.4 * 0.85)
    assert way_to(HOME, aside, 0.85, 1.0, -0.5) == begun  # it flies the other way still
    assert way_to(HOME, aside, 0.85, 3.0, 2.0)[-1] == (0.0, 1.5, 1.0)


def test_a_speed_counts_towards_the_target():
    here, before = Pose(x_m=0.1, z_m=1.0), Pose(z_m=1.0)
    assert speed_to(Pose(x_m=2.0, z_m=1.0), here, before) == pytest.approx(1.0)
    assert speed_to(Pose(x_m=-2.0, z_m=1.0), here, before) == pytest.approx(-1.0)
    assert speed_to(Pose(x_m=0.1, y_m=2.0, z_m=1.0), here, before) == pytest.approx(0.0)
    assert speed_to(here, here, before) == 0.0  # it is there


def test_a_reflex_knows_no_future_that_it_does_not_see():
    """The ball will stop half way: this cannot be known before."""
    assert look(Reflex(TELLO), [ball(2.4, speed=-2.0, moves_for_s=0.3)], 0.2) is not None
    stopped = ball(2.4, speed=-2.0, moves_for_s=0.3)
    assert look(Reflex(TELLO), [stopped], 0.5) is None


@given(bearing=st.floats(0, 2 * math.pi), yaw=st.floats(-180, 180), speed=st.floats(0.5, 2.0))
def test_a_dodge_keeps_clear_of_who_goes_straight_on(bearing, yaw, speed):
    pose = Pose(x_m=0.0, y_m=0.0, z_m=1.0, yaw_deg=yaw)
    ahead_s = 2.2
    c, s = math.cos(bearing), math.sin(bearing)
    mover = Mover("it", (speed * ahead_s * c, speed * ahead_s * s, 0.9), (0.5, 0.5, 1.8), (-speed * c, -speed * s, 0.0))
    call = dodge(TELLO, pose, [mover], ahead_s)
    assert call is not None
    skill = TELLO.skills[call.name]
    end = moved(pose, skill.effect, call.arguments[0])
    still = closest_m(mover, [(0.0, 0.0, 1.0)] * 40)
    assert still == 0.0
    assert TELLO.geofence.contains(*end)
    assert mover.gap_m(end, ahead_s) > 0.25


@given(bearing=st.floats(0, 2 * math.pi), heading=st.floats(0, 2 * math.pi), speed=st.floats(0.5, 2.0))
def test_going_on_is_left_alone_if_it_keeps_the_distance_and_given_up_only_for_what_is_clearer(bearing, heading, speed):
    c, s = math.cos(bearing), math.sin(bearing)
    mover = Mover("it", (speed * 1.6 * c, speed * 1.6 * s, 0.9), (0.5, 0.5, 1.8), (-speed * c, -speed * s, 0.0))
    target = Pose(x_m=1.5 * math.cos(heading), y_m=1.5 * math.sin(heading), z_m=1.0)
    going_on = way_to(HOME, target, 0.85, forecast_s(1.6), 0.85)
    call = dodge(TELLO, HOME, [mover], 1.6, going_on)
    if closest_m(mover, going_on) >= TELLO.reflex.distance_m:
        assert call is None
    if call is not None and call.name == "h":  # it stays where it is hit
        assert closest_m(mover, going_on) == 0.0


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("{distance_m: 0, action: stop}", "must be > 0"),
        ("{distance_m: .nan, action: stop}", "finite"),
        ("{distance_m: 1.0, action: dance}", "reflex.action"),
        ("{distance_m: 0.4, action: back_off}", "needs a skill with effect translate"),
        ("{distance_m: 0.4, action: stop, ahead_s: -1.0}", "ahead_s must be in"),
        ("{action: stop}", "reflex.distance_m"),
    ],
)
def test_a_broken_rule_is_named(tmp_path, rule, problem):
    text = (RobotLibrary()._directories[-1] / "indy7.yaml").read_text()
    path = tmp_path / "indy7.yaml"
    (line,) = [line for line in text.splitlines() if line.startswith("reflex:")]
    path.write_text(text.replace(line, f"reflex: {rule}"))
    with pytest.raises(PlannerError) as caught:
        load_robot_model(path)
    assert caught.value.code is ErrorCode.INVALID_ROBOT_MODEL
    assert problem in caught.value.message


@pytest.mark.parametrize("model", [NEAR, TELLO], ids=["stepping away", "dodging"])
def test_a_robot_takes_no_motion_that_it_does_not_support_and_stops_if_none_is_left(model):
    things = [ball(1.0)]
    usual = Reflex(model).answer_missing(HOME, things, 0.0, "why").calls[0].name
    other = Reflex(model, unsupported={usual}).answer_missing(HOME, things, 0.0, "why").calls[0].name
    assert other not in (usual, "h")
    none_left = Reflex(model, unsupported={"mf", "mb", "ml", "mr", "mu", "md"})
    assert none_left.answer_missing(HOME, things, 0.0, "why").calls == (SkillCall("h"),)
