# SPDX-License-Identifier: Apache-2.0
"""The Tello driver against the emulator's firmware, in virtual time."""

import math
import random
import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from llm_planner import robot_connection
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.skill import SkillCall
from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.drivers.tello import LOST, LOW_STATES, UNSEEN
from llm_planner.robots.drivers.tello_connection import TelloConnection
from llm_planner.robots.drivers.tello_line import Command, Proof, TelloLine
from llm_planner.robots.library import load_robot_model
from llm_planner.robots.world import World, WorldObject
from llm_planner.sim.emulator.faults import Faults, FaultyNetwork
from tests.robots.builders import room
from tests.robots.drivers.virtual import MODEL, Air, Pilot
from tests.robots.test_library import edited

FAILED, SUCCEEDED = SkillStatus.FAILED, SkillStatus.SUCCEEDED


def apart_m(pilot):
    """How far the driver is wrong about where the drone is."""
    a, b = pilot.driver.state.pose, pilot.flight.pose
    return math.dist((a.x_m, a.y_m, a.z_m), (b.x_m, b.y_m, b.z_m))


def test_takes_off_moves_turns_and_lands():
    pilot = Pilot(is_flying=False)
    for call in [("tk",), ("mf", 100.0), ("tc", 90.0), ("ml", 33.0), ("md", 40.0), ("h",), ("ld",)]:
        assert pilot.do(*call).status is SUCCEEDED, call
        assert apart_m(pilot) < 0.06
    assert pilot.motions == ["takeoff", "forward 100", "cw 90", "left 33", "down 40", "land"]
    assert pilot.driver.state.pose.yaw_deg == -90
    assert pilot.driver.state.pose.z_m == 0.0


def test_flies_straight_back_to_the_start_from_wherever_it_is():
    pilot = Pilot()
    for call in [("mf", 300.0), ("tc", 90.0), ("mf", 200.0), ("mu", 50.0), ("home",)]:
        assert pilot.do(*call).status is SUCCEEDED, call
    assert pilot.motions[-1].startswith("go -200 -300 -50 ")
    pose = pilot.driver.state.pose
    assert (pose.x_m, pose.y_m, pose.z_m) == pytest.approx((0.0, 0.0, 1.0), abs=0.02)
    assert pose.yaw_deg == -90
    assert pilot.do("home").status is SUCCEEDED
    assert len(pilot.motions) == 5  # it is there


def test_a_take_off_ends_at_the_height_that_the_drone_reports(tmp_path):
    model = load_robot_model(edited(tmp_path, "altitude_m: 1.0", "altitude_m: 2.0"))
    pilot = Pilot(is_flying=False, model=model)
    assert pilot.do("tk").status is SUCCEEDED
    assert pilot.driver.state.pose.z_m == pilot.flight.pose.z_m == 1.0
    assert "geofence" in pilot.do("md", 150.0).reason
    assert pilot.motions == ["takeoff"]


def test_a_take_off_is_over_once_a_state_came_after_its_answer():
    states, answers = [], []
    line = TelloLine(SimpleNamespace(send=lambda _text: None, states=lambda: states, answers=lambda: answers))
    line.begin(Command(text="takeoff", proof=Proof.FLYING, limit_s=20.0), 0.0)
    seen = []
    for time_s, height_cm, texts in [
        (3.0, 80, []),
        (3.1, 80, []),
        (3.2, None, ["ok"]),
        (3.25, None, []),
        (3.3, 100, []),
    ]:
        states[:] = [] if height_cm is None else [f"yaw:0;vgx:0;vgy:0;vgz:0;h:{height_cm};bat:90;"]
        answers[:] = texts
        line.poll(time_s)
        seen.append(line.is_busy)
    assert seen == [True, True, True, True, False]
    assert (line.ending.is_success, line.telemetry.last.height_m) == (True, 1.0)


def test_a_way_down_needs_room_below_the_height_that_the_drone_reports():
    pilot = Pilot()
    pilot.driver.state.pose = replace(pilot.driver.state.pose, z_m=2.0)  # an estimate that is wrong
    assert pilot.do("md", 150.0).reason.endswith("leave the geofence: the drone reports a height of 1.00 m")
    assert pilot.motions == []
    assert pilot.do("md", 80.0).status is SUCCEEDED


def test_a_way_up_needs_room_above_it():
    pilot = Pilot()
    pilot.driver.state.pose = replace(pilot.driver.state.pose, z_m=0.1)  # where an interrupted landing was believed
    assert pilot.do("mu", 250.0).reason.endswith("leave the geofence: the drone reports a height of 1.00 m")
    assert pilot.motions == []
    assert pilot.do("mu", 150.0).status is SUCCEEDED


def low_pilot():
    """Returns a drone that hovers so low that its state is that of one on the floor."""
    pilot = Pilot()
    pilot.flight._pose = replace(pilot.flight.pose, z_m=0.93)
    assert pilot.do("md", 79.0).status is SUCCEEDED
    pilot.wait(2.0)
    assert pilot.driver.state.pose.z_m == 0.0
    assert pilot.flight.is_flying
    return pilot


def test_a_drone_that_hovers_low_lands_when_it_is_told():
    pilot = low_pilot()
    assert pilot.do("ld").status is SUCCEEDED
    assert not pilot.flight.is_flying
    assert pilot.do("ld").status is SUCCEEDED
    assert pilot.motions.count("land") == 1


def test_a_drone_that_hovers_low_is_stopped_and_lands_on_an_empty_battery():
    pilot = low_pilot()
    assert pilot.do("h").status is SUCCEEDED
    assert "stop" in pilot.texts
    pilot.air.firmware.drain(9.0)
    pilot.wait(10.0)
    assert not pilot.flight.is_flying


def test_an_order_to_land_that_a_drone_on_the_floor_refuses_is_done():
    pilot = low_pilot()
    pilot.flight.land(pilot.air.time_s)
    pilot.wait(5.0)
    assert not pilot.flight.is_flying
    assert pilot.do("ld").status is SUCCEEDED


def test_a_drone_that_landed_on_a_table_takes_off_again(monkeypatch):
    pilot = Pilot()
    state = pilot.air.firmware.state
    monkeypatch.setattr(pilot.air.firmware, "state", lambda: re.sub(r"h:\d+;", "h:70;", state()))
    assert "its state does not show that it did it" in pilot.do("ld").reason
    assert not pilot.flight.is_flying
    assert pilot.do("tk").status is SUCCEEDED
    assert pilot.flight.is_flying


@pytest.mark.parametrize(("turn_deg", "parts"), [(361.0, [360, 1]), (540.0, [360, 180]), (720.0, [360, 360])])
def test_a_turn_of_more_than_a_tello_turns_at_once_is_split(tmp_path, turn_deg, parts):
    pilot = Pilot(model=load_robot_model(edited(tmp_path, "maximum: 360", "maximum: 720")))
    assert pilot.do("tc", turn_deg).status is SUCCEEDED
    assert pilot.motions == [f"cw {part}" for part in parts]
    assert abs(pilot.driver.state.pose.yaw_deg - pilot.flight.pose.yaw_deg) % 360 < 0.01


def test_an_amount_that_is_too_short_for_a_tello_fails(tmp_path):
    pilot = Pilot(model=load_robot_model(edited(tmp_path, "minimum: 20", "minimum: 0")))
    assert pilot.do("mf", 15.0).reason == "a Tello flies no way below 20 cm"
    assert pilot.do("mf", 0.0).status is SUCCEEDED
    assert pilot.motions == []


def test_an_approach_that_lacks_less_than_a_tello_flies_is_over():
    pilot = Pilot(world=World([WorldObject(name="box", position_m=(0.65, 0.0, 1.0))]))
    assert pilot.do("a", "box").status is SUCCEEDED
    assert pilot.motions == []
    assert apart_m(pilot) < 0.01


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("altitude_m: 1.0", "altitude_m: 2.0", "tk: altitude_m is 2, and a Tello rises to about 1 m"),
        ("altitude_m: 1.0", "altitude_m: 0.3", "tk: altitude_m is 0.3"),
        ("minimum: 20", "minimum: 5", "mf: minimum is 5 cm, and a Tello flies no way below 20 cm"),
        ("&speed {value: 1.0", "&speed {value: 0.05", "its speed is 5 cm/s, and a Tello flies 10 cm/s at least"),
    ],
)
def test_a_model_that_no_tello_keeps_is_refused_before_anything_is_sent(tmp_path, old, new, words):
    air = Air()
    with pytest.raises(PlannerError, match=words) as caught:
        TelloConnection(load_robot_model(edited(tmp_path, old, new)), air, clock=air, sleep=air.sleep)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert air.is_closed
    assert air.sent == []


def test_the_speed_is_set_and_asked_for_before_anything_flies():
    air = Air()
    TelloConnection(MODEL, air, clock=air, sleep=air.sleep)
    assert [text for _, text in air.sent] == ["command", "speed 100", "speed?"]
    assert air.firmware.flight.speed_cm_s == 100


def test_a_drone_that_is_found_in_the_air_is_known_to_be_there():
    air = Air(pose=MODEL.start)
    assert TelloConnection(MODEL, air, clock=air, takes_off=True, sleep=air.sleep).pose.z_m == 1.0
    assert "takeoff" not in [text for _, text in air.sent]


def test_objects_of_the_map_are_approached_and_searched():
    pilot = Pilot(world=room())
    assert pilot.do("s", "cat").value is True
    assert pilot.motions == ["cw 45"] * 4
    assert pilot.do("g", "cat").status is SUCCEEDED
    assert apart_m(pilot) < 0.06
    assert pilot.do("iv", "cat").value is True
    assert pilot.do("a", "unicorn").reason == "unicorn is not visible"


def test_what_it_has_no_eyes_for_fails_with_the_reason():
    pilot = Pilot()
    assert (
        pilot.do("tp").reason == pilot.do("p", "what is there").reason == "this driver does not read the drone's camera"
    )


def test_the_geofence_is_judged_before_anything_is_sent():
    pilot = Pilot()
    for _ in range(2):
        assert pilot.do("mf", 500.0).status is SUCCEEDED
    result = pilot.do("mf", 60.0)
    assert result.status is FAILED
    assert "geofence" in result.reason
    assert pilot.motions == ["forward 500", "forward 500"]


def test_on_the_floor_only_a_takeoff_moves_it():
    pilot = Pilot(is_flying=False)
    assert pilot.do("mf", 50.0).reason == "is not flying; take off first"
    assert pilot.do("ld").status is SUCCEEDED
    assert pilot.texts == []


def test_a_plan_that_waits_long_does_not_land():
    pilot = Pilot()
    pilot.wait(60.0)
    assert pilot.do("d", 60.0).status is SUCCEEDED
    assert pilot.flight.pose.z_m == 1.0
    assert set(pilot.texts) == {"battery?"}
    assert len(pilot.texts) <= 31


def test_a_robot_whose_loop_has_died_lands_by_itself():
    pilot = Pilot()
    pilot.air.advance(20.0)
    assert pilot.flight.pose.z_m == 0.0
    pilot.wait(2.0)  # the loop is back: it sees what happened
    assert pilot.do("mf", 50.0).reason == "is not flying; take off first"


def test_a_motion_is_not_sent_again_however_long_it_takes():
    pilot = Pilot()
    pilot.flight.speed_cm_s = 20  # something slows it down: 25 s for 5 m; djitellopy would send it again after 7 s
    pilot.start("mf", 500.0)
    pilot.finish()
    assert pilot.motions == ["forward 500"]


def test_a_lost_command_fails_and_is_not_repeated():
    pilot = Pilot(Faults(lost=1.0))
    result = pilot.do("mf", 100.0)
    assert result.status is FAILED
    assert "no answer to 'forward 100'" in result.reason
    assert pilot.motions == ["forward 100"]
    assert apart_m(pilot) < 0.06
    pilot.fail(Faults())
    assert pilot.do("mf", 100.0).status is SUCCEEDED  # it was seen standing, so it is not lost


def test_a_lost_answer_fails_but_the_way_counts():
    pilot = Pilot()
    pilot.start("mf", 100.0)
    pilot.wait(0.5)
    pilot.fail(Faults(lost=1.0))
    assert "no answer" in pilot.finish().reason
    assert apart_m(pilot) < 0.06


def see(pilot, *, nothing):
    """Loses all states from now on, or none."""
    pilot.air.stream = FaultyNetwork(Faults(lost=float(nothing)), random.Random(0))


@pytest.mark.parametrize(("call", "blind_s"), [(("tc", 90.0), 3.0), (("mf", 100.0), 3.0), (("mf", 20.0), 1.9)])
def test_a_motion_that_fails_and_may_have_been_flown_unseen_leaves_nobody_sure_of_where_the_drone_is(call, blind_s):
    pilot = Pilot()
    pilot.fail(Faults(), answering=Faults(lost=1.0))
    see(pilot, nothing=True)
    pilot.start(*call)
    pilot.wait(blind_s)
    see(pilot, nothing=False)
    assert pilot.finish().status is FAILED
    pilot.fail(Faults())
    refused = pilot.do("mb", 20.0)
    assert (refused.reason, refused.is_permanent) == (LOST, True)
    assert len(pilot.motions) == 1
    assert pilot.do("ld").status is SUCCEEDED


def test_a_motion_that_is_halted_and_may_have_been_flown_unseen_does_too():
    pilot = Pilot()
    pilot.start("mf", 100.0)
    see(pilot, nothing=True)
    pilot.wait(1.0)
    pilot.driver.halt(pilot.air.time_s)
    see(pilot, nothing=False)
    assert pilot.do("h").status is SUCCEEDED
    assert pilot.do("mb", 50.0).reason == LOST


def test_no_motion_begins_while_nothing_would_show_it():
    pilot = Pilot()
    see(pilot, nothing=True)
    pilot.wait(2.5)
    assert pilot.do("mf", 50.0).reason == UNSEEN
    assert pilot.motions == []
    see(pilot, nothing=False)
    pilot.wait(0.2)
    assert pilot.do("mf", 50.0).status is SUCCEEDED


def deliver(pilot, text, after_s):
    """Lets a command arrive that was sent before."""
    pilot.air._to.append((pilot.air.time_s + after_s, 10**6, text.encode()))


@pytest.mark.parametrize("call", [("tc", 90.0), ("mf", 100.0), ("ld",)])
def test_a_stop_that_comes_late_ends_no_motion_that_was_asked_for_after_it(call):
    pilot = Pilot()
    pilot.fail(Faults(lost=1.0))
    assert pilot.do("h").status is SUCCEEDED  # it is seen hovering; its stop is still on its way
    pilot.fail(Faults())
    deliver(pilot, "stop", after_s=0.9)
    assert pilot.do(*call).status is SUCCEEDED
    assert apart_m(pilot) < 0.06
    assert abs(pilot.driver.state.pose.yaw_deg - pilot.flight.pose.yaw_deg) % 360 < 1.5


def test_a_stop_that_was_answered_delays_nothing():
    pilot = Pilot()
    assert pilot.do("h").status is SUCCEEDED
    before_s = pilot.air.time_s
    pilot.start("tc", 90.0)
    pilot.wait(0.15)
    assert pilot.air.sent[-1][1] == "cw 90"
    assert pilot.air.sent[-1][0] - before_s < 0.15


@pytest.mark.parametrize("turn_deg", [90.0, 180.0, 360.0])
def test_a_turn_that_ends_too_early_has_failed(turn_deg):
    pilot = Pilot()
    pilot.start("tc", turn_deg)
    pilot.wait(0.25 + turn_deg / 200.0)
    deliver(pilot, "stop", after_s=0.0)  # of another call
    result = pilot.finish()
    assert result.status is FAILED
    assert "its state does not show that it did it" in result.reason


@pytest.mark.parametrize("turn_deg", [1.0, 7.0, 45.0, 180.0, 270.0, 360.0])
def test_a_whole_turn_is_believed_although_states_are_lost(turn_deg):
    pilot = Pilot(state_faults=Faults(lost=0.3), seed=3)
    assert pilot.do("tu", turn_deg).status is SUCCEEDED
    assert abs(pilot.driver.state.pose.yaw_deg - pilot.flight.pose.yaw_deg) % 360 < 1.5


def test_a_halted_drone_that_was_never_seen_moving_is_where_it_was():
    pilot = Pilot()
    pilot.fail(Faults(lost=1.0))
    pilot.start("mf", 100.0)
    pilot.wait(2.5)
    pilot.fail(Faults())
    pilot.driver.halt(pilot.air.time_s)
    assert apart_m(pilot) < 0.06


def test_a_late_ok_does_not_end_a_command_that_was_lost():
    pilot = Pilot()
    pilot.do("mf", 100.0)
    pilot.fail(Faults(lost=1.0))
    pilot.start("mb", 100.0)
    pilot.wait(0.3)
    pilot.air._from.append((pilot.air.time_s, 10**6, b"ok"))
    result = pilot.finish()
    assert result.status is FAILED
    assert result.reason == "the drone answers 'back 100' with ok, but its state does not show that it did it"
    assert apart_m(pilot) < 0.06


def test_a_late_ok_does_not_end_a_motion_before_it_is_over():
    pilot = Pilot()
    pilot.start("mf", 300.0)
    pilot.wait(0.3)
    pilot.air._from.append((pilot.air.time_s, 10**6, b"ok"))
    assert pilot.finish().status is SUCCEEDED
    assert apart_m(pilot) < 0.06


def test_halt_goes_past_the_command_in_flight_and_insists():
    pilot = Pilot()
    pilot.start("mf", 500.0)
    pilot.wait(3.0)
    pilot.fail(Faults(lost=1.0))
    pilot.driver.halt(pilot.air.time_s)
    assert pilot.texts[-1] == "stop"
    assert pilot.driver.tick(pilot.air.time_s).reason == "halted"
    pilot.fail(Faults())
    pilot.wait(1.5)
    assert not pilot.flight.is_moving
    assert 1.0 < pilot.flight.pose.x_m < 4.5
    assert apart_m(pilot) < 0.75  # half a second at 1 m/s, and what the estimate lacks
    assert pilot.do("mb", 50.0).status is SUCCEEDED


def test_a_stop_that_is_not_received_fails_and_so_does_every_motion_after_it():
    pilot = Pilot()
    pilot.start("mf", 500.0)
    pilot.wait(2.0)
    pilot.driver.halt(pilot.air.time_s)
    assert pilot.do("h").status is SUCCEEDED
    pilot.start("mf", 500.0)
    pilot.wait(2.0)
    pilot.fail(Faults(lost=1.0))
    pilot.driver.halt(pilot.air.time_s)
    assert pilot.do("h").reason == "no answer to 'stop' within 3 s"
    pilot.fail(Faults())
    pilot.wait(3.0)
    assert "where it is is not known" in pilot.do("mb", 50.0).reason
    assert pilot.do("ld").status is SUCCEEDED


def rising(seconds):
    """Returns a drone that was sent its order to take off so long ago."""
    pilot = Pilot(is_flying=False)
    pilot.wait(0.2)
    pilot.start("tk")
    pilot.driver.tick(pilot.air.time_s)
    assert pilot.texts == ["takeoff"]
    pilot.wait(seconds)
    return pilot


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 3.0])
@pytest.mark.parametrize("is_halted_only", [False, True])
def test_a_stop_in_a_take_off_ends_in_a_hover_at_a_height_that_is_known(seconds, is_halted_only):
    pilot = rising(seconds)
    pilot.driver.halt(pilot.air.time_s)
    if not is_halted_only:
        assert pilot.do("h").status is SUCCEEDED
        assert not pilot.flight.is_moving
    pilot.wait(6.0)
    assert pilot.texts[1] == "stop"
    assert pilot.flight.pose.z_m > 0.1
    assert apart_m(pilot) < 0.06
    assert pilot.do("mu", 50.0).status is SUCCEEDED
    assert pilot.do("ld").status is SUCCEEDED
    assert pilot.flight.pose.z_m == pilot.driver.state.pose.z_m == 0.0


def test_a_call_after_a_take_off_that_was_halted_waits_for_the_hover():
    pilot = rising(0.3)
    pilot.driver.halt(pilot.air.time_s)
    assert pilot.do("tk").status is SUCCEEDED
    assert pilot.do("mf", 50.0).status is SUCCEEDED
    assert pilot.motions == ["takeoff", "forward 50"]
    assert apart_m(pilot) < 0.06


def test_a_stop_in_a_take_off_that_the_drone_refuses_leaves_it_on_the_floor():
    pilot = Pilot(is_flying=False)
    pilot.air.firmware.drain(10.0)
    pilot.start("tk")
    pilot.driver.halt(pilot.air.time_s)
    assert pilot.do("h").status is SUCCEEDED
    assert pilot.flight.pose.z_m == pilot.driver.state.pose.z_m == 0.0
    assert pilot.do("mf", 50.0).reason == "is not flying; take off first"


def test_a_take_off_that_was_not_sent_when_it_is_halted_is_dropped():
    pilot = Pilot(is_flying=False)
    pilot.wait(4.0)  # an answer to what keeps it awake has just come: the next command waits
    assert pilot.texts == ["battery?"]
    pilot.driver.tick(pilot.air.time_s)
    pilot.start("tk")
    pilot.driver.tick(pilot.air.time_s)
    pilot.driver.halt(pilot.air.time_s)
    assert pilot.do("h").status is SUCCEEDED
    pilot.wait(6.0)
    assert pilot.motions == []
    assert pilot.flight.pose.z_m == 0.0


def test_a_drone_that_falls_silent_in_a_take_off_is_believed_in_the_air():
    pilot = rising(0.5)
    pilot.air.stream = FaultyNetwork(Faults(lost=1.0), random.Random(0))
    assert "nothing was received" in pilot.finish().reason
    pilot.wait(3.0)
    pilot.air.stream = FaultyNetwork(Faults(), random.Random(0))
    pilot.wait(0.3)
    assert pilot.do("h").status is SUCCEEDED
    assert apart_m(pilot) < 0.06
    assert pilot.do("ld").status is SUCCEEDED
    assert pilot.flight.pose.z_m == 0.0


@pytest.mark.parametrize("seconds", [0.1, 1.0])
def test_a_battery_that_runs_low_in_a_take_off_that_is_stopped_lands_it(seconds):
    pilot = rising(seconds)
    pilot.driver.halt(pilot.air.time_s)
    pilot.air.firmware.drain(9.0)
    pilot.do("h")
    pilot.wait(8.0)
    assert pilot.motions[1] == "land"
    assert pilot.flight.pose.z_m == pilot.driver.state.pose.z_m == 0.0


@pytest.mark.parametrize("seconds", [0.1, 1.0])
def test_a_drone_is_told_to_land_when_it_is_let_go_in_a_take_off(monkeypatch, seconds):
    air = Air()
    monkeypatch.setattr(robot_connection, "TelloSockets", lambda _address: air)
    connect = partial(TelloConnection, sleep=air.sleep)
    monkeypatch.setattr(robot_connection, "TelloConnection", connect)
    robot = robot_connection.TelloRobot(MODEL, robot_connection.DriverSettings(name="tello"), air)
    driver = robot.enter(World(), None, air.time_s)
    driver.start(SkillCall("tk"), 0.0)
    driver.tick(0.0)
    for _ in range(round(seconds / 0.05)):
        air.advance(0.05)
        driver.attend(air.time_s)
    driver.halt(air.time_s)
    robot.close()
    assert [text for _, text in air.sent][-3:] == ["land"] * 3


@pytest.mark.parametrize("is_world_new", [False, True])
def test_a_stop_that_fails_after_a_halt_lets_nothing_fly_though_no_skill_asked_for_it(is_world_new):
    pilot = Pilot()
    pilot.start("mf", 500.0)
    pilot.wait(1.0)
    pilot.fail(Faults(lost=1.0))
    if is_world_new:
        pilot.driver.enter(World(), None, 0.0)
    else:
        pilot.driver.halt(pilot.air.time_s)
    pilot.start("mb", 100.0)  # of the goal that comes instead
    pilot.wait(3.6)
    pilot.fail(Faults())
    result = pilot.finish()
    assert (result.status, result.is_permanent) == (FAILED, True)
    assert "where it is is not known; land it, put it at home and restart its node" in result.reason
    assert pilot.motions == ["forward 500"]
    assert pilot.do("ld").status is SUCCEEDED
    pilot.driver.enter(World(), MODEL.start, 0.0)  # someone says where it is
    assert pilot.do("tk").status is SUCCEEDED


def test_a_battery_that_runs_low_lands_it_and_nothing_flies_any_more():
    pilot = Pilot()
    pilot.start("d", 30.0)
    pilot.wait(1.0)
    pilot.air.firmware.drain(9.0)
    result = pilot.finish()
    assert result.reason == "the battery is empty, so the drone lands; charge it"
    assert pilot.do("h").status is SUCCEEDED  # what an executor does then: it must not keep it in the air
    assert pilot.do("mf", 50.0).status is FAILED
    pilot.wait(6.0)
    assert pilot.flight.pose.z_m == pilot.driver.state.pose.z_m == 0.0
    assert "stop" not in pilot.texts


@pytest.mark.parametrize("calls", [[("mf", 100.0), ("mb", 100.0)], [("s", "unicorn")]])
def test_a_battery_that_runs_low_lands_it_between_two_motions_without_a_pause(calls):
    pilot = Pilot()
    pilot.start(*calls[0])
    pilot.wait(1.0)
    pilot.air.firmware.drain(10.0)
    for call in [*calls[1:], *calls * 10]:  # the next in the tick that ended the one before, as an executor does
        until_s = pilot.air.time_s + 120.0
        while (result := pilot.driver.tick(pilot.air.time_s)).status is SkillStatus.RUNNING:
            assert pilot.air.time_s < until_s
            pilot.air.advance(0.05)
            pilot.driver.attend(pilot.air.time_s)
        if result.status is FAILED:
            break
        pilot.start(*call)
    assert result.reason == "the battery is empty, so the drone lands; charge it"
    assert result.is_permanent
    assert pilot.do("h").status is SUCCEEDED
    assert len(pilot.motions) == 2
    assert pilot.motions[1] == "land"
    pilot.wait(2.0)
    assert pilot.flight.pose.z_m == pilot.driver.state.pose.z_m == 0.0
    assert apart_m(pilot) < 0.06
    assert "stop" not in pilot.texts


def reads(pilot, percent, times):
    """States of a battery that come between those of the firmware."""
    state = pilot.air.firmware.state()
    for _ in range(times):
        pilot.line.telemetry.note(re.sub(r"bat:[^;]*", f"bat:{percent}", state), pilot.air.time_s)
    pilot.driver.tick(pilot.air.time_s)


def test_a_single_wrong_reading_of_the_battery_lands_nothing():
    pilot = Pilot()
    reads(pilot, 0, times=LOW_STATES - 1)
    pilot.wait(3.0)
    assert pilot.do("mf", 100.0).status is SUCCEEDED
    assert pilot.motions == ["forward 100"]


def test_a_low_battery_lands_a_drone_whose_states_then_stop(monkeypatch):
    pilot = Pilot()
    monkeypatch.setattr(pilot.air, "states", list)
    reads(pilot, 3, times=1)
    assert pilot.motions == []
    pilot.wait(8.0)
    assert pilot.motions[0] == "land"
    assert pilot.flight.pose.z_m == 0.0


def test_once_landed_a_drone_whose_battery_holds_more_may_fly_again():
    pilot = Pilot()
    reads(pilot, 0, times=LOW_STATES)
    assert pilot.do("mf", 100.0).reason == "the battery is empty, so the drone lands; charge it"
    pilot.wait(8.0)
    assert pilot.flight.pose.z_m == 0.0
    assert pilot.do("tk").status is SUCCEEDED
    assert pilot.motions == ["land", "takeoff"]


@pytest.mark.parametrize("percent", [0.0, 4.0, 10.0])
def test_a_drone_whose_battery_is_low_does_not_take_off(percent):
    pilot = Pilot(is_flying=False, battery_percent=percent)
    result = pilot.do("tk")
    assert (result.reason, result.is_permanent) == ("the battery is too low to take off; charge it", True)
    assert pilot.motions == []


def test_a_battery_that_dies_in_a_motion_fails_it():
    pilot = Pilot()
    pilot.start("mf", 500.0)
    pilot.wait(2.0)
    pilot.air.firmware.drain(0.0)
    assert pilot.finish().reason == "the drone answers 'error'"
    pilot.do("h")
    pilot.wait(8.0)
    assert pilot.flight.pose.z_m == pilot.driver.state.pose.z_m == 0.0


def test_no_stop_ends_the_landing_that_the_drone_begins_by_itself_on_an_empty_battery():
    pilot = Pilot()
    pilot.start("mf", 500.0)
    pilot.wait(2.0)
    pilot.air.firmware.drain(5.2)
    assert pilot.finish().reason == "the drone answers 'error'"
    assert pilot.do("h").status is SUCCEEDED
    pilot.wait(8.0)
    assert pilot.flight.pose.z_m == pilot.driver.state.pose.z_m == 0.0
    assert "stop" not in pilot.texts


def test_a_drone_that_falls_silent_fails_soon():
    pilot = Pilot()
    pilot.start("mf", 500.0)
    pilot.wait(1.0)
    pilot.fail(Faults(lost=1.0))
    pilot.air.stream = pilot.air.commands
    began_s = pilot.air.time_s
    assert "nothing was received" in pilot.finish().reason
    assert pilot.air.time_s - began_s < 3.0


@pytest.mark.parametrize(
    ("faults", "code", "words"),
    [
        ({"faults": Faults(lost=1.0)}, ErrorCode.ROBOT_SILENT, "is it switched on"),
        ({"state_faults": Faults(lost=1.0)}, ErrorCode.ROBOT_SILENT, "8890"),
        ({"faults": Faults(garbage=1.0), "seed": 3}, ErrorCode.ROBOT_SILENT, "Tello"),
        ({"battery_percent": 12.0}, ErrorCode.SKILL_FAILED, "12 %"),
    ],
)
def test_a_drone_that_cannot_be_flown_is_refused_and_let_go(faults, code, words):
    air = Air(**faults)
    with pytest.raises(PlannerError) as caught:
        TelloConnection(MODEL, air, clock=air, takes_off=True, timeout_s=5.0, sleep=air.sleep)
    assert caught.value.code is code
    assert words in caught.value.message
    assert air.is_closed


def test_two_calls_at_once_are_a_programming_error():
    pilot = Pilot()
    pilot.start("mf", 100.0)
    with pytest.raises(RuntimeError):
        pilot.start("mb", 100.0)
