# SPDX-License-Identifier: Apache-2.0
"""A world in one process, drivers in others: over a real socket, here within one process."""

import contextlib
import math
import random
import socket
import threading
import time

import pytest

pytest.importorskip("mujoco")

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.skill import SkillCall
from llm_planner.robots.driver import SkillStatus
from llm_planner.robots.model import Pose
from llm_planner.robots.world import World
from llm_planner.sim.physics import wire
from llm_planner.sim.physics.client import RemotePort
from llm_planner.sim.physics.drone_driver import DroneDriver
from llm_planner.sim.physics.frame import Home
from llm_planner.sim.physics.port import Telemetry
from llm_planner.sim.physics.server import WorldServer
from llm_planner.sim.physics.world import PhysicsWorld
from tests.sim.physics.builders import LIBRARY, cube

TELLO = LIBRARY.get("tello")


@pytest.fixture
def server():
    world = PhysicsWorld(wind_m_per_s=0.0)
    for number in (1, 2):
        world.add_robot(f"drone_{number}", TELLO, Home(x_m=3.0 * number))
    server = WorldServer(world, dict.fromkeys(world.robots, TELLO), clock=MonotonicClock(), time_scale=5.0)
    server.start()
    yield server
    server.close()


@pytest.fixture
def connect(server):
    ports = []

    def open_port(name="drone_1"):
        ports.append(RemotePort(name, f"127.0.0.1:{server.port}"))
        return ports[-1]

    yield open_port
    for port in ports:
        port.close()


def test_a_driver_elsewhere_flies_a_drone_here(server, connect):
    port = connect()
    driver = DroneDriver(TELLO, port, random.Random(0))
    driver.enter(World([cube("chair", x=4.0)]), None, 0.0)
    driver.start(SkillCall("mf", (100.0,)), 0.0)
    deadline_s = time.monotonic() + 20.0
    while (result := driver.tick(0.0)).status is SkillStatus.RUNNING and time.monotonic() < deadline_s:
        time.sleep(0.005)
    assert result.status is SkillStatus.SUCCEEDED, result.reason
    assert abs(driver.state.pose.x_m - 1.0) < 0.1
    assert set(driver.world.objects) == {"chair"}
    driver.start(SkillCall("od", ("chair",)), 0.0)
    while (result := driver.tick(0.0)).status is SkillStatus.RUNNING:
        time.sleep(0.005)
    assert 280 < result.value < 320


def test_a_robot_has_one_driver_and_is_made_safe_when_that_has_gone(server, connect):
    port = connect()
    port.enter((), TELLO.start)
    other = connect("drone_2")
    other.enter((), TELLO.start)
    with pytest.raises(PlannerError, match="drone_1 has a driver already") as caught:
        connect()
    assert caught.value.code is ErrorCode.DUPLICATE_NODE
    port.close()
    deadline_s = time.monotonic() + 10.0
    while server.world.drones["drone_1"].is_armed and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert not server.world.drones["drone_1"].is_armed
    assert other.read(0.0).is_armed
    connect()


def test_what_is_wrong_comes_back_with_its_number(server, connect):
    port = connect()
    with pytest.raises(PlannerError, match="finite numbers") as caught:
        port.enter((), Pose(x_m=math.nan))
    assert caught.value.code is ErrorCode.INVALID_POSE
    with pytest.raises(PlannerError, match="overlap"):
        port.enter((cube("a"), cube("b")), TELLO.start)
    with pytest.raises(PlannerError, match="no robot 'drone_9'"):
        connect("drone_9")
    with socket.create_connection(("127.0.0.1", server.port)) as raw, raw.makefile("rb") as lines:
        raw.sendall(wire.order("stop"))
        assert lines.readline() == b"error 505 say hello first\n"
    assert port.read(0.0).is_settled


def test_a_line_without_an_end_is_dropped_and_others_go_on(server, connect, monkeypatch):
    monkeypatch.setattr(wire, "MAX_LINE_BYTES", 10_000)
    port = connect("drone_2")
    sent = 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=10.0) as raw, raw.makefile("rb") as lines:
        with contextlib.suppress(ConnectionError):
            for sent in range(1000):  # noqa: B007 (how far it came)
                raw.sendall(b"enter " + b"x" * 100_000)
                time.sleep(0.001)
        with contextlib.suppress(ConnectionError):
            assert b"more than 10000 bytes" in lines.readline()
    assert sent < 999
    assert port.read(0.0).is_settled


def test_there_is_no_place_for_very_many_who_never_say_hello(server):
    with contextlib.ExitStack() as stack:
        strangers = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10.0)) for _ in range(24)
        ]
        dropped = [raw for raw in strangers[18:] if raw.recv(1) == b""]
        assert len(dropped) == 6


@pytest.mark.parametrize(
    "order",
    [
        ("fly", Pose(x_m=math.nan), 0.0),
        ("fly", Pose(), math.inf),
        ("take_off", 1e300),
        ("move", (0.0,) * 6),
        ("grip", True),
        ("enter", tuple(cube(f"cube_{n}") for n in range(1_001)), Pose()),
        ("enter", (cube(x=1e300),), Pose()),
        ("enter", (), Pose(z_m=math.inf)),
    ],
    ids=str,
)
def test_an_order_that_cannot_be_is_refused_and_spoils_no_world(server, order):
    with socket.create_connection(("127.0.0.1", server.port)) as raw, raw.makefile("rb") as lines:
        raw.sendall(wire.order("hello", "drone_1") + wire.order(*order) + wire.order("read"))
        assert wire.read_answer("hello", lines.readline()) == server.world_id
        assert lines.readline().startswith(b"error ")
        assert math.isfinite(wire.read_answer("read", lines.readline()).pose.x_m)


@pytest.mark.parametrize("line", [b"error\n", b"error x y\n", b"error 99999 no such code\n", b"ok\n", b"\n", b"ok {\n"])
def test_a_world_that_makes_no_sense_is_said_to(line):
    with pytest.raises(PlannerError, match="the world answers"):
        wire.read_answer("read", line)


def test_a_world_that_answers_without_an_end_is_dropped(monkeypatch):
    monkeypatch.setattr(wire, "MAX_LINE_BYTES", 10_000)

    def answer():
        connection, _ = listener.accept()
        with connection, contextlib.suppress(ConnectionError):
            connection.sendall(b"ok " + b"x" * 20_000)
            connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        world = threading.Thread(target=answer)
        world.start()
        with pytest.raises(PlannerError, match="its answer is too long"):
            RemotePort("drone_1", f"127.0.0.1:{listener.getsockname()[1]}")
        world.join()


@pytest.mark.parametrize(
    "line", [b"\n", b"dance []\n", b"fly [1]\n", b"fly {\n", b"\xff\xfe 1\n", b"enter [[[],{}]]x\n"]
)
def test_garbage_is_refused_and_the_world_goes_on(server, line):
    with socket.create_connection(("127.0.0.1", server.port)) as raw, raw.makefile("rb") as lines:
        raw.sendall(line)
        assert lines.readline().startswith(b"error 505 ")
        raw.sendall(wire.order("hello", "drone_1"))
        assert lines.readline().startswith(b"ok [")


def test_a_world_that_has_gone_is_said_to_have_gone():
    with pytest.raises(PlannerError, match=r"no physical world at 127\.0\.0\.1:9") as caught:
        RemotePort("drone_1", "127.0.0.1:9")
    assert caught.value.code is ErrorCode.SERVER_UNREACHABLE
    with pytest.raises(PlannerError, match="no address"):
        RemotePort("drone_1", "here")


def test_a_taken_port_is_named(server):
    with pytest.raises(PlannerError, match="is taken") as caught:
        WorldServer(PhysicsWorld(), {}, clock=MonotonicClock(), port=server.port)
    assert caught.value.code is ErrorCode.DUPLICATE_NODE


def test_everything_comes_over_the_wire_as_it_went():
    thing = cube("ball", velocity_m_per_s=(1.0, 0.0, 0.0))  # moves for ever
    telemetry = Telemetry(time_s=1.0, pose=Pose(x_m=1.5), is_settled=False, collisions=("a",), near=(thing,))
    assert wire.read_answer("read", wire.answer("read", telemetry)) == telemetry
    assert wire.read_order(wire.order("enter", (thing,), Pose())) == ("enter", ((thing,), Pose()))
