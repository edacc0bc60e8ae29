# SPDX-License-Identifier: Apache-2.0
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.skill import SkillCall
from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.duration import skill_duration
from llm_planner.robots.library import RobotLibrary
from llm_planner.robots.model import Pose
from llm_planner.robots.world import World, WorldObject
from llm_planner.sim.kinematics import KinematicDriver

TELLO = RobotLibrary().get("tello")


def drone(*things, seed=0, **options):
    return KinematicDriver(TELLO, World(things), random.Random(seed), **options)


def thing(name="cat", position_m=(3.0, 0.0, 1.0), **attributes):
    return WorldObject(name=name, position_m=position_m, **attributes)


def do(driver, name, *arguments, now_s=0.0):
    """Runs one call to its end; returns the result and the time."""
    driver.start(SkillCall(name, arguments), now_s)
    end_s = driver.end_s
    result = driver.tick(end_s)
    assert result.status is not SkillStatus.RUNNING
    return result, end_s


def where(driver):
    pose = driver.state.pose
    return pytest.approx((pose.x_m, pose.y_m, pose.z_m, pose.yaw_deg), abs=1e-6)


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("mf", 100.0, (1, 0, 1, 0)),
        ("mb", 100.0, (-1, 0, 1, 0)),
        ("ml", 100.0, (0, 1, 1, 0)),
        ("mr", 100.0, (0, -1, 1, 0)),
        ("mu", 100.0, (0, 0, 2, 0)),
        ("md", 50.0, (0, 0, 0.5, 0)),
        ("tc", 90.0, (0, 0, 1, -90)),
        ("tu", 270.0, (0, 0, 1, -90)),
        ("d", 3.0, (0, 0, 1, 0)),
    ],
)
def test_motions_after_rep_103(name, number, expected):
    driver = drone()
    result, _ = do(driver, name, number)
    assert result.status is SkillStatus.SUCCEEDED
    assert expected == where(driver)


def test_motion_is_in_the_body_frame():
    driver = drone(pose=Pose(z_m=1.0, yaw_deg=90.0))
    do(driver, "mf", 100.0)
    assert where(driver) == (0, 1, 1, 90)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["mf", "ml", "mu", "tc", "tu"]), st.floats(20, 190), st.integers(0, 1000))
def test_motion_is_continuous_and_keeps_its_speed_limit(name, number, seed):
    driver = drone(seed=seed)
    number = float(round(number)) if name in ("tc", "tu") else number  # whole degrees
    driver.start(SkillCall(name, (number,)), 5.0)
    expected, end_s, step_s = skill_duration(TELLO.skills[name], number), driver.end_s, 0.02
    assert end_s - 5.0 >= expected.min_s - 1e-9
    before, now_s = driver.state.pose, 5.0
    while driver.tick(now_s).status is SkillStatus.RUNNING:
        pose = driver.state.pose
        moved_m = math.dist((pose.x_m, pose.y_m, pose.z_m), (before.x_m, before.y_m, before.z_m))
        turned_deg = abs((pose.yaw_deg - before.yaw_deg + 180) % 360 - 180)
        assert moved_m <= 1.0 * step_s + 1e-9
        assert turned_deg <= 90.0 * step_s + 1e-9
        before, now_s = pose, now_s + step_s


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    assert do(drone(seed=3), "mf", 100.0)[1] == do(drone(seed=3), "mf", 100.0)[1]
    assert do(drone(seed=3), "mf", 100.0)[1] != do(drone(seed=4), "mf", 100.0)[1]


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["mf", "mb", "ml", "mr", "mu", "md"]), st.floats(20, 500)),
            st.tuples(st.sampled_from(["tc", "tu"]), st.integers(1, 360).map(float)),
            st.tuples(st.sampled_from(["g", "a", "o", "s"]), st.sampled_from(["cat", "dog"])),
            st.tuples(st.sampled_from(["tk", "ld", "h"])),
        ),
        max_size=25,
    ),
    st.floats(0, 1),
)
def test_the_drone_never_leaves_its_geofence(calls, share):
    """Whatever is called, and also when calls are halted on the way."""
    things = (thing("cat", (11.0, 0.0, 0.0)), thing("dog", (0.0, -13.0, 4.0)))
    driver, now_s = drone(*things, pose=Pose(x_m=7.0, z_m=1.0)), 0.0
    for count, (name, *arguments) in enumerate(calls):
        driver.start(SkillCall(name, tuple(arguments)), now_s)
        now_s += (driver.end_s - now_s) * (share if count % 3 == 0 else 1.0)
        if driver.tick(now_s).status is SkillStatus.RUNNING:
            driver.halt(now_s)
        pose = driver.state.pose
        assert abs(pose.x_m) <= 10 + 1e-6
        assert abs(pose.y_m) <= 10 + 1e-6
        assert -1e-9 <= pose.z_m <= 3 + 1e-6


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("mu", (500.0,), "would leave the geofence at (0.00, 0.00, 6.00) m"),
        ("a", ("cat",), "cat is not visible"),
        ("o", ("unicorn",), "unicorn is not visible"),
        ("od", ("cat",), "cat is not visible"),
        ("mf", (9999.0,), "mf: distance = 9999 is outside [20.0, 500.0]"),
        ("mf", (math.nan,), "mf: distance = nan is outside [20.0, 500.0]"),
        ("mf", (True,), "mf: distance must be a number, got True"),
        ("mf", ("cat",), "mf: distance must be a number, got 'cat'"),
        ("mf", (), "mf takes 1 arguments, got 0"),
        ("g", (False,), "g: object must be a name or text, got False"),
        ("g", ("x" * 65,), "g: object is too long"),
        ("explode", (), "there is no skill explode"),
    ],
)
def test_a_call_that_cannot_be_carried_out_fails_with_its_reason(name, arguments, reason):
    driver = drone(thing(position_m=(-3.0, 0.0, 1.0)))
    result, _ = do(driver, name, *arguments)
    assert (result.status, result.reason) == (SkillStatus.FAILED, reason)
    assert where(driver) == (0, 0, 1, 0)


def test_a_landed_drone_only_takes_off():
    driver = drone(thing(position_m=(3.0, 0.0, 0.5)))
    _, now_s = do(driver, "ld")
    assert driver.state.pose.z_m == 0
    for name, argument in (("mf", 50.0), ("tc", 90.0), ("a", "cat"), ("g", "cat"), ("s", "cat")):
        result, now_s = do(driver, name, argument, now_s=now_s)
        assert result.reason == "is not flying; take off first"
    result, now_s = do(driver, "tk", now_s=now_s)
    assert driver.state.pose.z_m == 1
    assert do(driver, "tk", now_s=now_s)[1] == now_s  # nothing to do in the air


@pytest.mark.parametrize(
    ("position_m", "is_visible"),
    [
        ((4.9, 0, 1), True),
        ((5.1, 0, 1), False),
        ((2, 1.1, 1), True),
        ((2, 1.2, 1), False),
        ((0.2, 0, 0), False),
        ((-1, 0, 1), False),
    ],
)
def test_the_camera_sees_60_degrees_and_5_metres(position_m, is_visible):
    assert do(drone(thing(position_m=position_m)), "iv", "cat")[0].value is is_visible


def test_quantities_of_the_picture():
    driver = drone(
        thing("left", (3.0, 1.0, 1.0), size_m=(0.5, 0.5, 0.5)), thing("low", (3.0, -1.0, 0.2), size_m=(0.1, 0.1, 1.0))
    )
    values = {n: {q: do(driver, q, n)[0].value for q in ("ox", "oy", "ow", "oh", "od")} for n in ("left", "low")}
    assert values["left"]["ox"] < 0.5 < values["low"]["ox"]
    assert values["left"]["oy"] == pytest.approx(0.5)
    assert values["low"]["oy"] > 0.5
    assert values["left"]["ow"] > values["low"]["ow"]
    assert values["left"]["oh"] < values["low"]["oh"]
    assert values["left"]["od"] == pytest.approx(316.2, abs=0.1)


def test_scan_turns_clockwise_in_steps_until_it_sees():
    driver = drone(thing(position_m=(0.0, -3.0, 1.0)))
    result, end_s = do(driver, "s", "cat")
    assert result.value is True
    assert where(driver) == (0, 0, 1, -90)
    assert end_s == pytest.approx(0.2 + 2 * 1.65)
    assert do(driver, "s", "cat", now_s=10.0)[1] == pytest.approx(10.2)


def test_scan_for_nothing_turns_full_circle():
    driver = drone()
    result, end_s = do(driver, "s", "cat")
    assert result.value is False
    assert where(driver) == (0, 0, 1, 0)
    assert end_s == pytest.approx(0.2 + 8 * 1.65)


def test_scan_for_a_description_returns_the_nearest_name():
    near, far = thing("knife_2", (0, 2, 1), tags=("something sharp",)), thing("saw", (0, 3, 1), tags=("sharp",))
    assert do(drone(near, far), "sa", "Something sharp, please")[0].value == "knife_2"
    assert do(drone(near, far), "sa", "a pair of knives or a knife")[0].value == "knife_2"
    assert do(drone(near, far), "sa", "something soft")[0].value is False


def test_orient_approach_and_goto():
    driver = drone(thing(position_m=(3.0, 1.0, 1.0)))
    _, now_s = do(driver, "o", "cat")
    assert driver.state.pose.yaw_deg == pytest.approx(math.degrees(math.atan2(1, 3)))
    _, now_s = do(driver, "a", "cat", now_s=now_s)
    pose = driver.state.pose
    assert math.dist((pose.x_m, pose.y_m), (3, 1)) == pytest.approx(0.5)
    other = drone(thing(position_m=(3.0, 1.0, 1.0)))
    result, end_s = do(other, "g", "cat")
    assert result.status is SkillStatus.SUCCEEDED
    assert (pose.x_m, pose.y_m, pose.z_m, pose.yaw_deg) == where(other)
    assert do(other, "a", "cat", now_s=end_s)[0].status is SkillStatus.SUCCEEDED  # already there
    assert (pose.x_m, pose.y_m, pose.z_m, pose.yaw_deg) == where(other)


@pytest.mark.parametrize("size_m", [(0.3, 0.3, 0.3), (0.8, 0.8, 0.7), (4.0, 1.8, 1.5), (0.1, 4.0, 2.0)])
@pytest.mark.parametrize("angle_deg", range(0, 360, 15))
def test_nothing_is_touched_by_who_goes_to_it(size_m, angle_deg):
    angle = math.radians(angle_deg)
    position_m = (4.0 * math.cos(angle), 4.0 * math.sin(angle), 1.2)
    driver = drone(thing(position_m=position_m, size_m=size_m), pose=Pose(z_m=1.0, yaw_deg=float(angle_deg)))
    assert do(driver, "g", "cat")[0].status is SkillStatus.SUCCEEDED
    pose = driver.state.pose
    here = (pose.x_m, pose.y_m, pose.z_m)
    gaps = [max(0.0, abs(a - b) - size / 2.0) for a, b, size in zip(here, position_m, size_m, strict=True)]
    assert math.hypot(*gaps) > 0.199
    if max(size_m) <= 0.3:
        assert math.dist(here[:2], position_m[:2]) == pytest.approx(0.5)


def test_who_flies_over_a_thing_goes_as_near_to_its_middle_as_to_a_small_one():
    driver = drone(thing("table", (3.0, 0.0, 0.35), size_m=(1.2, 2.0, 0.7)))
    assert do(driver, "a", "table")[0].status is SkillStatus.SUCCEEDED
    assert where(driver) == (2.5, 0, 1, 0)


def test_an_approach_is_level():
    driver = drone(thing(position_m=(4.0, 0.0, 0.0)))
    result, now_s = do(driver, "a", "cat")
    assert result.status is SkillStatus.SUCCEEDED
    assert where(driver) == (3.5, 0, 1, 0)
    assert do(driver, "iv", "cat", now_s=now_s)[0].value is True


def test_approach_fails_at_the_geofence():
    driver = drone(thing(position_m=(11.0, 0.0, 1.0)), pose=Pose(x_m=7.0, z_m=1.0))
    result, _ = do(driver, "a", "cat")
    assert "would leave the geofence" in result.reason


def test_objects_are_found_by_kind_and_spelling():
    driver = drone(thing("cat_1", (4, 0, 1), kind="cat"), thing("cat_2", (2, 0, 1), kind="cat"), thing("Red Box"))
    assert do(driver, "od", "cat")[0].value == pytest.approx(200)
    assert do(driver, "iv", "red_box")[0].value is True


def test_moving_objects_are_where_they_are_now():
    person = thing("person", (3.0, -3.0, 1.0), velocity_m_per_s=(0.0, 1.0, 0.0), moves_for_s=3.0)
    driver = drone(person)
    assert do(driver, "iv", "person")[0].value is False
    assert do(driver, "iv", "person", now_s=2.5)[0].value is True
    assert do(driver, "od", "person", now_s=99.0)[0].value == pytest.approx(300)


def test_the_past_course_of_the_robot_meets_that_of_a_moving_object():
    def nearest_m(driver):
        poses = ((driver.pose_at(t), person.position_at(t)) for t in (0.05 * step for step in range(101)))
        return min(math.dist((pose.x_m, pose.y_m, pose.z_m), position) for pose, position in poses)

    person = thing("person", (0.0, 3.0, 1.0), velocity_m_per_s=(0.0, -1.0, 0.0))
    stays, leaves = drone(person), drone(person)
    assert nearest_m(stays) == pytest.approx(0.0, abs=1e-9)
    do(leaves, "mb", 200.0)
    assert nearest_m(leaves) == pytest.approx(math.sqrt(2), abs=0.01)  # after 2 s


def test_a_drone_outside_its_geofence_does_not_take_off_there():
    driver = drone(pose=Pose(x_m=11.0, z_m=0.0))
    assert "geofence" in do(driver, "tk")[0].reason


def test_says_takes_pictures_and_answers():
    driver = drone(thing(), thing("dog", (2, 0, 1)))
    driver.world.answers["colour of cat"] = "black"
    do(driver, "l", "hello")
    do(driver, "mf", 20.0)
    do(driver, "tp")
    assert driver.state.said == ["hello"]
    assert [p.x_m for p in driver.state.pictures] == [pytest.approx(0.2)]
    assert do(driver, "p", "What colour of fur has the cat?")[0].value == "black"
    assert do(driver, "p", "what is there?")[0].value == "dog, cat"
    assert do(drone(), "p", "what is there?")[0].value == "nothing"


def test_what_is_forgotten_changes_nothing_later():
    driver = drone()
    now_s = 0.0
    for name in ("mf", "mr", "mb", "ml"):
        _, now_s = do(driver, name, 100.0, now_s=now_s)
    times_s = [0.1 * step for step in range(150)]
    poses = [driver.pose_at(time_s) for time_s in times_s]
    for number, before_s in enumerate(times_s):
        driver.forget(before_s)
        assert [driver.pose_at(time_s) for time_s in times_s[number:]] == poses[number:]
    assert len(driver._history) == 1


def test_halt_freezes_the_robot():
    driver = drone()
    driver.start(SkillCall("mf", (500.0,)), 0.0)
    driver.tick(3.0)
    driver.halt(3.0)
    frozen = driver.state.pose
    assert driver.pose_at(1.0).x_m < driver.pose_at(2.0).x_m < driver.pose_at(9.0).x_m == frozen.x_m
    assert 0 < frozen.x_m < 5
    assert driver.tick(50.0).reason == "halted"
    assert driver.state.pose == frozen
    assert driver.end_s is None
    driver.halt(51.0)  # again: nothing happens


def test_one_call_at_a_time():
    driver = drone()
    driver.start(SkillCall("h"), 0.0)
    with pytest.raises(RuntimeError, match="another skill"):
        driver.start(SkillCall("h"), 0.0)


def test_failures_can_be_injected():
    driver = drone(failures={("mf", 2): "motor is hot"})
    assert [do(driver, "mf", 20.0)[0].reason for _ in range(3)] == ["", "motor is hot", ""]
