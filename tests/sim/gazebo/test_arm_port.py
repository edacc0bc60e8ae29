# SPDX-License-Identifier: Apache-2.0
"""The arm's way to Gazebo: the ordinary driver and executor, in front of joints that obey their trajectory exactly."""

import math

import numpy as np
import pytest

pytest.importorskip("mujoco")

from llm_planner.core.errors import PlannerError
from llm_planner.robots.executor import ExecutorState
from llm_planner.robots.model import Pose
from llm_planner.robots.world import World, WorldObject
from llm_planner.sim.gazebo.arm_motion import Brake
from llm_planner.sim.gazebo.arm_port import JOINT_STATES_TIMEOUT_S
from llm_planner.sim.physics.frame import Home
from tests.sim.gazebo.bodies import INDY7, GazeboArm
from tests.sim.gazebo.stage import HOME, TABLE, Stage

OPPOSITE = Home(x_m=0.95, y_m=0.05, z_m=0.75, yaw_deg=180.0)


def stage_of(home: Home = HOME, *, is_connected: bool = True, detaches: bool = True) -> Stage:
    gazebo = GazeboArm(home, TABLE.things)
    gazebo.detaches = detaches
    return Stage(gazebo, is_connected=is_connected)


@pytest.mark.parametrize("home", [HOME, OPPOSITE], ids=["as bundled", "from the other side"])
def test_a_box_is_stacked_and_what_lay_around_stays_there(home):
    stage = stage_of(home)
    before = {name: stage.gazebo.position_m(name) for name in stage.gazebo.loose}
    executor = stage.run("pick(red_box);place(red_box,blue_box);home();")
    assert executor.state is ExecutorState.DONE, stage.reports
    red, blue = stage.own("red_box"), stage.own("blue_box")
    assert math.dist(red, (blue[0], blue[1], blue[2] + 0.05)) < 0.004
    assert stage.driver.world.objects["red_box"].support == "blue_box"
    assert stage.driver.state.held is None
    assert all(stage.gazebo.position_m(name) == before[name] for name in before if name != "red_box")


def test_the_second_thing_in_a_container_finds_its_place_too():
    stage = stage_of()
    executor = stage.run("pick(red_box);place(red_box,bin);", "pick(lemon);place(lemon,bin);")
    assert executor.state is ExecutorState.DONE, stage.reports
    for name in ("red_box", "lemon"):
        assert stage.driver.world.objects[name].support == "bin"
        assert math.dist(stage.own(name)[:2], stage.own("bin")[:2]) < 0.08
    assert stage.driver.state.held is None


def test_the_next_plan_knows_what_lies_on_what_and_what_is_held():
    stage = stage_of()
    stage.run("pick(red_box);place(red_box,blue_box);pick(green_box);")
    stage.driver.enter(World(), None, stage.clock.now_s())  # another instruction
    assert stage.driver.world.objects["red_box"].support == "blue_box"
    stage.reports.clear()
    stage.run("place(green_box,blue_box);")
    assert "red_box" in stage.reports[-1].reason
    assert stage.gazebo.attached.keys() == {"green_box"}
    executor = stage.run("place(green_box,red_box);")
    assert executor.state is ExecutorState.DONE, stage.reports


def test_joints_keep_their_speed_and_acceleration():
    stage = stage_of()
    stage.run("move_to(bin);move_to(tray);")
    limits = [joint.speed_deg_per_s.value * INDY7.body.speed_share.value for joint in INDY7.body.joints]
    for points in stage.trajectories:
        rates = np.degrees([point.velocities for point in points])
        assert (abs(rates) <= np.array(limits) + 1e-6).all()
        assert abs(rates[-1]).max() < 1e-6
        times = np.array([point.after_s for point in points])
        gained = np.diff(rates, axis=0) / np.diff(times)[:, None] if len(points) > 1 else np.zeros((1, 6))
        assert abs(gained).max() <= 1.01 * INDY7.body.acceleration_deg_per_s2.value


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ("pick(moon);", "moon is not visible"),
        ("move_to(person);", "unreachable"),
        ("pick(ghost);", "ghost slipped away"),
    ],
)
def test_what_cannot_be_done_fails_with_its_reason(plan, reason):
    stage = stage_of()
    ghost = WorldObject(name="ghost", position_m=(0.4, 0.4, 0.02), size_m=(0.04, 0.04, 0.04))  # not in Gazebo
    stage.driver.enter(World([ghost]), None, 0.0)
    executor = stage.run(plan)
    assert executor.state is ExecutorState.FAILED
    assert reason in stage.reports[-1].reason, stage.reports


def test_nothing_moves_while_something_hangs_on_the_arm_that_should_not():
    stage = stage_of(detaches=False)
    executor = stage.run("home();", until_s=12.0)
    assert executor.state is ExecutorState.FAILED
    assert "did not arrive" in stage.reports[-1].reason
    assert stage.gazebo.joints.tolist() == [0.0] * 6
    stage.gazebo.detaches = True
    assert stage.run("home();").state is ExecutorState.DONE


def test_who_says_nothing_of_its_joints_is_taken_as_free_after_a_while():
    """Everything was released before this node began: Gazebo has no news, and answers no order."""
    stage = stage_of(is_connected=False)
    for name in stage.gazebo.loose:
        stage.gazebo.take_order(name, False)
    stage.gazebo.news.clear()
    stage.is_connected = True
    stage.step()
    executor = stage.run("pick(pen);")
    assert executor.state is ExecutorState.DONE, stage.reports
    assert stage.driver.state.held == "pen"


def test_a_gripper_that_never_attaches_holds_nothing_and_does_not_hold_later():
    stage = stage_of()
    stage.gazebo.attaches = False
    executor = stage.run("pick(red_box);")
    assert executor.state is ExecutorState.FAILED
    assert "red_box slipped away" in stage.reports[-1].reason
    stage.gazebo.attaches = True  # an order that was late
    stage.gazebo.take_order("red_box", True)
    for _ in range(10):
        stage.step()
    assert not stage.gazebo.attached
    assert stage.port.read(0.0).held is None


def test_orders_that_are_lost_are_repeated():
    stage = stage_of()
    for _ in range(10):
        stage.step()
    orders = []

    def lose(name, attach):
        orders.append(attach)
        if len(orders) % 5 == 0:
            stage.gazebo.take_order(name, attach)

    stage.port._gripper._order = lose
    executor = stage.run("pick(red_box);place(red_box,blue_box);")
    assert executor.state is ExecutorState.DONE, stage.reports
    assert {True, False} == set(orders)


def test_joints_that_do_not_follow_stop_the_arm():
    stage = stage_of()

    def jam(stage):
        stage.gazebo.jams = stage.clock.now_s() > 2.0

    executor = stage.run("move_to(bin);", at=jam)
    assert executor.state is ExecutorState.FAILED
    assert "in the arm's way" in stage.reports[-1].reason
    stood = stage.gazebo.joints.copy()
    stage.gazebo.jams = False
    for _ in range(50):
        stage.step()
    assert abs(stage.gazebo.joints - stood).max() < 1e-6  # it holds where it stands


def test_without_joint_states_the_arm_brakes_and_the_skill_fails():
    stage = stage_of()

    def mute(stage):
        stage.is_connected = stage.clock.now_s() < 2.5

    executor = stage.run("move_to(bin);", at=mute)
    assert executor.state is ExecutorState.FAILED
    assert "nothing is received from the robot's body" in stage.reports[-1].reason
    assert stage.clock.now_s() < 2.5 + JOINT_STATES_TIMEOUT_S + 0.1
    assert stage.trajectories[-1][-1].after_s < 1.0  # the last that it was told is to brake
    for _ in range(60):
        stage.step()
    still = stage.gazebo.joints.copy()
    stage.step()
    assert (stage.gazebo.joints == still).all()
    stage.reports.clear()
    assert stage.run("home();").state is ExecutorState.FAILED
    stage.is_connected = True
    stage.step()
    assert stage.run("home();").state is ExecutorState.DONE, stage.reports


def test_an_arm_that_never_reported_is_not_moved():
    stage = stage_of(is_connected=False)
    executor = stage.run("home();")
    assert executor.state is ExecutorState.FAILED
    assert not stage.trajectories
    stage.port.stop()
    assert not stage.trajectories


def test_a_gazebo_that_runs_slowly_is_not_taken_for_a_blocked_arm():
    stage = stage_of()
    stage.gazebo.rate = 0.6
    assert stage.run("move_to(bin);").state is ExecutorState.DONE, stage.reports


def test_orders_that_are_late_are_not_taken_for_a_blocked_arm():
    stage, waiting = stage_of(), []
    take = stage.gazebo.take_trajectory
    stage.gazebo.take_trajectory = lambda points: waiting.append((stage.clock.now_s() + 0.3, points))

    def deliver(stage):
        while waiting and waiting[0][0] <= stage.clock.now_s():
            take(waiting.pop(0)[1])

    executor = stage.run("pick(red_box);place(red_box,blue_box);", at=deliver)
    assert executor.state is ExecutorState.DONE, stage.reports


def test_a_stop_in_mid_motion_brakes_without_a_jerk():
    stage = stage_of()
    stage.run("move_to(bin);", until_s=2.0)
    stage.port.stop()
    rates = [np.array(point.velocities) for point in stage.trajectories[-1]]
    assert np.linalg.norm(rates[0]) > 0.05
    assert np.linalg.norm(rates[-1]) == 0.0
    for _ in range(60):
        stage.step()
    assert stage.port.read(0.0).is_settled
    still = Brake(1.0, np.ones(2), np.zeros(2), 1.0)
    assert still.end_s == 1.0
    assert still.at(5.0)[0].tolist() == [1.0, 1.0]


def test_a_gazebo_that_restarts_is_obeyed_again():
    stage = stage_of()
    stage.run("pick(red_box);")
    stage.gazebo = GazeboArm(stage.home, TABLE.things)
    stage.port._gripper._order = stage.gazebo.take_order
    for _ in range(20):
        stage.step()
    assert set(stage.gazebo.attached) == {"red_box"}  # what it held, it goes on holding
    assert stage.port.read(0.0).is_settled


def test_garbage_is_ignored():
    stage = stage_of()
    before = stage.port.read(0.0)
    stage.port.note_joints(5.0, {"joint0": math.nan})
    stage.port.note_joints(math.nan, {joint.name: 1.0 for joint in INDY7.body.joints})
    stage.port.note_place("red_box", (math.nan, 0.0, 0.0), 0.0)
    stage.port.note_place("moon", (0.0, 0.0, 0.0), 0.0)
    stage.port.note_grip("moon", is_attached=True)
    assert stage.port.read(0.0) == before
    assert all(math.isfinite(x) for thing in stage.port.look() for x in thing.position_m)
    with pytest.raises(PlannerError, match="finite"):
        stage.port.enter((), Pose(x_m=math.nan))
