# SPDX-License-Identifier: Apache-2.0
"""A world that is killed, silent, frozen or talks nonsense is a lost body, and found again; it raises nothing."""

import random
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("mujoco")

from llm_planner.core.clock import ManualClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.skill import SkillCall
from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.model import Pose
from llm_planner.robots.world import World
from llm_planner.sim.physics import client, wire
from llm_planner.sim.physics.client import RemotePort
from llm_planner.sim.physics.driver import LOST
from llm_planner.sim.physics.drone_driver import DroneDriver
from llm_planner.sim.physics.port import Telemetry
from tests.sim.physics.builders import LIBRARY, cube

TELLO = LIBRARY.get("tello")
WORLD = """
import sys, time
from llm_planner.core.clock import MonotonicClock
from llm_planner.sim.physics.fleet import build_fleet
from llm_planner.sim.physics.server import WorldServer
from llm_planner.robots.library import RobotLibrary
models = {"drone_1": RobotLibrary().get("tello")}
world = build_fleet(models, None, wind_m_per_s=0.0, seed=0)
server = WorldServer(world, models, clock=MonotonicClock(), time_scale=2.0, port=int(sys.argv[1]))
server.start()
print(server.port, flush=True)
time.sleep(600)
"""


class WorldProcess:
    """A world in a process of its own, that can be killed and stopped."""

    def __init__(self, port=0):
        command = [sys.executable, "-c", WORLD, str(port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(self._process.stdout.readline())

    def tell(self, number):
        self._process.send_signal(number)

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def start_world():
    started = []

    def start(port=0):
        started.append(WorldProcess(port))
        return started[-1]

    yield start
    for world in started:
        if world._process.poll() is None:
            world.kill()


@pytest.fixture(autouse=True)
def _short_timeouts(monkeypatch):
    monkeypatch.setattr(client, "ANSWER_TIMEOUT_S", 1.0)
    monkeypatch.setattr(client, "RETRY_S", 0.05)


class Flight:
    """A driver that is ticked in real time."""

    def __init__(self, port):
        self.port = RemotePort("drone_1", f"127.0.0.1:{port}")
        self.driver = DroneDriver(TELLO, self.port, random.Random(0))
        self.began_s = time.monotonic()
        self.driver.enter(World([cube("chair", x=4.0)]), None, 0.0)

    @property
    def now_s(self):
        return 2.0 * (time.monotonic() - self.began_s)

    def fly(self, text, number, while_flying=lambda: None):
        self.driver.start(SkillCall(text, (number,)), self.now_s)
        while_flying()
        deadline_s = time.monotonic() + 30.0
        while (result := self.driver.tick(self.now_s)).status is SkillStatus.RUNNING:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        return result

    def wait_until(self, is_met):
        deadline_s = time.monotonic() + 30.0
        while not is_met(self.port.read(0.0)):
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        self.driver.attend(self.now_s)


def test_a_world_that_is_killed_fails_the_skill_and_the_next_one_is_found(start_world):
    world = start_world()
    flight = Flight(world.port)
    try:
        assert flight.fly("mf", 50.0).status is SkillStatus.SUCCEEDED
        result = flight.fly("mf", 300.0, world.kill)
        assert (result.status, result.reason) == (SkillStatus.FAILED, LOST)
        with pytest.raises(PlannerError) as caught:
            flight.driver.enter(World(), None, 0.0)
        assert caught.value.code is ErrorCode.SERVER_UNREACHABLE
        assert flight.fly("mf", 50.0).reason == LOST
        flight.driver.halt(flight.now_s)
        assert flight.driver.in_sight(flight.now_s) == ()
        assert set(flight.driver.world.objects) == {"chair"}  # what is known of it
        before_s = flight.port.read(0.0).time_s
        start_world(world.port)
        flight.wait_until(lambda telemetry: not telemetry.is_lost)
        assert flight.port.read(0.0).time_s >= before_s
        assert abs(flight.driver.state.pose.x_m) < 0.1  # where its last world began
        assert flight.fly("mf", 50.0).status is SkillStatus.SUCCEEDED
        assert {thing.name for thing in flight.driver.in_sight(flight.now_s)} == {"chair"}
    finally:
        flight.port.close()


def test_a_world_that_is_silent_for_a_while_is_lost_and_found_as_it_was(start_world):
    world = start_world()
    flight = Flight(world.port)
    try:
        assert flight.fly("mf", 50.0).status is SkillStatus.SUCCEEDED
        result = flight.fly("mf", 300.0, lambda: world.tell(signal.SIGSTOP))
        assert (result.status, result.reason) == (SkillStatus.FAILED, LOST)
        assert flight.port._connection is None  # so nothing is asked, and nothing waited for
        world.tell(signal.SIGCONT)
        flight.wait_until(lambda telemetry: not telemetry.is_lost)
        assert flight.driver.state.pose.x_m > 0.3  # the same stage
        flight.wait_until(lambda telemetry: not telemetry.is_armed)  # the world has landed the undriven drone
    finally:
        flight.port.close()


def test_a_world_whose_time_stands_still_is_lost(start_world):
    clock = ManualClock()
    port = Listener([wire.answer("read", Telemetry(time_s=1.0, pose=Pose(), is_settled=True))] * 3).port(clock)
    assert not port.read(0.0).is_lost
    clock.advance(client.STALLED_S + 1.0)
    assert port.read(0.0).is_lost
    port.close()


class Listener:
    """A world that gives the answers of a list, whatever it is asked."""

    def __init__(self, answers):
        self._answers = [wire.answer("hello", "a world"), *answers]
        self._socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        connection, _ = self._socket.accept()
        self._socket.close()
        with connection, connection.makefile("rb") as lines:
            for answer in self._answers:
                lines.readline()
                connection.sendall(answer)

    def port(self, clock=None):
        return RemotePort("drone_1", f"127.0.0.1:{self._socket.getsockname()[1]}", clock)


@pytest.mark.parametrize(
    "answer",
    [b"", b"ok\n", b"ok [1]\n", b"error x y\n", b"error 999999 y\n", b"\xff\xfe\n", b"ok [{}]", b"no idea\n"],
    ids=repr,
)
def test_nonsense_is_a_lost_world(answer):
    port = Listener([answer]).port()
    telemetry = port.read(0.0)
    assert (telemetry.is_lost, telemetry.is_settled) == (True, False)
    port.stop()
    port.land()
    port.fly(Pose(), 0.0)
    assert (port.look(), port.survey()) == ((), ())
    with pytest.raises(PlannerError, match="has gone") as caught:
        port.picture()
    assert caught.value.code is ErrorCode.SERVER_UNREACHABLE
    port.close()
    port.close()


def test_what_the_world_refuses_is_no_loss():
    refusal = wire.refusal(PlannerError(ErrorCode.INVALID_CONFIG, "chair and desk overlap"))
    telemetry = wire.answer("read", Telemetry(time_s=1.0, pose=Pose(), is_settled=True))
    port = Listener([refusal, telemetry]).port()
    with pytest.raises(PlannerError, match="overlap"):
        port.enter((), Pose())
    assert not port.read(0.0).is_lost
    port.close()


@pytest.mark.parametrize("address", ["127.0.0.1:\u00b2", "127.0.0.1:", "nowhere"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(PlannerError, match="is no address of a world"):
        RemotePort("drone_1", address)
