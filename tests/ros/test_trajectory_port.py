# SPDX-License-Identifier: Apache-2.0
"""The port to Neuromeka's ROS 2 driver, against an action client that only exists here."""

import importlib.util
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from rclpy.parameter import Parameter

from llm_planner.core.clock import ManualClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.drivers.indy7_kinematics import JOINTS
from llm_planner.ros.robot_node import RobotNode
from llm_planner.ros.trajectory_port import ABORTED, EARLIER, REPEAT_S, STANDS_S, TrajectoryPort

pytestmark = pytest.mark.ros


class Future:
    def __init__(self):
        self.callbacks, self.value = [], None

    def add_done_callback(self, callback):
        self.callbacks.append(callback)
        if self.value is not None:
            callback(self)

    def set(self, value):
        self.value = value
        for callback in self.callbacks:
            callback(self)

    def result(self):
        return self.value


class Client:
    """The clients of an action and of its cancelling, and the goal that was sent last."""

    def __init__(self):
        self.is_ready, self.goals, self.accepted, self.finished = True, [], None, None
        self.cancels, self.return_code = [], 0  # None: no answer

    def server_is_ready(self):
        return self.is_ready

    def send_goal_async(self, goal):
        self.goals.append(goal)
        self.accepted, self.finished = Future(), Future()
        return self.accepted

    def accept(self, is_accepted=True):
        self.accepted.set(SimpleNamespace(accepted=is_accepted, get_result_async=lambda: self.finished))

    def finish(self, error_code=0, error_string="", status=GoalStatus.STATUS_SUCCEEDED):
        result = SimpleNamespace(error_code=error_code, error_string=error_string)
        self.finished.set(SimpleNamespace(status=status, result=result))

    def service_is_ready(self):
        return self.is_ready

    def call_async(self, request):
        assert request == CancelGoal.Request()  # neither a goal nor a time: all goals
        self.cancels.append(Future())
        if self.return_code is not None:
            self.cancels[-1].value = SimpleNamespace(return_code=self.return_code)
        return self.cancels[-1]


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def clock():
    return ManualClock()


def connect(client, clock):
    return TrajectoryPort(client, client, lambda positions: positions, lambda call: call(), clock)


@pytest.fixture
def port(client, clock):
    """One that has cancelled what there was."""
    port = connect(client, clock)
    port.note_joints(list(JOINTS), [0.0] * 6)
    assert len(client.cancels) == 1
    client.cancels.clear()
    clock.advance(10.0)
    return port


def stand(port, clock, seconds=STANDS_S):
    """Lets joint states come for some time."""
    for _ in range(round(seconds / 0.05) + 1):
        port.note_joints(list(JOINTS), [0.0] * 6)
        clock.advance(0.05)


def test_a_motion_is_one_point_in_radians_and_ends_with_the_result(client, port):
    port.move((90.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    assert client.goals == [[math.pi / 2, 0.0, 0.0, 0.0, 0.0, 0.0]]
    client.accept()
    assert port.ending() is None
    client.finish()
    assert port.ending() == ""


def test_joints_are_sorted_by_name_and_strangers_ignored(client, clock):
    port = connect(client, clock)
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
def test_a_stop_cancels_whether_the_goal_is_accepted_yet_or_not(client, port, clock, is_accepted_first):
    port.move((1.0,) * 6)
    if is_accepted_first:
        client.accept()
    port.stop()
    assert len(client.cancels) == 1
    if not is_accepted_first:
        stand(port, clock)
        assert port.ending() is None
        client.accept()
        assert len(client.cancels) == 2
    client.finish()
    assert port.ending() is None
    stand(port, clock)
    assert port.ending() == ""


def test_a_stop_cancels_goals_of_others_and_ends_once_the_joints_stand(client, port, clock):
    port.stop()
    for step in range(20):
        port.note_joints(list(JOINTS), [0.01 * step] * 6)
        clock.advance(0.05)
        assert port.ending() is None
    assert len(client.cancels) == 1
    stand(port, clock)
    assert port.ending() == ""


@pytest.mark.parametrize("return_code", [None, 1])
def test_a_stop_that_is_not_taken_is_repeated_and_does_not_end(client, port, clock, return_code):
    client.return_code = return_code
    port.stop()
    stand(port, clock, 2.0 * REPEAT_S)
    assert len(client.cancels) == 3
    assert port.ending() is None
    client.return_code = 0
    stand(port, clock, REPEAT_S + STANDS_S)
    assert (len(client.cancels), port.ending()) == (4, "")


def test_a_stop_without_joint_states_does_not_end(client, port, clock):
    port.stop()
    clock.advance(5.0)
    port.note_joints(list(JOINTS), [0.0] * 6)
    assert port.ending() is None


def test_an_arm_that_is_let_go_is_stopped_at_once(client, clock):
    port = TrajectoryPort(client, client, lambda positions: positions, lambda _: None, clock)  # calls nothing any more
    port.close()
    assert len(client.cancels) == 1


def test_what_was_under_way_before_is_cancelled_once_the_server_is_there(client, clock):
    client.is_ready, client.return_code = False, None
    port = connect(client, clock)
    stand(port, clock)
    assert client.cancels == []
    client.is_ready = True
    stand(port, clock, REPEAT_S)
    assert client.cancels
    port.move((1.0,) * 6)
    assert (port.ending(), client.goals) == (EARLIER, [])
    client.cancels[-1].set(SimpleNamespace(return_code=0))
    port.move((1.0,) * 6)
    assert len(client.goals) == 1


def test_refusals_and_failures_are_named(client, port):
    port.move((1.0,) * 6)
    client.accept(is_accepted=False)
    assert port.ending() == "the arm's driver refuses the motion"
    port.move((1.0,) * 6)
    client.accept()
    client.finish(-2, "ROBOT IS IN COLLISION STATE", GoalStatus.STATUS_ABORTED)
    assert port.ending() == "ROBOT IS IN COLLISION STATE"
    client.is_ready = False
    port.move((1.0,) * 6)
    assert "no server of /joint_trajectory_controller" in port.ending()


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        (GoalStatus.STATUS_CANCELED, "another client cancelled the motion"),
        (GoalStatus.STATUS_ABORTED, ABORTED),
        (GoalStatus.STATUS_UNKNOWN, ABORTED),
    ],
)
def test_a_motion_that_did_not_succeed_fails_though_its_result_names_no_error(client, port, status, ending):
    port.move((1.0,) * 6)
    client.accept()
    client.finish(status=status)
    assert port.ending() == ending


def test_what_comes_of_an_older_goal_does_not_count(client, port):
    port.move((1.0,) * 6)
    client.accept()
    older = client.finished
    port.move((2.0,) * 6)
    client.accept()
    client.finished = older
    client.finish()
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


def test_a_model_that_is_slower_than_neuromekas_driver_is_refused(ros, tmp_path):
    text = (Path(__file__).parents[2] / "robot_models" / "indy7.yaml").read_text(encoding="utf-8")
    slow = text.replace("name: indy7", "name: slow_arm").replace(
        "speed_share: {value: 0.25", "speed_share: {value: 0.1"
    )
    (tmp_path / "slow_arm.yaml").write_text(slow, encoding="utf-8")
    values = {"driver": "indy7_trajectory", "robot_model": "slow_arm", "robot_models": [str(tmp_path)]}
    overrides = [Parameter(name, value=value) for name, value in values.items()]
    with pytest.raises(PlannerError, match="'slow_arm' allows less") as caught:
        RobotNode("arm_that_is_slower", parameter_overrides=overrides)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.skipif(importlib.util.find_spec("control_msgs") is not None, reason="control_msgs is installed")
def test_without_its_messages_the_driver_says_what_to_install(ros):
    overrides = [Parameter("driver", value="indy7_trajectory"), Parameter("robot_model", value="indy7")]
    with pytest.raises(PlannerError, match="apt install") as caught:
        RobotNode("arm_without_messages", parameter_overrides=overrides)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
