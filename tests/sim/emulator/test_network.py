# SPDX-License-Identifier: Apache-2.0
"""Emulated Tellos over real UDP on loopback, flown by our driver."""

import socket
from contextlib import ExitStack

import pytest

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.skill import SkillCall
from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.drivers.tello import LOST, UNSEEN, TelloDriver
from llm_planner.robots.drivers.tello_connection import TelloConnection
from llm_planner.robots.drivers.tello_sockets import TelloSockets
from llm_planner.robots.library import RobotLibrary
from llm_planner.sim.emulator.faults import Faults
from llm_planner.sim.emulator.network import EmulatorSettings, TelloNetwork
from tests.robots.loopback import loopback, wait_until

MODEL = RobotLibrary().get("tello")
CLOCK = MonotonicClock()
SCALE = 10.0


def emulated(*numbers, **settings):
    settings = EmulatorSettings(**{"time_scale": SCALE} | settings)
    return TelloNetwork(MODEL, [loopback(number) for number in numbers], clock=CLOCK, settings=settings)


def connect(address, **arguments):
    return TelloConnection(MODEL, TelloSockets(address), clock=CLOCK, time_scale=SCALE, timeout_s=1.0, **arguments)


def fly(connection, *calls):
    driver = TelloDriver(MODEL, connection.line, pose=connection.pose, speed_cm_s=connection.speed_cm_s)
    results = []
    for name, *arguments in calls:
        driver.start(SkillCall(name, tuple(arguments)), CLOCK.now_s() * SCALE)

        def has_ended():
            driver.attend(CLOCK.now_s() * SCALE)
            return driver.tick(CLOCK.now_s() * SCALE).status is not SkillStatus.RUNNING

        wait_until(has_ended)
        results.append(driver.tick(CLOCK.now_s() * SCALE))
    return driver, results


def test_two_drones_fly_over_udp_at_the_same_time():
    with emulated(1, 2) as network, ExitStack() as open_lines:
        connections = []
        for number in (1, 2):
            connections.append(connect(loopback(number)))
            open_lines.callback(connections[-1].line.close)
        for connection, call in zip(connections, [("mf", 100.0), ("tc", 90.0)], strict=True):
            _, results = fly(connection, ("tk",), call, ("ld",))
            assert [result.status for result in results] == [SkillStatus.SUCCEEDED] * 3
        with network.lock:
            poses = [drone.flight.pose for drone in network.drones]
        assert (poses[0].x_m, poses[0].z_m, poses[1].yaw_deg) == (1.0, 0.0, -90.0)


def test_one_driver_per_drone():
    with emulated(3):
        first = connect(loopback(3))
        with pytest.raises(PlannerError) as caught:
            connect(loopback(3))
        assert caught.value.code is ErrorCode.DUPLICATE_NODE
        first.line.close()
        connect(loopback(3)).line.close()


def test_a_message_of_a_stranger_is_ignored():
    with emulated(4):
        transport = TelloSockets(loopback(4))
        target = transport._commands.getsockname()
        stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        stranger.bind((loopback(5), 0))
        stranger.sendto(b"ok", target)
        transport.send("command")
        received = []
        wait_until(lambda: received.extend(transport.answers()) or received)
        assert received == ["ok"]
        stranger.close()
        transport.close()


def test_commands_and_answers_are_logged_as_plain_text():
    lines = []
    with emulated(7, log=lines.append), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.bind((loopback(8), 0))
        for text in ("command", "curve 1", "\x1b[2J" + "x" * 200):
            client.sendto(text.encode(), (loopback(7), 8889))
            client.recv(2048)
    here = loopback(7)
    assert lines[:4] == [f"{here} < command", f"{here} > ok", f"{here} < curve 1", f"{here} > error"]
    assert lines[4] == f"{here} < \\x1b[2J" + "x" * 76


def test_no_emulator_there_is_a_clear_error():
    with pytest.raises(PlannerError, match="is it switched on") as caught:
        connect(loopback(6))
    assert caught.value.code is ErrorCode.ROBOT_SILENT


def test_an_emulator_that_talks_garbage_harms_no_driver():
    with emulated(7, faults=Faults(garbage=1.0)), pytest.raises(PlannerError):
        connect(loopback(7))


def test_a_mute_drone_fails_its_call():
    faults = Faults(mute_after_s=8.0)
    with emulated(8, faults=faults):
        connection = connect(loopback(8))
        _, results = fly(connection, ("tk",), ("mf", 500.0), ("mb", 500.0))
        assert [result.status for result in results] == [SkillStatus.SUCCEEDED, *[SkillStatus.FAILED] * 2]
        assert "nothing was received from the drone" in results[1].reason
        assert results[2].reason in (UNSEEN, LOST)  # it is not sent
        connection.line.close()


def test_an_address_that_is_taken_is_named():
    with emulated(9):
        with pytest.raises(PlannerError, match="is another emulator") as caught:
            emulated(10, 9)
        assert caught.value.code is ErrorCode.ADDRESS_IN_USE
    emulated(10).close()  # what it had, it gave back


def test_a_state_port_that_is_taken_is_named():
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    other.bind(("", 0))
    with pytest.raises(PlannerError, match="taken by another program") as caught:
        TelloSockets(loopback(11), state_port=other.getsockname()[1])
    assert caught.value.code is ErrorCode.ADDRESS_IN_USE
    other.close()


@pytest.mark.parametrize("fault", [{"lost": 2.0}, {"late": -0.1}, {"late_s": -1.0}])
def test_impossible_faults_are_refused(fault):
    with pytest.raises(ValueError, match="must be in"):
        Faults(**fault)
