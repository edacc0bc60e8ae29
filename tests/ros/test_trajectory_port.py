# SPDX-License-Identifier: Apache-2.0
"""The port to Neuromeka's ROS 2 driver, against an action client that only exists here."""

import importlib.util
import math
from types import SimpleNamespace

import pytest
from rclpy.parameter import Parameter

from llm_planner.core.clock import ManualClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.drivers.indy7_kinematics import JOINTS
from llm_planner.ros.robot_node import RobotNode
from llm_planner.ros.trajectory_port import TrajectoryPort

pytestmark = pytest.mark.ros


class Future:
    def __init__(self):
        self.callbacks, self.value = [], None

    def add_done_callback(self, callback):
        self.callbacks.append(callback)

    def set(self, value):
        self.value = value
        for callback in self.callbacks:
            callback(self)

    def result(self):
        return self.value


class Client:
    """An action client, and the goal that was sent last."""

    def __init__(self):
        self.is_ready, self.goals, self.accepted, self.finished, self.num_cancels = True, [], None, None, 0

    def server_is_ready(self):
        return self.is_ready

    def send_goal_async(self, goal):
        self.goals.append(goal)
        self.accepted, self.finished = Future(), Future()
        return self.accepted

    def accept(self, is_accepted=True):
        self.accepted.set(
            SimpleNamespace(
                accepted=is_accepted, get_result_async=lambda: self.finished, cancel_goal_async=self._cancel
            )
        )

    def finish(self, error_code=0, error_string=""):
        self.finished.set(SimpleNamespace(result=SimpleNamespace(error_code=error_code, error_string=error_string)))

    def _cancel(self):
        self.num_cancels += 1


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def port(client, clock):
    return TrajectoryPort(client, lambda positions: positions, lambda call: call(), clock)


def test_a_motion_is_one_point_in_radians_and_ends_with_the_result(client, port):
    port.move((90.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    assert client.goals == [[math.pi / 2, 0.0, 0.0, 0.0, 0.0, 0.0]]
    client.accept()
    assert port.ending() is None
    client.finish()
    assert port.ending() == ""


def test_joints_are_sorted_by_name_and_strangers_ignored(port):
    port.note_joints(["joint0"], [1.0])
    assert port.joints_deg() is None
    port.note_joints(list(JOINTS), [math.nan] * 6)
    assert port.joints_deg() is None
    port.note_joints([*reversed(JOINTS), "finger"], [math.pi, 0.0, 0.0, 0.0, 0.0, math.pi / 2, 7.0])
    assert port.joints_deg() == pytest.approx((90.0, 0.0, 0.0, 0.0, 0.0, 180.0))


def test_where_the_joints_are_is_unknown_once_their_states_stay_away(port, clock):
    port.note_joints(list(JOINTS), [0.0] * 6)
    clock.advance(0.9)
    assert port.joints_deg() == (0.0,) * 6
    clock.advance(0.2)
    assert port.joints_deg() is None
    port.note_joints(list(JOINTS), [0.0] * 6)
    assert port.joints_deg() == (0.0,) * 6


@pytest.mark.parametrize("is_accepted_first", [True, False])
def test_a_stop_cancels_whether_the_goal_is_accepted_yet_or_not(client, port, is_accepted_first):
    port.move((1.0,) * 6)
    if is_accepted_first:
        client.accept()
    port.stop()
    if not is_accepted_first:
        client.accept()
    assert client.num_cancels == 1
    client.finish()
    assert port.ending() == "the motion was stopped"


def test_refusals_and_failures_are_named(client, port):
    port.move((1.0,) * 6)
    client.accept(is_accepted=False)
    assert port.ending() == "the arm's driver refuses the motion"
    port.move((1.0,) * 6)
    client.accept()
    client.finish(-2, "ROBOT IS IN COLLISION STATE")
    assert port.ending() == "ROBOT IS IN COLLISION STATE"
    client.is_ready = False
    port.move((1.0,) * 6)
    assert "no server of /joint_trajectory_controller" in port.ending()


def test_what_comes_of_an_older_goal_does_not_count(client, port):
    port.move((1.0,) * 6)
    client.accept()
    older = client.finished
    port.move((2.0,) * 6)
    client.accept()
    older.set(SimpleNamespace(result=SimpleNamespace(error_code=0, error_string="")))
    assert port.ending() is None


@pytest.mark.parametrize(
    ("field", "problem"), [({"robot_model": "tello"}, "kind drone"), ({"time_scale": 10.0}, "real time")]
)
def test_what_does_not_fit_a_real_arm_is_refused(ros, field, problem):
    values = {"driver": "indy7_trajectory", "robot_model": "indy7", "startup_check_s": 0.0} | field
    overrides = [Parameter(name, value=value) for name, value in values.items()]
    with pytest.raises(PlannerError, match=problem) as caught:
        RobotNode("arm_that_does_not_fit", parameter_overrides=overrides)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.skipif(importlib.util.find_spec("control_msgs") is not None, reason="control_msgs is installed")
def test_without_its_messages_the_driver_says_what_to_install(ros):
    overrides = [Parameter("driver", value="indy7_trajectory"), Parameter("robot_model", value="indy7")]
    with pytest.raises(PlannerError, match="apt install") as caught:
        RobotNode("arm_without_messages", parameter_overrides=overrides)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
