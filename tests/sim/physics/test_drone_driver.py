# SPDX-License-Identifier: Apache-2.0
"""A drone with a body carries plans out: through the ordinary executor, in virtual time."""

import math
from dataclasses import replace

import pytest

pytest.importorskip("mujoco")

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.segment import ReportStatus
from llm_planner.core.skill import SkillCall
from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.executor import ExecutorState
from llm_planner.robots.model import Pose
from llm_planner.robots.world import WorldObject
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.world import PhysicsWorld
from tests.sim.physics.builders import LIBRARY, cube, drone, run


def near(pose, x, y, z, yaw=None, tolerance=0.1):
    is_there = math.dist((pose.x_m, pose.y_m, pose.z_m), (x, y, z)) < tolerance
    return is_there and (yaw is None or abs(math.remainder(pose.yaw_deg - yaw, 360)) < 4)


def test_a_plan_is_flown_by_the_ordinary_executor():
    driver, world = drone()
    executor, reports, now_s = run(driver, "mf(100);", "tc(90);mf(50);")
    assert executor.state is ExecutorState.DONE
    assert [r.status for r in reports].count(ReportStatus.SUCCEEDED) == 2
    assert near(driver.state.pose, 1.0, -0.5, 1.0, -90)
    assert near(world.drones["drone_1"].true_pose, 1.0, -0.5, 1.0, -90)
    assert 4 < now_s < 12
    assert not world.collisions


def test_home_is_where_the_robots_frame_begins():
    driver, world = drone(home=Home(x_m=5.0, y_m=3.0, yaw_deg=90.0))
    run(driver, "mf(100);")
    assert near(driver.state.pose, 1.0, 0.0, 1.0, 0)
    x, y, z = world.drones["drone_1"].position
    assert math.dist((x, y, z), (5.0, 4.0, 1.0)) < 0.1


def test_landing_switches_the_motors_off_and_only_a_take_off_moves_it_again():
    driver, world = drone()
    executor, reports, _ = run(driver, "ld();", "tk();mf(50);")
    assert executor.state is ExecutorState.DONE, reports
    assert near(driver.state.pose, 0.5, 0.0, 1.0)
    executor, reports, _ = run(driver, "ld();mf(50);")
    assert "take off first" in reports[-1].reason
    assert driver.state.pose.z_m == 0.0
    assert not world.drones["drone_1"].is_armed


def test_what_stands_behind_something_is_not_seen_until_the_drone_has_moved():
    hidden = (cube("cat", x=3.0, kind="cat"), cube("wardrobe", x=1.5, size=1.2, z=0.6))
    driver, _ = drone(*hidden)
    _, reports, _ = run(driver, "->iv(cat);")
    assert reports[-1].value is False
    driver, _ = drone(*hidden)
    _, reports, _ = run(driver, "ml(250);tc(40);->iv(cat);")
    assert reports[-1].value is True


def test_a_scan_finds_what_is_behind_it_and_turns_round_if_there_is_nothing():
    driver, _ = drone(cube("cat", x=-2.0, kind="cat"))
    _, reports, _ = run(driver, "->s(cat);")
    assert reports[-1].value is True
    assert abs(driver.state.pose.yaw_deg) > 140
    driver, _ = drone()
    _, reports, now_s = run(driver, "->s(cat);")
    assert reports[-1].value is False
    assert near(driver.state.pose, 0, 0, 1, 0)
    assert now_s > 6


def test_a_collision_ends_the_call_with_the_name_of_what_was_hit():
    driver, world = drone(cube("chair", x=1.0))
    executor, reports, _ = run(driver, "mf(200);")
    assert executor.state is ExecutorState.FAILED
    assert "collided with chair" in reports[-1].reason
    assert world.collisions[0].robot == "drone_1"


def test_an_empty_battery_lands_the_drone_in_mid_plan_and_it_obeys_no_more():
    driver, world = drone()
    other, _ = drone(home=Home(x_m=5.0), world=world)
    world.drones["drone_1"].battery = 0.101
    executor, reports, _ = run(driver, "mf(100);mb(100);mf(100);")
    assert executor.state is ExecutorState.FAILED
    assert "battery is empty" in reports[-1].reason
    world.advance(world.time_s + 6.0)
    assert not world.drones["drone_1"].is_armed
    _, reports, _ = run(driver, "tk();")
    assert "battery is empty" in reports[-1].reason
    assert near(other.state.pose, 0, 0, 1)
    assert world.drones["drone_2"].is_armed
    world.advance(world.time_s + 60.0)  # a person changes the battery
    now_s = world.time_s
    driver.attend(now_s)
    driver.start(SkillCall("tk"), now_s)
    while driver.tick(now_s).status is SkillStatus.RUNNING:
        now_s += 0.05
    assert driver.state.pose.z_m > 0.9


def test_halting_brakes():
    driver, world = drone()
    driver.start(SkillCall("mf", (300.0,)), 0.0)
    driver.tick(1.5)
    driver.halt(1.5)
    assert driver.tick(1.6).status is SkillStatus.FAILED
    driver.tick(4.0)
    assert abs(world.drones["drone_1"].velocity[0]) < 0.1
    assert 0.3 < driver.state.pose.x_m < 1.6


def test_wind_is_flown_against():
    driver, world = drone(wind=2.0, seed=3)
    driver.tick(20.0)
    x, y, z = world.drones["drone_1"].believed
    assert math.dist((x, y, z), (0, 0, 1)) < 0.15


def test_odometry_drifts_with_the_way_flown():
    driver, world = drone()
    run(driver, "mf(300);mb(300);")
    drift = world.drones["drone_1"].drift
    assert 0.001 < math.hypot(*drift) < 0.2


def test_the_same_seed_gives_the_same_flight():
    ends = []
    for _ in range(2):
        driver, _ = drone(wind=1.0, seed=7)
        run(driver, "mf(100);tc(45);")
        ends.append(driver.state.pose)
    assert ends[0] == ends[1]


def test_things_that_overlap_are_refused_and_nothing_else_is_harmed():
    driver, _ = drone()
    with pytest.raises(PlannerError, match="a and b overlap by 200 mm") as caught:
        driver.enter(type(driver.world)([cube("a", x=2.0), cube("b", x=2.1)]), None, 0.0)
    assert caught.value.code is ErrorCode.INVALID_WORLD
    driver.enter(type(driver.world)([cube("a", x=2.0)]), None, 0.0)
    assert set(driver.world.objects) == {"a"}


@pytest.mark.parametrize("pose", [Pose(x_m=float("nan"), z_m=1.0), Pose(yaw_deg=float("inf"), z_m=1.0)])
def test_a_pose_that_is_none_is_refused(pose):
    driver, _ = drone()
    with pytest.raises(PlannerError, match="give finite numbers") as caught:
        driver.enter(driver.world, pose, 0.0)
    assert caught.value.code is ErrorCode.INVALID_POSE


def test_two_drivers_for_one_robot_are_refused():
    world = PhysicsWorld()
    world.add_robot("drone_1", LIBRARY.get("tello"), Home())
    with pytest.raises(PlannerError) as caught:
        world.add_robot("drone_1", LIBRARY.get("tello"), Home(x_m=3.0))
    assert caught.value.code is ErrorCode.DUPLICATE_NODE


def test_a_drone_that_has_crashed_stands_still_when_it_is_told_to():
    driver, _ = drone()

    def read(now_s):
        driver._telemetry = replace(driver._telemetry, time_s=now_s, is_crashed=True)

    driver._read = read
    driver.start(SkillCall(driver.model.stop_skill), 1.0)
    assert driver.tick(3.0).status is SkillStatus.SUCCEEDED
    driver.start(SkillCall("mf", (100,)), 4.0)
    assert "crashed" in driver.tick(4.0).reason


def landing_for_want_of_power():
    """Returns the driver of a drone that lands for want of power, its world, and the time."""
    driver, world = drone()
    world.drones["drone_1"].battery = 0.1
    assert driver.attend(0.02) > 0.0
    assert world.drones["drone_1"].is_landing
    return driver, world


def test_a_landing_for_want_of_power_goes_on_whatever_is_halted():
    driver, world = landing_for_want_of_power()
    for now_s in (0.04, 0.08, 0.12):
        driver.start(SkillCall("h"), now_s)
        driver.halt(now_s)
        driver.attend(now_s + 0.02)
    world.advance(world.time_s + 8.0)
    assert not world.drones["drone_1"].is_armed


def test_a_drone_without_power_may_be_told_to_land():
    driver, world = landing_for_want_of_power()
    now_s = 0.04
    driver.start(SkillCall("ld"), now_s)
    while (result := driver.tick(now_s)).status is SkillStatus.RUNNING:
        now_s += 0.05
    assert result.status is SkillStatus.SUCCEEDED
    assert not world.drones["drone_1"].is_armed


def test_a_take_off_rises_from_what_the_drone_stands_on():
    shelf = WorldObject(name="shelf", position_m=(0.0, 0.0, 0.75), size_m=(1.0, 1.0, 1.5), is_fixed=True)
    driver, world = drone(shelf, pose=Pose(z_m=2.2))
    executor, reports, _ = run(driver, "ld();", "tk();")
    assert executor.state is ExecutorState.DONE, reports
    assert world.drones["drone_1"].position[2] == pytest.approx(2.5, abs=0.15)


def test_a_picture_that_cannot_be_written_fails_the_skill(monkeypatch, tmp_path):
    driver, world = drone()
    world.pictures = tmp_path / "nowhere"
    monkeypatch.setattr("llm_planner.sim.physics.port.drone_picture", lambda *_: None)

    def full(picture, path):
        raise OSError("no space left")

    monkeypatch.setattr("llm_planner.sim.physics.port.save", full)
    _, reports, _ = run(driver, "tp();")
    assert "cannot be written" in reports[-1].reason
    assert "no space left" in reports[-1].reason
