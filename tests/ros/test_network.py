# SPDX-License-Identifier: Apache-2.0
"""A fleet stays on this host unless asked for more, without shared memory."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from llm_planner.ros.network import PROFILE, PROFILE_VARIABLES, RANGE, TRANSPORTS, Network, environment

pytestmark = pytest.mark.ros

TALK = """
import os, sys, threading, time
import rclpy
from std_msgs.msg import String

rclpy.init()
node, received, is_over = rclpy.create_node(sys.argv[1]), set(), threading.Event()
node.create_subscription(String, "/said", lambda message: received.add(message.data), 10)
publisher = node.create_publisher(String, "/said", 10)
threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
until_s, is_told = time.monotonic() + 30, False
while not is_over.is_set():
    publisher.publish(String(data=sys.argv[1]))
    rclpy.spin_once(node, timeout_sec=0.1)
    if not is_told and (len(received) == 2 or time.monotonic() > until_s):
        is_told = True
        print(*sorted(received), sep=",", flush=True)
print(*(line.split()[-1] for line in open("/proc/self/maps") if "/dev/shm/fast" in line), sep=",")
own = set()
for name in os.listdir("/proc/self/fd"):
    try:
        own.add(os.readlink("/proc/self/fd/" + name))
    except OSError:
        pass
rows = [line.split() for line in open("/proc/net/udp")][1:]
print(*{row[1].split(":")[0] for row in rows if f"socket:[{row[9]}]" in own}, sep=",")
"""
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
DEFAULTS = {name: value for name, value in os.environ.items() if name not in (RANGE, TRANSPORTS, *PROFILE_VARIABLES)}
LOOPBACK, GROUP = "0100007F", "0100FFEF"  # 127.0.0.1 and 239.255.0.1 as the kernel writes them
HOST = environment(Network.HOST, DEFAULTS)


def talk(*environments):
    """Returns what processes that talk to each other received, which shared memory and which addresses they have."""
    processes = [
        subprocess.Popen([sys.executable, "-c", TALK, f"node_{i}"], env=each, text=True, **PIPES)
        for i, each in enumerate(environments)
    ]
    received = [process.stdout.readline() for process in processes]  # by now, all of them have
    rest = [process.communicate(timeout=60)[0].splitlines() for process in processes]
    lines = [(first, *others) for first, others in zip(received, rest, strict=True)]
    return [tuple(set(filter(None, line.strip().split(","))) for line in answer) for answer in lines]


@pytest.mark.parametrize(
    "other",
    [
        HOST,
        DEFAULTS,
        DEFAULTS | {RANGE: "LOCALHOST"},
        DEFAULTS | {TRANSPORTS: "UDPv4"},
        environment(Network.SUBNET, DEFAULTS),
    ],
    ids=["the same", "nothing set", "LOCALHOST", "UDPv4", "subnet"],
)
def test_a_node_of_this_host_has_loopback_sockets_alone_and_receives_from_its_neighbours(other):
    ours, theirs = talk(HOST, other)
    assert ours[0] == theirs[0] == {"node_0", "node_1"}
    assert ours[1] == set()
    assert ours[2] == {LOOPBACK, GROUP}


def test_on_request_a_node_listens_to_the_network_without_shared_memory():
    (ours, _) = talk(environment(Network.SUBNET, HOST), DEFAULTS)
    assert ours[1] == set()
    assert "00000000" in ours[2]


BUFFERS = """
import os, socket, time
from llm_planner.ros.spinning import spinning
with spinning("buffers"):
    time.sleep(0.5)
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as opened:
                if opened.family == socket.AF_INET:
                    print(opened.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
        except OSError:
            continue
"""


def test_a_node_of_this_host_has_room_for_bursts():
    """Else packets get lost, and what is reliable comes again hundreds of milliseconds later."""
    most = int(Path("/proc/sys/net/core/rmem_max").read_text())
    usual = int(Path("/proc/sys/net/core/rmem_default").read_text())
    command = [sys.executable, "-c", BUFFERS]
    said = subprocess.run(command, capture_output=True, text=True, env=dict(HOST), timeout=60.0, check=True).stdout
    largest = max(map(int, said.split()))
    assert (
        largest == 2 * 4_194_304 if most >= 4_194_304 else largest >= usual
    )  # the kernel doubles what it is asked for


def test_the_profile_is_well_formed():
    values = {element.tag.rpartition("}")[2]: element.text for element in ET.parse(PROFILE).getroot().iter()}
    assert "interfaceWhiteList" in values
    assert int(values["sec"]) + int(values["nanosec"]) / 1e9 <= 0.5  # between announcements: what a command waits for


def test_what_the_user_has_set_stays():
    mine = {PROFILE_VARIABLES[0]: "mine.xml", "ROS_LOCALHOST_ONLY": "0", "HOME": "x"}
    assert environment(Network.HOST, mine) == {
        PROFILE_VARIABLES[0]: "mine.xml",
        "HOME": "x",
        RANGE: "LOCALHOST",
        TRANSPORTS: "UDPv4",
    }
    other = environment(Network.HOST, {"RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"})
    assert (other[RANGE], PROFILE_VARIABLES[0] in other) == ("LOCALHOST", False)
    assert environment(Network.SUBNET, {TRANSPORTS: "DEFAULT", RANGE: "OFF"}) == {
        TRANSPORTS: "DEFAULT",
        RANGE: "SUBNET",
    }


def test_it_may_be_asked_again_of_what_it_said():
    assert environment(Network.HOST, HOST) == HOST
    assert not set(PROFILE_VARIABLES) & environment(Network.SUBNET, HOST).keys()
