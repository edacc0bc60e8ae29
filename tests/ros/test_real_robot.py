# SPDX-License-Identifier: Apache-2.0
"""A robot node with a real driver: the same node flies an emulated Tello."""

import math
import re
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from sensor_msgs.msg import BatteryState

import llm_planner.msg as msgs
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.robots.drivers.tello_sockets import COMMAND_PORT
from llm_planner.robots.library import RobotLibrary
from llm_planner.ros.body import BodySettings, first_skill
from llm_planner.ros.robot_node import RobotNode
from llm_planner.ros.snapshot import Snapshot
from llm_planner.sim.emulator.firmware import TelloFirmware
from llm_planner.sim.emulator.network import EmulatorSettings, TelloNetwork
from llm_planner.srv import Stop
from tests.robots.loopback import loopback
from tests.ros.nodes import Spinner, starting, wait_until
from tests.ros.test_robot_node import CHAIR, Operator, start_operator, statuses  # noqa: F401 (a fixture)

pytestmark = pytest.mark.ros
SCALE = 5.0


@pytest.fixture
def drone():
    settings = EmulatorSettings(time_scale=SCALE)
    addresses = [loopback(20)]
    with TelloNetwork(RobotLibrary().get("tello"), addresses, clock=MonotonicClock(), settings=settings) as network:
        yield network.drones[0]


def real(**parameters):
    given = {"driver": "tello", "address": loopback(20), "take_off": True, "time_scale": SCALE, "allow_world": True}
    return given | parameters


def test_a_plan_is_flown_by_the_drone(planner, drone, start_operator):  # noqa: F811 (a fixture)
    operator = start_operator("real_1", **real())
    assert operator.instruct("mf(50);tc(90);g('chair');", [CHAIR | {"position_m": [0.5, -2.0, 1.0]}]).accepted
    outcome = operator.outcome()
    assert (outcome.error_code, statuses(outcome)) == (ErrorCode.NONE, [msgs.SegmentOutcome.SUCCEEDED] * 3)
    pose = drone.flight.pose
    assert (pose.x_m, pose.y_m, pose.yaw_deg) == (pytest.approx(0.5), pytest.approx(-1.5), pytest.approx(-90.0))
    assert Snapshot.from_json(outcome.world).pose.y_m == pytest.approx(-1.5)
    with pytest.raises(PlannerError) as caught:
        start_operator("real_2", **real())
    assert caught.value.code is ErrorCode.DUPLICATE_NODE


class Alone:
    """A robot's node that is spun, whether it takes instructions or not."""

    def __init__(self, name, **parameters):
        overrides = [Parameter(key, value=value) for key, value in (parameters | {"startup_check_s": 0.0}).items()]
        self.node = RobotNode(name, parameter_overrides=overrides)
        self._spinner = Spinner(self.node)

    def stop(self):
        self._spinner.stop()
        self.node.close()


@pytest.fixture
def start_alone(ros):
    with starting(Alone) as start:
        yield start


def ask_to_stop(name):
    client_node = rclpy.create_node(f"{name}_stopper")
    client = client_node.create_client(Stop, f"/{name}/stop")
    assert client.wait_for_service(10.0)
    future = client.call_async(Stop.Request())
    rclpy.spin_until_future_complete(client_node, future, SingleThreadedExecutor(), timeout_sec=10.0)
    names = [service for service, _ in client_node.get_service_names_and_types_by_node(name, "/")]
    client_node.destroy_node()
    return future.result(), names


def test_a_drone_can_be_stopped_while_it_takes_off_by_itself(drone, start_alone):
    node = start_alone("real_8", **real()).node
    wait_until(lambda: drone.flight.is_moving, what="a take-off")
    response, services = ask_to_stop("real_8")
    assert (response.was_busy, response.error_code) == (True, ErrorCode.NONE)
    assert "/real_8/instruct" not in services  # it takes none before it is in the air
    wait_until(lambda: node._action is not None, what="instructions")
    assert 0.1 < drone.flight.pose.z_m < 1.0
    assert not drone.flight.is_moving
    assert node.failure is None


@pytest.mark.parametrize("is_order_lost", [True, False], ids=["the order is lost", "its answer is lost"])
def test_a_take_off_that_is_not_answered_ends_the_node_and_in_a_landing(drone, start_alone, monkeypatch, is_order_lost):
    received, rises, receive, tick = [], [], TelloFirmware.receive, TelloFirmware.tick

    def hear(firmware, text, *given):
        received.append(text)
        return [] if is_order_lost and text == "takeoff" else receive(firmware, text, *given)

    def go_on(firmware, *given):
        answers = tick(firmware, *given)
        rises.append(firmware.flight.is_flying)
        return [] if "takeoff" in received else answers

    monkeypatch.setattr(TelloFirmware, "receive", hear)
    monkeypatch.setattr(TelloFirmware, "tick", go_on)
    node = start_alone("real_9", **real()).node
    wait_until(lambda: node.failure is not None, timeout_s=20.0, what="a failure")
    assert node.failure.code is ErrorCode.SKILL_FAILED
    assert "the drone did not take off" in node.failure.message
    assert node._action is None
    assert any(rises) is not is_order_lost
    num_received = len(received)
    node.end_goals()  # as its process does then
    node._robot.close()
    wait_until(lambda: "land" in received[num_received:], what="an order to land")
    wait_until(lambda: not drone.flight.is_flying, what="a landing")


def test_a_drone_in_the_air_does_not_take_off(drone, start_alone):
    drone.flight._pose = RobotLibrary().get("tello").start
    node = start_alone("real_10", **real()).node
    assert node._action is not None
    assert not drone.flight.is_moving


def test_a_drone_without_a_skill_to_take_off_cannot_begin_in_the_air():
    model = RobotLibrary().get("tello")
    skills = {name: skill for name, skill in model.skills.items() if name != "tk"}
    settings = BodySettings(driver="tello", take_off=True)
    assert first_skill(settings, model) == "tk"
    assert not first_skill(replace(settings, driver="kinematic"), model)
    with pytest.raises(PlannerError, match="has no skill to take off"):
        first_skill(settings, SimpleNamespace(kind=model.kind, name="glider", skills=skills))


def test_an_instruction_does_not_say_where_a_real_drone_is(planner, drone, start_operator):  # noqa: F811
    """A drone that believes to be 5 m further back would leave its fence of 10 m with the plan below."""
    operator = start_operator("real_6", **real(allow_world=False))
    robot = operator.robot._robot
    before = robot.pose
    for world in ('{"objects": []}', '{"objects": [], "pose": {"x_m": -5.0, "z_m": 1.0}}', "{"):
        for urgency in (0, 1):
            response = operator.instruct("mf(500);mf(500);mf(400);", world=world, urgency=urgency)
            assert (response.accepted, response.error_code) == (False, ErrorCode.INVALID_WORLD)
    assert "allow_world" in operator.instruct("mf(20);", world='{"objects": []}').error_msg
    assert robot.pose == before
    assert operator.instruct("mf(50);", world="").accepted
    assert operator.outcome().error_code == ErrorCode.NONE


def test_it_says_how_full_its_battery_is(planner, drone, start_operator):  # noqa: F811
    operator = start_operator("real_7", **real())
    received = []
    operator.node.create_subscription(BatteryState, "/real_7/battery_state", received.append, 10)
    wait_until(lambda: received, what="/real_7/battery_state")
    assert 0.9 < received[0].percentage <= 1.0
    assert received[0].present
    assert math.isnan(received[0].voltage)
    assert received[0].header.stamp.sec > 0
    drone.drain(50.0)
    wait_until(lambda: 0.4 < received[-1].percentage <= 0.5, what="half a battery")


def test_a_robot_without_a_battery_has_no_topic_for_it(planner, start_operator):  # noqa: F811
    operator = start_operator("drone_52")
    assert operator.node.get_publishers_info_by_topic("/drone_52/view")
    assert not operator.node.get_publishers_info_by_topic("/drone_52/battery_state")


def test_a_reflex_stops_the_motion_in_flight(planner, drone, start_operator):  # noqa: F811
    operator = start_operator("real_3", **real())
    ball = {"name": "ball", "position_m": [5.0, 0.0, 1.0], "velocity_m_per_s": [-0.5, 0.0, 0.0], "moves_for_s": 4.0}
    operator.instruct("mf(400);", [ball])
    outcome = operator.outcome()
    assert outcome.reflexes[0].action.startswith("m")
    wait_until(lambda: not drone.flight.is_moving)
    assert drone.flight.pose.x_m < 2.5


def test_the_node_lands_the_drone_when_it_ends(planner, drone, start_operator):  # noqa: F811
    operator = start_operator("real_4", **real())
    assert drone.flight.pose.z_m == 1.0
    operator.robot.end_goals()
    operator.robot._control.close()
    operator.robot._robot.close()
    wait_until(lambda: drone.flight.pose.z_m == 0.0)


def test_a_signal_ends_a_node_whose_drone_does_not_answer():
    address = loopback(21)
    command = [sys.executable, "-m", "llm_planner.ros.robot_node", "--ros-args", "-p", "driver:=tello"]
    words = ["-p", f"address:={address}", "-p", "take_off:=true", "-p", "startup_check_s:=0.0"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
        mute.bind((address, COMMAND_PORT))
        mute.settimeout(20.0)
        with subprocess.Popen([*command, *words]) as node:
            assert mute.recv(100) == b"command"
            node.terminate()
            assert node.wait(20.0) == 0  # before the kernel ends it


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"driver": "falcon"}, "there is no driver 'falcon'; known are: kinematic, tello, indy7, indy7_traj"),
        ({"driver": "kinematic"}, "a kinematic robot has no address"),
        ({"address": ""}, "needs the robot's address"),
        ({"address": "192.168.10.1"}, "a real robot runs in real time"),
        ({"robot_model": "indy7"}, "moves robots of kind drone, and 'indy7' is of kind arm"),
    ],
)
def test_settings_that_do_not_fit_are_named(ros, start_operator, parameters, words):  # noqa: F811
    with pytest.raises(PlannerError, match=words) as caught:
        start_operator("real_5", **real(**parameters))
    assert caught.value.code is ErrorCode.INVALID_CONFIG


PAGE = Path(__file__).parents[2] / "docs" / "first_robot.md"


@pytest.fixture
def rover(tmp_path, monkeypatch):
    """The robot of the page, whose driver is in a folder of its own; returns its parameters."""
    text = PAGE.read_text(encoding="utf-8")
    for language, name in (("yaml", "rover.yaml"), ("python", "my_rover.py")):
        (tmp_path / name).write_text(re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)[1], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield {"robot_model": "rover", "robot_models": [str(tmp_path)], "driver": "my_rover:Rover", "time_scale": 1.0}
    sys.modules.pop("my_rover", None)


def test_a_driver_from_outside_the_package_carries_out_a_plan(planner, rover, start_operator):  # noqa: F811
    operator = start_operator("rover_1", **rover)
    assert operator.instruct("forward(10);left(20);forward(10);say('here');", world="").accepted
    outcome = operator.outcome()
    assert (outcome.error_code, statuses(outcome)) == (ErrorCode.NONE, [msgs.SegmentOutcome.SUCCEEDED] * 4)
    assert list(outcome.segments[3].said) == ["here"]
    pose = Snapshot.from_json(outcome.world).pose
    expected = (0.1 + 0.1 * math.cos(math.radians(20)), 0.1 * math.sin(math.radians(20)), 20.0)
    assert (pose.x_m, pose.y_m, pose.yaw_deg) == pytest.approx(expected)


def test_a_driver_from_outside_the_package_is_stopped(planner, rover, start_operator):  # noqa: F811
    operator = start_operator("rover_2", **rover)
    assert operator.instruct("forward(300);forward(50);", world="").accepted
    wait_until(lambda: operator.robot._robot.is_active)
    driver = sys.modules["my_rover"]
    assert operator.call_stop().was_busy
    assert operator.outcome().error_code == ErrorCode.STOPPED
    assert operator.robot._robot.pose.x_m == 0.0
    assert driver.Rover.unsupported_skills == ("see",)
    assert operator.robot._robot.unsupported_skills == {"see"}


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("my_rover.Rover:", ErrorCode.INVALID_CONFIG, "package.module:Class"),
        ("no_such_package:Rover", ErrorCode.NOT_INSTALLED, "PYTHONPATH"),
        ("my_rover:Car", ErrorCode.INVALID_CONFIG, "has no class Car"),
        ("my_rover:SPEEDS", ErrorCode.INVALID_CONFIG, "has no class SPEEDS"),
        ("broken:Rover", ErrorCode.NOT_INSTALLED, "ZeroDivisionError"),
        ("lacking:Rover", ErrorCode.INVALID_CONFIG, "lacks halt, close"),
        ("nowhere:Rover", ErrorCode.INVALID_CONFIG, "lacks pose"),
        ("failing:Rover", ErrorCode.INVALID_CONFIG, "no motor answers"),
        ("unknowing:Rover", ErrorCode.INVALID_CONFIG, "does not have: fly"),
        ("unstoppable:Rover", ErrorCode.INVALID_CONFIG, "'stop' as unsupported, by which rover stops"),
        ("late:Rover", ErrorCode.INVALID_CONFIG, "'stop' as unsupported"),
    ],
)
def test_a_class_that_is_no_driver_is_named(ros, rover, start_operator, tmp_path, name, code, words):  # noqa: F811
    whole = "from my_rover import Rover as Base\nclass Rover(Base):\n    "
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "lacking.py").write_text("class Rover:\n    start = tick = None")
    (tmp_path / "nowhere.py").write_text(f"{whole}def __init__(self, *_): self.pose = (0, 0)")
    (tmp_path / "failing.py").write_text(f"{whole}def __init__(self, *_): raise OSError('no motor answers')")
    (tmp_path / "unknowing.py").write_text(f"{whole}unsupported_skills = ['fly']")
    (tmp_path / "unstoppable.py").write_text(f"{whole}unsupported_skills = ['stop']")
    (tmp_path / "late.py").write_text(
        f"{whole}def __init__(s, *a): super().__init__(*a); s.unsupported_skills = ['stop']"
    )
    with pytest.raises(PlannerError, match=words) as caught:
        start_operator("rover_3", **rover | {"driver": name})
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("self.pose = (0, 0)", PlannerError),
        ("super().__init__(*arguments); self.halt = None", TypeError),
    ],
)
def test_a_driver_is_closed_if_its_node_cannot_begin(ros, rover, start_operator, tmp_path, body, error):  # noqa: F811
    (tmp_path / "closing.py").write_text(
        f"from my_rover import Rover as Base\nclass Rover(Base):\n    closed = []\n"
        f"    def __init__(self, *arguments): {body}\n    def close(self): self.closed.append(1)"
    )
    with pytest.raises(error):
        start_operator("rover_4", **rover | {"driver": "closing:Rover"})
    assert sys.modules.pop("closing").Rover.closed == [1]


@pytest.mark.parametrize(("name", "value"), [("take_off", True), ("tool_length_m", 0.1)])
def test_a_parameter_that_means_nothing_to_a_driver_is_refused(ros, rover, start_operator, name, value):  # noqa: F811
    with pytest.raises(PlannerError, match=f"'my_rover:Rover' .* is not told {name}") as caught:
        start_operator("rover_5", **rover | {name: value})
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_a_driver_that_cannot_do_what_silence_calls_for_is_warned_of(ros, rover, start_operator, tmp_path, capfd):  # noqa: F811
    page = (tmp_path / "rover.yaml").read_text(encoding="utf-8")
    page = page.replace("silence:\n", "silence:\n  - {after_s: 1.0, skill: rest}\n")
    page = page.replace("  stop: {", "  rest: {description: rest, effect: {kind: stop}, duration: *at_once}\n  stop: {")
    (tmp_path / "rover.yaml").write_text(page, encoding="utf-8")
    (tmp_path / "tired.py").write_text(
        "from my_rover import Rover as Base\nclass Rover(Base):\n    unsupported_skills = ['rest']"
    )
    start_operator("rover_6", **rover | {"driver": "tired:Rover"})
    assert (
        "driver tired:Rover does not support rest, which this robot would do without a planner"
        in capfd.readouterr().err
    )
