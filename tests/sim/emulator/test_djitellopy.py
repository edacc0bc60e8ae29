# SPDX-License-Identifier: Apache-2.0
"""The emulator under a third party's driver: djitellopy, unchanged, in a process of its own."""

import importlib.util
import json
import subprocess
import sys
import time

import pytest

from llm_planner.core.clock import MonotonicClock
from llm_planner.robots.drivers.tello_sockets import TelloSockets
from llm_planner.robots.library import RobotLibrary
from llm_planner.sim.emulator.network import EmulatorSettings, TelloNetwork
from tests.robots.loopback import loopback

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("djitellopy") is None, reason="djitellopy is missing: requirements/drivers.txt"
)
SAME_HOST = """
import sys
from pathlib import Path
from llm_planner.sim.emulator.same_host import run_on_same_host
run_on_same_host(Path(sys.argv[2]), sys.argv[3:], sys.argv[1])
"""
PROGRAM = """
import importlib.util, json, sys, types
if importlib.util.find_spec("av") is None:  # djitellopy imports it for video, which is not shown here
    sys.modules["av"] = types.ModuleType("av")
from djitellopy import Tello, TelloException

first, second = (Tello(host) for host in sys.argv[1:])
for tello in (first, second):
    tello.connect()
    tello.takeoff()
first.set_speed(50)
first.move_forward(100)
first.rotate_clockwise(90)
first.go_xyz_speed(100, 50, 20, 100)
first.send_rc_control(0, 0, 0, 0)
second.move_left(60)
received = {
    "speed": first.query_speed(), "battery": second.get_battery(), "height": first.get_height(),
    "attitude": first.query_attitude()["yaw"], "sdk": first.query_sdk_version(), "tof": first.query_distance_tof(),
}
try:
    second.move_forward(501)
except TelloException as error:
    received["refused"] = str(error)
first.land()
print(json.dumps(received))
second.emergency()
"""


def test_djitellopy_flies_two_drones(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    addresses = [loopback(30), loopback(31)]
    settings = EmulatorSettings(time_scale=10.0)
    with TelloNetwork(RobotLibrary().get("tello"), addresses, clock=MonotonicClock(), settings=settings) as network:
        command = [sys.executable, "-c", SAME_HOST, loopback(32), str(program), *addresses]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            deadline = time.monotonic() + 120
            while running.poll() is None and time.monotonic() < deadline:
                TelloSockets(loopback(33)).close()  # a driver of ours alongside, which shares the port, comes and goes
                time.sleep(0.05)
            running.kill()
            printed, errors = running.communicate()
        assert running.returncode == 0, errors
        received = json.loads(printed)
        with network.lock:
            first, second = (drone.flight.pose for drone in network.drones)
    assert (first.x_m, first.y_m, first.z_m, first.yaw_deg) == pytest.approx((1.5, -1.0, 0.0, -90.0))
    assert (second.x_m, second.y_m) == pytest.approx((0.0, 0.6))
    assert "out of range" in received.pop("refused")
    assert received.pop("battery") > 80
    assert received == {"speed": 50, "height": 120, "attitude": 90, "sdk": "20", "tof": 120.0}
