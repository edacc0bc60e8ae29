# SPDX-License-Identifier: Apache-2.0
"""What the emulated Tello says and does, against the SDK guide and what users have seen."""

import math
import random

import pytest

from llm_planner.robots.library import RobotLibrary
from llm_planner.sim.emulator.firmware import AUTO_LAND_S, TelloFirmware

FIELDS = [
    "pitch",
    "roll",
    "yaw",
    "vgx",
    "vgy",
    "vgz",
    "templ",
    "temph",
    "tof",
    "h",
    "bat",
    "baro",
    "time",
    "agx",
    "agy",
    "agz",
]
MODEL = RobotLibrary().get("tello")


class Tello:
    """A firmware with a clock."""

    def __init__(self, *, in_sdk_mode=True, is_flying=False, **arguments):
        self.firmware = TelloFirmware(MODEL, random.Random(0), **arguments)
        self.now_s = 0.0
        if in_sdk_mode:
            self.say("command")
        if is_flying:
            self.say("takeoff")
            self.wait(8.0)

    def say(self, text, client="me"):
        return [answer.text for answer in self.firmware.receive(text, client, self.now_s)]

    def wait(self, seconds, step_s=0.05):
        answers = []
        for _ in range(round(seconds / step_s)):
            self.now_s += step_s
            answers += self.firmware.tick(self.now_s)
        return [answer.text for answer in answers]

    @property
    def pose(self):
        return self.firmware.flight.pose


def test_says_nothing_before_command():
    tello = Tello(in_sdk_mode=False)
    assert tello.say("takeoff") == tello.wait(10.0) == []
    assert tello.say("command") == ["ok"]


def test_a_motion_is_answered_when_it_is_over():
    tello = Tello()
    assert tello.say("takeoff") == []
    assert tello.wait(3.0) == []
    assert tello.wait(4.0) == ["ok"]
    assert tello.pose.z_m == 1.0
    assert tello.say("forward 200") == []
    assert tello.wait(3.0) == []
    assert tello.wait(1.0) == ["ok"]
    assert tello.say("cw 90") == []
    tello.wait(4.0)
    tello.say("go 50 50 20 50")
    tello.wait(6.0)
    pose = tello.pose
    assert (pose.x_m, pose.y_m, pose.z_m, pose.yaw_deg) == pytest.approx((2.5, -0.5, 1.2, -90.0))
    tello.say("land")
    assert tello.wait(5.0) == ["ok"]
    assert tello.pose.z_m == 0.0


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("forward 19", "out of range"),
        ("forward 501", "out of range"),
        ("cw 361", "out of range"),
        ("go 10 10 10 20", "out of range"),  # DJITelloPy issue 236
        ("go 100 0 0 9", "out of range"),
        ("speed 101", "out of range"),
        ("forward", "error"),
        ("forward far", "error"),
        ("takeoff", "error"),
        ("dance", "unknown command: dance"),
        ("", "unknown command: "),
        ("\x00\xff", "unknown command: \x00\xff"),
        ("battery?", "99"),
        ("speed?", "100"),
        ("height?", "10dm"),
        ("tof?", "1000mm"),
        ("what?", "unknown command: what?"),
        ("keepalive", "ok"),
    ],
)
def test_answers_in_the_air(command, answer):
    tello = Tello(is_flying=True)
    assert tello.say(command) == [answer]
    assert not tello.firmware.flight.is_moving


def test_one_motion_at_a_time():
    tello = Tello(is_flying=True)
    tello.say("forward 500")
    tello.wait(2.0)
    assert tello.say("back 100") == ["error Not joystick"]
    assert tello.wait(6.0) == ["ok"]


def test_lands_by_itself_after_15_s_without_a_command_but_not_in_a_motion():
    tello = Tello(is_flying=True)
    tello.say("speed 10")
    tello.say("forward 300")  # takes half a minute
    tello.wait(25.0)
    assert tello.firmware.flight.is_moving
    tello.wait(8.0)
    for _ in range(4):
        tello.say("battery?")
        tello.wait(AUTO_LAND_S - 1.0)
    assert tello.pose.z_m == 1.0
    tello.wait(5.0)
    assert tello.pose.z_m == 0.0
    assert tello.say("forward 50") == ["error Not joystick"]


def test_stop_hovers_and_emergency_falls():
    tello = Tello(is_flying=True)
    tello.say("forward 500")
    tello.wait(2.0)
    assert tello.say("stop") == ["ok"]
    where = tello.pose
    assert 0.5 < where.x_m < 2.0
    assert tello.wait(5.0) == []
    assert tello.pose == where
    tello.say("emergency")
    assert tello.pose.z_m == 0.0


def test_sticks_fly_until_they_are_let_go():
    tello = Tello(is_flying=True)
    assert tello.say("rc 0 50 0 0") == []
    tello.wait(2.0)
    tello.say("rc 0 0 0 0")
    assert tello.pose.x_m == pytest.approx(1.0, abs=0.05)
    tello.wait(5.0)
    assert tello.pose.x_m == pytest.approx(1.0, abs=0.05)


def test_the_battery_lasts_13_minutes_and_lands_the_drone_before_it_is_empty():
    tello = Tello(is_flying=True)
    for _ in range(80):
        tello.wait(10.0, step_s=0.5)
        tello.say("battery?")
        if not tello.firmware.flight.is_flying:
            break
    assert 720.0 < tello.now_s < 780.0
    assert tello.say("takeoff") == ["error Motor stop"]  # DJITelloPy issue 15


def test_an_empty_battery_ends_a_motion_with_an_error():
    tello = Tello(is_flying=True)
    tello.say("forward 500")
    tello.wait(1.0)
    tello.firmware.drain(0.0)
    assert tello.wait(0.1) == ["error"]
    tello.wait(4.0)
    assert tello.pose.z_m == 0.0


def test_the_state_line_has_the_fields_of_the_sdk():
    tello = Tello(is_flying=True)
    tello.say("forward 300")
    tello.wait(2.0)
    fields = dict(field.split(":") for field in tello.firmware.state().strip().strip(";").split(";"))
    assert list(fields) == FIELDS
    assert (fields["vgx"], fields["h"], fields["tof"]) == ("10", "100", "100")
    tello.wait(3.0)
    tello.say("cw 90")
    tello.wait(3.0)
    assert "yaw:90;" in tello.firmware.state()


def test_a_flip_is_answered_when_it_is_over_and_needs_half_a_battery():
    tello = Tello(is_flying=True)
    before = tello.pose
    assert tello.say("flip l") == []
    assert tello.say("forward 50") == ["error Not joystick"]
    assert tello.wait(2.0) == ["ok"]
    assert tello.pose == before
    assert tello.say("flip x") == tello.say("flip") == ["error"]
    tello.firmware.drain(40.0)
    assert tello.say("flip b") == ["error"]
    assert Tello().say("flip f") == ["error Not joystick"]


def test_a_curve_passes_its_points():
    tello = Tello(is_flying=True)
    assert tello.say("curve 100 100 0 200 0 0 50") == []
    way = []
    for _ in range(200):
        tello.wait(0.05)
        way.append((tello.pose.x_m, tello.pose.y_m, tello.pose.z_m))
    assert way[-1] == pytest.approx((2.0, 0.0, 1.0))
    assert min(math.dist(point, (1.0, 1.0, 1.0)) for point in way) < 0.06
    assert all(math.dist(point, (1.0, 0.0, 1.0)) == pytest.approx(1.0, abs=0.02) for point in way)  # half a circle
    assert tello.say("stop") == ["ok"]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("curve 100 100 0 200 0 0", "error"),
        ("curve 100 0 0 200 0 0 50", "error"),  # a line
        ("curve 20 1 0 20 -19 0 50", "error"),  # tighter than half a metre
        ("curve 100 100 0 200 0 0 61", "out of range"),
        ("curve 100 501 0 200 0 0 50", "out of range"),
        ("curve 10 10 10 200 0 0 50", "out of range"),
        ("curve a b c d e f g", "error"),
    ],
)
def test_curves_that_it_does_not_fly(command, answer):
    assert Tello(is_flying=True).say(command) == [answer]


def test_mission_pads_are_looked_for_and_never_found():
    tello = Tello()
    assert tello.say("mdirection 2") == ["error"]
    assert tello.say("mon") == tello.say("mdirection 2") == ["ok"]
    assert tello.firmware.state().startswith("mid:-1;x:0;y:0;z:0;mpry:0,0,0;pitch:")
    assert tello.say("mdirection 3") == ["error"]
    assert tello.say("moff") == ["ok"]
    assert tello.firmware.state().startswith("pitch:")
