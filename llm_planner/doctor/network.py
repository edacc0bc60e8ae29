# SPDX-License-Identifier: Apache-2.0
"""Checks of ROS 2: does it load, do messages pass between processes, and are the robots there?"""

import importlib.util
import ipaddress
import os
import shutil
import socket
import statistics
import subprocess
from collections.abc import Iterator, Sequence

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.text import node_name
from llm_planner.doctor.finding import Finding, Level
from llm_planner.doctor.machine import SETUP
from llm_planner.doctor.probe import Answer, probe

MAX_DOMAIN = 101  # above, DDS ports meet Linux's ephemeral ones
PING_TIMEOUT_S = 2.0
BLOCKED = "let UDP ports 7400 and up pass the firewall; `llm-planner up` needs them on the loopback interface only"


def ros(robots: Sequence[str], timeout_s: float) -> Iterator[Finding]:
    """Yields how ROS 2 is, and whether robots given by name are there."""
    yield from _domain(os.environ.get("ROS_DOMAIN_ID", ""))
    if importlib.util.find_spec("rclpy") is None:
        fix = f"{SETUP}, or source ROS 2: `source /opt/ros/jazzy/setup.bash`"
        yield Finding(check="ros", level=Level.ERROR, text="rclpy is not installed", fix=fix)
        return
    if importlib.util.find_spec("llm_planner.msg") is None:
        text = "the interfaces (llm_planner.msg) are not compiled"
        yield Finding(check="ros", level=Level.ERROR, text=text, fix=f"{SETUP}, or `colcon build`")
        return
    answer = probe("llm_planner.ros.loopback", timeout_s=timeout_s)
    if answer.error:
        yield Finding(
            check="ros", level=Level.ERROR, text=answer.error, fix=f"{answer.fix}; compare RMW_IMPLEMENTATION"
        )
        return
    yield Finding(check="ros", text=f"rclpy and the interfaces load; {answer.values['rmw']}")
    yield _transport(answer)
    yield from _who(answer, [robot for robot in robots if not is_address(robot)])


def _domain(text: str) -> Iterator[Finding]:
    number = int(text or 0) if text.isdecimal() or not text else -1  # one that is empty is 0 for ROS, too
    if not 0 <= number <= 232:
        yield Finding(check="dds", level=Level.ERROR, text=f"ROS_DOMAIN_ID is {text!r}", fix="set it to 0 to 101")
    elif number > MAX_DOMAIN:
        text = f"ROS_DOMAIN_ID is {number}: its ports may be taken by outgoing connections"
        yield Finding(check="dds", level=Level.WARNING, text=text, fix="set it to 0 to 101")


def _transport(answer: Answer) -> Finding:
    trips_ms = answer.values["trips_ms"]
    if not trips_ms:
        text = "no message gets from one process to another on this machine"
        return Finding(check="dds", level=Level.ERROR, text=text, fix=BLOCKED)
    shown = f"median {statistics.median(trips_ms):.1f} ms, worst {max(trips_ms):.1f} ms of {len(trips_ms)}"
    return Finding(check="dds", text=f"round trip between two processes: {shown}; domain {answer.values['domain']}")


def _who(answer: Answer, names: Sequence[str]) -> Iterator[Finding]:
    planners, robots = answer.values["planners"], answer.values["robots"]
    yield Finding(check="planner", text=f"running: {', '.join(planners)}" if planners else "none is running")
    if robots:
        yield Finding(check="robots", text=f"running: {', '.join(robots)}")
    for name in names:
        if f"/{name.strip('/')}" in robots:
            continue
        text = f"no robot node /{name.strip('/')} can be seen"
        fix = (
            "start it (`llm-planner robot NAME --network host`); on two machines, compare ROS_DOMAIN_ID and start with "
            "network subnet"
        )
        yield Finding(check="robots", level=Level.ERROR, text=text, fix=fix)


def is_address(text: str) -> bool:
    """Returns whether a robot is given by an address or a host name with a dot, rather than by the name of its node."""
    return "." in text or ":" in text


def require_names(robots: Sequence[str]) -> None:
    """Refuses what is neither an address nor the name of a node.

    Raises:
        PlannerError: INVALID_ROBOT_ID.
    """
    for robot in robots:
        if is_address(robot):
            continue
        try:
            node_name(robot)
        except PlannerError as error:
            hint = "give a name such as drone_1: letters, digits and '_', not a digit first; or an address"
            raise PlannerError(ErrorCode.INVALID_ROBOT_ID, f"{robot[:80]!r} is no robot's name; {hint}") from error


def robot_at(address: str) -> Iterator[Finding]:
    """Yields whether a machine answers. Nothing is sent to the robot itself: a message could end a flight."""
    fix = "switch it on; join its network (a Tello's is called TELLO-...); compare address and netmask"
    try:
        number = str(ipaddress.ip_address(address))
    except ValueError:
        try:
            number = socket.gethostbyname(address)
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that no name server takes
            text = f"{address} has no address ({getattr(error, 'strerror', None) or error})"
            yield Finding(check="robots", level=Level.ERROR, text=text, fix="give its IPv4 address")
            return
    if _answers(number):
        yield Finding(check="robots", text=f"{address} answers")
    else:
        yield Finding(check="robots", level=Level.ERROR, text=f"{address} does not answer", fix=fix)


def _answers(number: str) -> bool:
    """Returns whether a machine answers a ping or, where none can be sent, refuses a connection."""
    if ping := shutil.which("ping"):
        command = [ping, "-n", "-c", "1", "-W", f"{PING_TIMEOUT_S:.0f}", number]
        done = subprocess.run(command, capture_output=True, timeout=2 * PING_TIMEOUT_S, check=False)
        if done.returncode in {0, 1}:  # else it was not sent: in many containers nobody may
            return done.returncode == 0
    family = socket.AF_INET6 if ":" in number else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as endpoint:
        endpoint.settimeout(PING_TIMEOUT_S)
        try:
            endpoint.connect((number, 9))  # the discard port: it is closed, so a machine that is there refuses
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return True
