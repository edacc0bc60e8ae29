# SPDX-License-Identifier: Apache-2.0
"""The Indy7's geometry and driver, against an arm that only exists here."""

import math
import random
import threading
from dataclasses import replace

import pytest

from llm_planner import robot_connection
from llm_planner.core.clock import ManualClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.skill import SkillCall
from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.drivers.indy7 import (
    CHECK_GRIPPER,
    GRIP_S,
    LOST,
    UNKNOWN,
    UNKNOWN_HAND,
    Indy7Driver,
    speed_percent,
)
from llm_planner.robots.drivers.indy7_kinematics import LIMITS_DEG, Indy7Kinematics
from llm_planner.robots.drivers.indy7_neuromeka import IDLE, MOST_CALLS, MOVING, NeuromekaPort
from llm_planner.robots.model import SpeedLimits
from llm_planner.robots.timing import Parameter, Source
from llm_planner.robots.world import ObjectRole, World, WorldObject
from tests.robots.builders import HOME_DEG, LIBRARY, table
from tests.robots.loopback import wait_until

KINEMATICS = Indy7Kinematics()


class FakePort:
    """An ``ArmPort`` that appears after a number of looks."""

    def __init__(self, num_looks=3):
        self.joints, self.target, self.num_looks = HOME_DEG, None, num_looks
        self.left, self.failure, self.orders = 0, "", []
        self.is_deaf = False

    def joints_deg(self):
        return self.joints

    def move(self, joints_deg):
        self.target, self.left = joints_deg, self.num_looks
        self.orders.append(KINEMATICS.position_m(joints_deg))

    def ending(self):
        self.left -= 1
        if self.left > 0 or self.is_deaf:
            return None
        if self.target and not self.failure:
            self.joints, self.target = self.target, None
        return self.failure

    def stop(self):
        self.orders.append("stop")
        self.target, self.left = None, 1

    def close(self):
        self.orders.append("closed")


class FakeGrippingPort(FakePort):
    """The same of an arm with a gripper."""

    is_gripper_deaf = False

    def grip_ending(self):
        return None if self.is_gripper_deaf else self.failure

    def grip(self, *, is_open):
        self.orders.append("open" if is_open else "close")


class Arm:
    def __init__(self, port=None):
        self.port = port or FakeGrippingPort()
        self.driver = Indy7Driver(LIBRARY.get("indy7"), self.port, KINEMATICS)
        self.driver.enter(table())
        self.now_s = 0.0
        if isinstance(self.port, FakeGrippingPort):
            self.do("open")  # before that it grasps nothing
            self.port.orders.clear()

    def do_until(self, is_met, name, *arguments):
        """Begins a call, and goes on until the port has its orders."""
        self.driver.start(SkillCall(name, arguments), self.now_s)
        while not is_met(self.port.orders):
            assert self.driver.tick(self.now_s).status is SkillStatus.RUNNING
            self.now_s += 0.1

    def do(self, name, *arguments):
        self.driver.start(SkillCall(name, arguments), self.now_s)
        return self.do_on()

    def do_on(self):
        while (result := self.driver.tick(self.now_s)).status is SkillStatus.RUNNING:
            self.now_s += 0.1
            assert self.now_s < 200.0
        return result


def test_the_links_add_up_to_the_data_sheet():
    assert KINEMATICS.position_m((0.0,) * 6)[2] == pytest.approx(0.2995 + 0.450 + 0.350 + 0.228)
    assert Indy7Kinematics(0.1).position_m((0.0,) * 6)[2] == pytest.approx(1.4275)
    assert list(KINEMATICS.tool(HOME_DEG)[:3, 2]) == pytest.approx([0.0, 0.0, -1.0], abs=1e-9)
    assert KINEMATICS.position_m((90.0, *HOME_DEG[1:]))[1] == pytest.approx(0.35)


@pytest.mark.parametrize("point", [(0.35, 0.0, 0.45), (0.5, 0.1, 0.05), (0.4, -0.4, 0.1), (0.25, 0.3, 0.3)])
def test_joints_bring_the_tool_there_from_above(point):
    joints = KINEMATICS.joints(point, HOME_DEG)
    assert KINEMATICS.position_m(joints) == pytest.approx(point, abs=1e-3)
    assert KINEMATICS.tool(joints)[2, 2] == pytest.approx(-1.0, abs=1e-3)
    assert all(abs(angle) <= limit for angle, limit in zip(joints, LIMITS_DEG, strict=True))


def test_what_is_out_of_reach_has_no_joints():
    assert KINEMATICS.joints((1.2, 0.0, 0.1), HOME_DEG) is None


def test_picks_and_places_from_above():
    arm = Arm()
    assert arm.do("pick", "red_box").status is SkillStatus.SUCCEEDED
    assert arm.driver.state.held == "red_box"
    assert arm.do("place", "red_box", "blue_box").status is SkillStatus.SUCCEEDED
    assert arm.driver.world.is_on("red_box", "blue_box")
    words = [order if isinstance(order, str) else round(order[2], 3) for order in arm.port.orders]
    assert words == ["open", 0.15, 0.025, "close", 0.15, 0.2, 0.075, "open", 0.2]


def test_the_tool_stays_in_the_workspace_all_the_way():
    """Of the third motion, the direct one would pass 3 cm outside: joints that move together draw an arc."""
    kinematics, rng, things = Indy7Kinematics(0.14), random.Random(32), []
    for number in range(12):
        reach, angle, z = rng.uniform(0.15, 0.8), rng.uniform(-math.pi, math.pi), rng.uniform(0.0, 0.3)
        position = (reach * math.cos(angle), reach * math.sin(angle), z - 0.125)  # the tool goes 0.1 m over its top
        things.append(WorldObject(name=f"thing_{number}", position_m=position))
    port = FakePort()
    driver = Indy7Driver(LIBRARY.get("indy7"), port, kinematics)
    driver.enter(World(things))
    workspace, now_s, num_moved = driver.model.workspace, 0.0, 0
    for thing in things:
        driver.start(SkillCall("move_to", (thing.name,)), now_s)
        before = port.joints
        while driver.tick(now_s).status is SkillStatus.RUNNING:
            if port.joints != before:
                num_moved += 1
                for step in range(50):
                    joints = [a + step / 50 * (b - a) for a, b in zip(before, port.joints, strict=True)]
                    assert workspace.excess_m(kinematics.position_m(joints)) < 0.006
                before = port.joints
            now_s += 0.1
    assert num_moved > 8


def test_a_grasp_at_the_top_of_the_workspace_does_not_leave_it():
    arm = Arm()
    low = replace(arm.driver.model, workspace=replace(arm.driver.model.workspace, z_m=(0.0, 0.5)))
    arm.driver = Indy7Driver(low, arm.port, KINEMATICS)
    arm.driver.enter(table(WorldObject(name="lamp", position_m=(0.45, 0.0, 0.45))))
    assert arm.do("open").status is SkillStatus.SUCCEEDED
    assert arm.do("pick", "lamp").status is SkillStatus.SUCCEEDED
    assert max(order[2] for order in arm.port.orders if not isinstance(order, str)) < 0.502


def test_what_is_placed_in_a_container_comes_over_its_rim():
    arm = Arm()
    tall = WorldObject(name="box", position_m=(0.45, 0.3, 0.125), size_m=(0.2, 0.2, 0.25), role=ObjectRole.CONTAINER)
    bottle = WorldObject(name="bottle", position_m=(0.45, -0.2, 0.1), size_m=(0.06, 0.06, 0.2))
    arm.driver.enter(World([tall, bottle]))
    assert arm.do("pick", "bottle").status is SkillStatus.SUCCEEDED
    assert arm.do("place", "bottle", "box").status is SkillStatus.SUCCEEDED
    assert arm.do("pick", "bottle").status is SkillStatus.SUCCEEDED
    heights = [order if isinstance(order, str) else round(order[2], 3) for order in arm.port.orders]
    there, again = ["open", 0.3, 0.1, "close", 0.3, 0.45, 0.1, "open", 0.45], ["open", 0.45, 0.1, "close", 0.45]
    assert heights == [*there, *again[:1], *again[2:]]  # it is there already


def test_nothing_is_placed_where_the_workspace_ends_below_the_rim():
    arm = Arm()
    low = replace(arm.driver.model, workspace=replace(arm.driver.model.workspace, z_m=(0.0, 0.5)))
    arm.driver = Indy7Driver(low, arm.port, KINEMATICS)
    tall = WorldObject(name="box", position_m=(0.45, 0.3, 0.225), size_m=(0.2, 0.2, 0.45), role=ObjectRole.CONTAINER)
    arm.driver.enter(World([tall, WorldObject(name="cup", position_m=(0.45, -0.2, 0.04), size_m=(0.06, 0.06, 0.08))]))
    arm.do("open")
    assert arm.do("pick", "cup").status is SkillStatus.SUCCEEDED
    result = arm.do("place", "cup", "box")
    assert (result.status, result.reason) == (
        SkillStatus.FAILED,
        "there is no room over box: the workspace ends at 0.5 m",
    )
    assert arm.driver.state.held == "cup"


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (("pick", "unicorn"), "unicorn is not visible"),
        (("place", "red_box", "bin"), "nothing is held"),
        (("push", "red_box", "left_area"), "this driver cannot push"),
        (("wait", 99.0), "wait: time = 99 is outside"),
        (("dance",), "there is no skill dance"),
    ],
)
def test_refuses_before_anything_moves(call, reason):
    arm = Arm()
    assert reason in arm.do(*call).reason
    assert arm.port.orders == []


def test_without_a_gripper_nothing_is_grasped():
    arm = Arm(FakePort())
    assert arm.do("pick", "red_box").reason == arm.do("open").reason == "this driver knows no gripper"
    assert arm.do("move_to", "bin").status is SkillStatus.SUCCEEDED


def test_what_a_gripper_may_hold_since_before_its_node_began_is_not_let_fall_by_a_pick():
    arm = Arm()
    arm.driver = Indy7Driver(LIBRARY.get("indy7"), arm.port, KINEMATICS)  # its node was started again
    arm.driver.enter(table())
    refused = arm.do("pick", "red_box")
    assert (refused.reason, refused.is_permanent, arm.port.orders) == (UNKNOWN_HAND, True, [])
    assert arm.do("move_to", "bin").status is arm.do("close").status is SkillStatus.SUCCEEDED
    assert arm.do("pick", "red_box").reason == UNKNOWN_HAND  # closed fingers may hold something
    assert arm.do("open").status is arm.do("pick", "red_box").status is SkillStatus.SUCCEEDED


class SlowKinematics:
    """Counts its searches; from home, the first ones find nothing."""

    def __init__(self, num_failures):
        self.num_failures, self.num_searches = num_failures, 0

    def position_m(self, joints):
        return KINEMATICS.position_m(joints)

    def joints(self, point_m, near):
        self.num_searches += 1
        return None if self.num_searches <= self.num_failures else KINEMATICS.joints(point_m, near)


@pytest.mark.parametrize("num_failures", [0, 3, 10**6])
def test_a_way_is_searched_one_leg_a_tick_so_that_a_stop_comes_in_between(num_failures):
    port, kinematics = FakePort(), SlowKinematics(num_failures)
    driver = Indy7Driver(LIBRARY.get("indy7"), port, kinematics)
    driver.enter(table())
    driver.start(SkillCall("move_to", ("bin",)), 0.0)
    for tick in range(100):
        before = kinematics.num_searches
        result = driver.tick(0.02 * tick)
        assert kinematics.num_searches <= before + 1
        if result.status is not SkillStatus.RUNNING:
            break
    assert kinematics.num_searches > min(num_failures, 5)
    assert ("cannot reach" in result.reason) == (num_failures > 3)


def test_a_search_that_is_halted_moves_nothing():
    port, kinematics = FakePort(), SlowKinematics(10**6)
    driver = Indy7Driver(LIBRARY.get("indy7"), port, kinematics)
    driver.enter(table())
    driver.start(SkillCall("move_to", ("bin",)), 0.0)
    while kinematics.num_searches < 3:
        driver.tick(0.1)
    driver.halt(0.2)
    driver.start(SkillCall("stop"), 0.2)
    while driver.tick(0.3).status is SkillStatus.RUNNING:
        pass
    driver.start(SkillCall("wait", (0.5,)), 0.4)
    assert driver.tick(2.0).status is SkillStatus.SUCCEEDED
    assert (kinematics.num_searches, port.orders) == (3, ["stop", "stop"])


def test_what_the_controller_says_ends_the_call():
    arm = Arm()
    arm.port.failure = "it has collided"
    assert arm.do("home").reason == "it has collided"


def test_an_arm_that_does_not_arrive_is_stopped():
    arm = Arm(FakeGrippingPort(num_looks=10**6))
    assert "takes too long" in arm.do("move_to", "bin").reason
    assert arm.port.orders[-1] == "stop"


def test_halt_and_stop_go_past_everything():
    arm = Arm()
    arm.driver.start(SkillCall("move_to", ("bin",)), 0.0)
    arm.driver.tick(0.1)
    arm.driver.halt(0.2)
    assert arm.port.orders[-1] == "stop"
    assert arm.do("stop").status is SkillStatus.SUCCEEDED
    assert arm.do("wait", 0.5).status is SkillStatus.SUCCEEDED


def test_an_arm_that_is_not_known_to_have_stopped_moves_no_more_but_lets_go():
    arm = Arm()
    arm.do_until(len, "move_to", "bin")
    arm.driver.halt(arm.now_s)
    arm.port.is_deaf = True
    assert arm.do("stop").reason == LOST
    orders = list(arm.port.orders)
    refused = arm.do("home")
    assert (refused.reason, refused.is_permanent, arm.port.orders) == (LOST, True, orders)
    assert arm.do("open").status is SkillStatus.SUCCEEDED
    assert arm.port.orders == [*orders, "open"]
    assert arm.do("home").reason == LOST
    arm.port.is_deaf = False
    assert arm.do("stop").status is arm.do("home").status is SkillStatus.SUCCEEDED


def test_it_lets_go_at_once_while_a_stop_is_not_confirmed():
    arm = Arm()
    arm.do_until(len, "move_to", "bin")
    arm.driver.halt(arm.now_s)
    arm.port.is_deaf = True
    arm.driver.start(SkillCall("open"), arm.now_s)
    assert arm.port.orders[-2:] == ["stop", "open"]
    begin_s = arm.now_s
    assert arm.do_on().status is SkillStatus.SUCCEEDED
    assert arm.now_s - begin_s < 2.0 * GRIP_S


def test_a_call_waits_until_the_arm_has_stopped():
    arm = Arm()
    arm.do_until(len, "move_to", "bin")
    arm.driver.halt(arm.now_s)
    arm.port.is_deaf, orders = True, list(arm.port.orders)
    arm.driver.start(SkillCall("move_to", ("red_box",)), arm.now_s)
    for step in range(20):
        assert arm.driver.tick(arm.now_s + 0.1 * step).status is SkillStatus.RUNNING
    assert arm.port.orders == orders
    arm.port.is_deaf = False
    assert arm.do_on().status is SkillStatus.SUCCEEDED


@pytest.mark.parametrize(
    ("skill", "word", "held"),
    [(("pick", "red_box"), "close", "red_box"), (("place", "red_box", "bin"), "open", None), (("open",), "open", None)],
)
def test_an_arm_that_is_halted_behind_a_grip_knows_what_it_holds(skill, word, held):
    arm = Arm()
    if held is None:
        arm.do("pick", "red_box")
    arm.port.orders.clear()
    arm.do_until(lambda orders: word in orders, *skill)
    arm.driver.tick(arm.now_s)
    arm.driver.tick(arm.now_s + GRIP_S)
    arm.driver.halt(arm.now_s + GRIP_S)
    assert arm.driver.state.held == held
    assert arm.do("home").status is SkillStatus.SUCCEEDED
    assert (arm.driver.world.objects["red_box"].position_m[2] > 0.3) == (held is not None)


@pytest.mark.parametrize("is_halted", [True, False])
def test_after_an_order_to_the_gripper_that_was_cut_short_it_only_opens(is_halted):
    arm = Arm()
    arm.do_until(lambda orders: "close" in orders, "pick", "red_box")
    if is_halted:
        arm.driver.halt(arm.now_s)
    else:
        arm.port.failure = "no route"
        assert arm.do_on().reason == "no route"
        arm.port.failure = ""
    orders = list(arm.port.orders)
    assert arm.do("home").reason == CHECK_GRIPPER
    assert arm.do("wait", 0.5).status is SkillStatus.SUCCEEDED
    assert arm.do("pick", "red_box").reason == CHECK_GRIPPER
    assert arm.port.orders == orders
    assert arm.do("close").status is SkillStatus.SUCCEEDED
    assert arm.do("home").reason == CHECK_GRIPPER
    assert arm.do("open").status is arm.do("home").status is SkillStatus.SUCCEEDED


@pytest.mark.parametrize("world", [table(), World()])
def test_what_it_holds_stays_in_its_fingers_when_the_world_changes(world):
    arm = Arm()
    arm.do("pick", "red_box")
    arm.do("home")
    arm.driver.enter(World([*world.objects.values(), WorldObject(name="cup", position_m=(0.4, 0.2, 0.025))]))
    arm.port.orders.clear()
    assert arm.do("pick", "cup").reason == "the hand is full: it holds red_box"
    assert arm.port.orders == []
    assert arm.driver.world.objects["red_box"].position_m[2] == pytest.approx(0.45, abs=1e-3)
    assert arm.do("place", "red_box", "cup").status is SkillStatus.SUCCEEDED
    assert arm.driver.state.held is None


def test_the_time_of_the_fingers_counts_from_when_the_order_has_left():
    arm = Arm()
    arm.do_until(len, "close")
    arm.port.is_gripper_deaf = True
    arm.driver.tick(arm.now_s + GRIP_S)
    arm.port.is_gripper_deaf = False
    left_s = arm.now_s + 2.0 * GRIP_S
    arm.driver.tick(left_s)
    assert arm.driver.tick(left_s + 0.9 * GRIP_S).status is SkillStatus.RUNNING
    arm.driver.tick(left_s + GRIP_S)
    assert arm.driver.tick(left_s + 5.0 * GRIP_S).status is SkillStatus.SUCCEEDED


@pytest.mark.parametrize("num_ticks", [0, 1])
def test_nothing_moves_while_it_is_unknown_where_the_arm_is(num_ticks):
    arm = Arm()
    pose = arm.driver.state.pose
    arm.driver.start(SkillCall("move_to", ("bin",)), 0.0)
    for _ in range(num_ticks):
        arm.driver.tick(0.1)
    arm.port.joints = None
    assert arm.do_on().reason == UNKNOWN
    assert arm.port.orders == []
    assert arm.driver.state.pose == pose


def test_a_target_where_it_is_already_is_not_sent():
    arm = Arm()
    arm.do("home")
    count = len(arm.port.orders)
    assert arm.do("home").status is SkillStatus.SUCCEEDED
    assert len(arm.port.orders) == count


class FakeDcp3:
    """What is used of neuromeka's client."""

    def __init__(self):
        self.orders, self.state, self.is_mute = [], IDLE, False

    def get_robot_data(self):
        self._answer()
        return {"q": list(HOME_DEG), "op_state": self.state}

    def movej(self, jtarget, *, vel_ratio):
        self._answer()
        self.orders.append(("movej", vel_ratio))
        self.state = MOVING

    def stop_motion(self):
        self._answer()
        self.orders.append(("stop",))
        self.state = IDLE

    def set_do(self, do_signal_list):
        self._answer()
        self.orders.append(("set_do", *do_signal_list))

    def _answer(self):
        if self.is_mute:
            raise ConnectionError("no route")


@pytest.fixture
def dcp3():
    return FakeDcp3()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def port(dcp3, clock):
    opened = NeuromekaPort(dcp3, speed_percent=20, clock=clock)
    wait_until(lambda: opened.ending() == "")  # it begins with a stop
    dcp3.orders.clear()
    yield opened
    opened.close()


def test_neuromeka_stops_what_an_arm_does_that_it_finds_moving(dcp3, clock):
    dcp3.state = MOVING  # ordered by a node that has crashed
    port = NeuromekaPort(dcp3, speed_percent=20, clock=clock)
    driver = Indy7Driver(LIBRARY.get("indy7"), port, KINEMATICS)
    driver.enter(table())
    driver.start(SkillCall("move_to", ("bin",)), 0.0)
    wait_until(lambda: driver.tick(0.1) and ("movej", 20) in dcp3.orders)
    assert dcp3.orders == [("stop",), ("movej", 20)]
    port.close()


def test_neuromeka_moves_at_its_speed_and_tells_when_it_is_over(dcp3, port):
    assert port.joints_deg() == HOME_DEG
    port.move((0.0,) * 6)
    assert port.ending() is None
    wait_until(lambda: dcp3.orders == [("movej", 20)])
    dcp3.state = IDLE
    wait_until(lambda: port.ending() == "")
    port.grip(is_open=False)
    wait_until(lambda: dcp3.orders[-1] == ("set_do", (0, True)))


def test_neuromeka_stops_a_motion_and_names_a_collision(dcp3, port):
    port.move((0.0,) * 6)
    wait_until(lambda: dcp3.state == MOVING)
    port.stop()
    wait_until(lambda: port.ending() == "" and ("stop",) in dcp3.orders)
    port.move((1.0,) * 6)
    wait_until(lambda: dcp3.state == MOVING)
    dcp3.state = 8
    wait_until(lambda: port.ending() == "it has collided")


def test_neuromeka_that_does_not_take_a_stop_is_told_until_it_does(dcp3, port):
    driver = Indy7Driver(LIBRARY.get("indy7"), port, KINEMATICS)
    driver.enter(table())
    driver.start(SkillCall("move_to", ("bin",)), 0.0)
    wait_until(lambda: driver.tick(0.1) and dcp3.state == MOVING)
    dcp3.is_mute = True
    wait_until(lambda: "no route" in driver.tick(0.2).reason)
    driver.start(SkillCall("stop"), 0.3)
    assert driver.tick(0.4).status is SkillStatus.RUNNING
    assert driver.tick(9.0).reason == LOST
    dcp3.is_mute = False
    wait_until(lambda: dcp3.state == IDLE)
    driver.start(SkillCall("stop"), 9.0)
    wait_until(lambda: driver.tick(9.1).status is SkillStatus.SUCCEEDED)


def test_neuromeka_has_stopped_once_it_is_seen_not_to_move(dcp3, port):
    dcp3.state = MOVING  # of a motion that has failed
    is_taken, num_asked, ask = threading.Event(), [], dcp3.get_robot_data
    dcp3.get_robot_data = lambda: num_asked.append(is_taken.is_set()) or ask()
    dcp3.stop_motion = is_taken.set
    port.stop()
    wait_until(lambda: sum(num_asked) > 3)
    assert port.ending() is None
    dcp3.state = IDLE
    wait_until(lambda: port.ending() == "")


@pytest.mark.parametrize("is_answered", [True, False])
def test_neuromeka_is_stopped_again_where_a_stop_overtook_the_order(dcp3, port, is_answered):
    stopped = threading.Event()

    def movej(_target, *, vel_ratio):
        dcp3.state = 0
        assert stopped.wait(20.0)
        dcp3.state = MOVING
        if not is_answered:
            raise ConnectionError("no route")

    dcp3.movej = movej
    port.move((0.0,) * 6)
    wait_until(lambda: dcp3.state == 0)
    port.stop()
    wait_until(lambda: dcp3.orders == [("stop",)])
    stopped.set()
    wait_until(lambda: dcp3.orders == [("stop",)] * 2)
    wait_until(lambda: port.ending() == "")
    assert dcp3.state == IDLE


def test_neuromeka_tells_that_the_gripper_got_no_order(dcp3, port):
    dcp3.is_mute = True
    port.grip(is_open=False)
    wait_until(port.grip_ending)
    assert "no route" in port.grip_ending()


def test_neuromeka_opens_the_gripper_past_a_question_and_a_stop_without_an_answer(dcp3, port):
    goes_on, num_waiting, stop, ask = threading.Event(), [], dcp3.stop_motion, dcp3.get_robot_data

    def hang(then):
        num_waiting.append(1)
        goes_on.wait(20.0)
        return then()

    dcp3.get_robot_data, dcp3.stop_motion = lambda: hang(ask), lambda: hang(stop)
    port.stop()
    wait_until(lambda: len(num_waiting) == 2)
    port.grip(is_open=True)
    wait_until(lambda: port.grip_ending() == "")
    assert dcp3.orders == [("set_do", (0, False))]
    assert port.ending() is None
    goes_on.set()
    wait_until(lambda: port.ending() == "")
    assert dcp3.orders[1:] == [("stop",)]


@pytest.mark.parametrize("kind", ["stop", "grip"])
def test_neuromeka_that_answers_nothing_keeps_no_more_than_a_few_threads(dcp3, port, kind):
    goes_on, before, stop, set_do = threading.Event(), set(threading.enumerate()), dcp3.stop_motion, dcp3.set_do
    dcp3.stop_motion = lambda: goes_on.wait(20.0) and stop()
    dcp3.set_do = lambda signals: goes_on.wait(20.0) and set_do(signals)
    for number in range(3 * MOST_CALLS):
        if kind == "stop":
            port.stop()
        else:
            port.grip(is_open=number % 2 == 0)
    assert len(set(threading.enumerate()) - before) == MOST_CALLS
    goes_on.set()
    wait_until(lambda: port.ending() == port.grip_ending() == "")
    wait_until(lambda: not set(threading.enumerate()) - before)
    assert dcp3.orders[-1] == (("stop",) if kind == "stop" else ("set_do", (0, True)))  # the last was to close


@pytest.mark.parametrize("is_answered", [True, False])
def test_neuromeka_opens_again_where_opening_overtook_the_order_to_close(dcp3, port, is_answered):
    is_closing, goes_on, set_do = threading.Event(), threading.Event(), dcp3.set_do

    def late(signals):
        if signals == [(0, True)]:
            is_closing.set()
            goes_on.wait(20.0)
            if not is_answered:
                raise ConnectionError("no route")
        set_do(signals)

    dcp3.set_do = late
    port.grip(is_open=False)
    assert is_closing.wait(20.0)
    port.grip(is_open=True)
    wait_until(lambda: port.grip_ending() == "")
    count = len(dcp3.orders)
    goes_on.set()
    wait_until(lambda: len(dcp3.orders) == count + 1 + is_answered)
    assert dcp3.orders[-1] == ("set_do", (0, False))
    assert port.grip_ending() == ""


def test_where_neuromekas_joints_are_is_unknown_once_it_answers_no_more(dcp3, port, clock):
    dcp3.is_mute = True
    clock.advance(0.9)
    assert port.joints_deg() == HOME_DEG
    clock.advance(0.2)
    assert port.joints_deg() is None
    dcp3.is_mute = False
    wait_until(lambda: port.joints_deg() == HOME_DEG)


def test_neuromeka_that_breaks_off_fails_the_motion(dcp3, port):
    port.move((0.0,) * 6)
    wait_until(lambda: dcp3.state == MOVING)
    dcp3.is_mute = True
    wait_until(port.ending)
    assert "no route" in port.ending()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"q": None, "op_state": IDLE},
        {"q": [0.0] * 5, "op_state": IDLE},
        {"q": [math.nan] * 6, "op_state": IDLE},
        {"q": [math.inf] * 6, "op_state": IDLE},
        {"q": ["up"] * 6, "op_state": IDLE},
        {"q": list(HOME_DEG), "op_state": "idle"},
        [],
    ],
)
def test_neuromeka_that_makes_no_sense_fails_the_motion_and_moves_no_belief(dcp3, port, data):
    port.move((0.0,) * 6)
    wait_until(lambda: dcp3.state == MOVING)
    dcp3.get_robot_data = lambda: data
    wait_until(port.ending)
    assert "does not answer" in port.ending()
    assert port.joints_deg() == HOME_DEG


def test_neuromeka_that_never_answers_is_refused(dcp3):
    dcp3.is_mute = True
    with pytest.raises(PlannerError, match="does not answer"):
        NeuromekaPort(dcp3, speed_percent=25, timeout_s=0.2)


def indy7(*, share=0.25, m_per_s=0.5, deg_per_s=37.5, tool_m=0.2, source=Source.ASSUMED, has_body=True):
    """The model of an Indy7 with other speeds or another gripper; all skills take as long as a stop."""
    model = LIBRARY.get("indy7")
    tool = replace(model.body.tool, length_m=Parameter(value=tool_m, source=source))
    body = replace(model.body, speed_share=Parameter(value=share, source=source), tool=tool)
    duration = model.skills["stop"].duration
    return replace(
        model,
        skills={name: replace(skill, duration=duration) for name, skill in model.skills.items()},
        speed_limits=SpeedLimits(translation_m_per_s=m_per_s, rotation_deg_per_s=deg_per_s),
        body=body if has_body else None,
    )


@pytest.mark.parametrize(
    ("fields", "percent"),
    [
        ({}, 25),
        ({"share": 0.29, "m_per_s": 1.0, "deg_per_s": 100.0}, 25),
        ({"share": 0.05}, 5),
        ({"share": 0.058}, 5),
        ({"m_per_s": 0.1}, 5),
        ({"share": 0.1, "deg_per_s": 15.0}, 10),
        ({"deg_per_s": 7.5, "has_body": False}, 5),
        ({"has_body": False}, 25),
        ({"share": 0.009}, 0),
    ],
)
def test_a_real_arm_moves_no_faster_than_its_model(fields, percent):
    assert speed_percent(indy7(**fields)) == percent


def connect(monkeypatch, model, tool_length_m):
    """Returns the connection's driver, and what its port was opened with."""
    opened = []
    monkeypatch.setattr(robot_connection, "open_indy7", lambda *words: opened.append(words) or FakeGrippingPort())
    settings = robot_connection.DriverSettings(name="indy7", address="192.168.0.10", tool_length_m=tool_length_m)
    robot = robot_connection.connect(model, settings, ManualClock())
    return robot.enter(World(), None, 0.0), opened


@pytest.mark.parametrize(
    ("fields", "given_m", "length_m"),
    [({}, 0.15, 0.15), ({"source": Source.MEASURED}, 0.0, 0.14), ({"source": Source.MEASURED}, 0.1, 0.1)],
)
def test_the_length_of_a_real_gripper_is_as_set_or_as_the_model_knows(monkeypatch, fields, given_m, length_m):
    driver, opened = connect(monkeypatch, indy7(**fields, share=0.2), given_m)
    assert opened == [("192.168.0.10", 20)]
    assert driver.state.pose.z_m == pytest.approx(KINEMATICS.position_m(HOME_DEG)[2] - length_m)


@pytest.mark.parametrize(
    ("fields", "given_m", "words"),
    [
        ({}, 0.0, "set tool_length_m"),
        ({"has_body": False}, 0.0, "set tool_length_m"),
        ({"source": Source.MEASURED, "tool_m": 0.05}, 0.0, "set tool_length_m"),
        ({"share": 0.009}, 0.15, "less than 1 %"),
    ],
)
def test_an_arm_of_which_too_little_is_known_is_not_connected(monkeypatch, fields, given_m, words):
    with pytest.raises(PlannerError, match=words) as caught:
        connect(monkeypatch, indy7(**fields), given_m)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
