# SPDX-License-Identifier: Apache-2.0
"""Nodes as processes: they start, find each other, and end cleanly, whatever ends them."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import rclpy

import llm_planner.msg as msgs
from llm_planner.core.errors import ErrorCode
from llm_planner.core.segment import ReportStatus
from llm_planner.ros import process, qos
from llm_planner.ros.composition import Composition, Fleet
from llm_planner.ros.process import CRASHED
from llm_planner.srv import Instruct
from tests.ros.nodes import Robot, Spinner, wait_until

pytestmark = pytest.mark.ros

PLANNER = [sys.executable, "-m", "llm_planner.ros.planner_node", "--ros-args", "-p", "backend:=fake"]
STOP_S = 5.0
TIMEOUT_S = 30.0


@contextlib.contextmanager
def start(*arguments):
    with subprocess.Popen([*PLANNER, *arguments], stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def robot(ros):
    robot = Robot("drone_1")
    yield robot
    robot.stop()


def test_a_planner_process_plans_refuses_its_double_and_ends_at_a_signal(robot):
    with start() as planner:
        assert robot.client.wait_for_planner(TIMEOUT_S)
        handle = robot.client.plan("do something")
        segment = next(iter(handle))
        assert segment.text == "l('I have no plan for this');"

        (engine,) = children(planner.pid)
        os.kill(engine, signal.SIGKILL)
        wait_until(lambda: children(planner.pid) not in ([], [engine]), TIMEOUT_S, "a new engine")
        handle.report(segment, ReportStatus.SUCCEEDED)
        result = handle.result(TIMEOUT_S)
        assert (result.error_code, result.plan) == (ErrorCode.NONE, segment.text)
        handle = robot.client.plan("do something else")
        next(iter(handle))

        with start("-p", "startup_check_s:=60.0") as double:  # discovery takes longer than 1 s on a busy machine
            _, errors = double.communicate(timeout=TIMEOUT_S)
        assert double.returncode == 1
        assert "DUPLICATE_NODE" in errors
        assert planner.poll() is None
        assert not handle.is_done

        planner.send_signal(signal.SIGINT)
        planner.send_signal(signal.SIGINT)  # an impatient user
        _, errors = planner.communicate(timeout=STOP_S)
    assert planner.returncode == 0
    assert "Traceback" not in errors
    assert handle.result(TIMEOUT_S).error_code is ErrorCode.SHUTTING_DOWN


@pytest.mark.parametrize("parameter", ["temperature:=99.0", "scheduler.policy:=chance"])
def test_a_wrong_parameter_ends_the_process_with_its_number(parameter):
    with start("-p", parameter, "-r", "__node:=misconfigured") as planner:
        _, errors = planner.communicate(timeout=TIMEOUT_S)
    assert planner.returncode == 1
    assert "INVALID_CONFIG" in errors


@pytest.mark.parametrize("rule", ["__node:=1st", "__node:=bad name", "__ns:=bad name"])
def test_a_name_that_ros_refuses_ends_the_process_in_one_line(rule):
    with start("-r", rule) as planner:
        _, errors = planner.communicate(timeout=TIMEOUT_S)
    assert planner.returncode == 1
    assert "Traceback" not in errors
    (line,) = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert "check its name" in line


@pytest.mark.parametrize(
    ("error", "what"), [(ValueError("bad name\nat 3"), "bad name"), (RuntimeError(), "RuntimeError")]
)
def test_why_a_node_cannot_start_is_one_line(error, what):
    assert process._reason(error) == f"the node cannot start: {what}; check its name, its namespace and its parameters"


def test_a_robot_whose_planner_no_node_can_be_ends_in_one_line():
    command = [sys.executable, "-m", "llm_planner.ros.robot_node", "--ros-args", "-p", "planner:='bad name'"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "no ROS node can be called 'bad name'; give a full name such as /planner" in done.stderr


STUMBLING = """
import sys
from rclpy.node import Node
from llm_planner.ros import process
from llm_planner.ros.guarded_executor import GuardedExecutor
from llm_planner.ros.steady import steady_timer

class Stumbling(Node):
    failure = None
    def __init__(self):
        super().__init__("stumbling")
        steady_timer(self, 0.01, lambda: 1 / 0)
    def end_goals(self):
        print("ended its goals")
    def close(self):
        self.destroy_node()

def fail(*_):
    raise RuntimeError("rclpy is broken")

if "broken" in sys.argv:
    GuardedExecutor.wait_for_ready_callbacks = fail
sys.exit(process.run(Stumbling, []))
"""


def test_a_process_outlives_its_callbacks_and_not_a_broken_rclpy():
    command = [sys.executable, "-c", STUMBLING]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as stumbling:
        assert "ZeroDivisionError" in stumbling.stderr.readline()
        stumbling.send_signal(signal.SIGINT)
        _, errors = stumbling.communicate(timeout=TIMEOUT_S)
    assert (stumbling.returncode, errors) == (0, "")  # logged once
    done = subprocess.run([*command, "broken"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stdout) == (CRASHED, "ended its goals\n")
    assert "rclpy is broken" in done.stderr


HANGING = """
import sys, threading, time
from rclpy.node import Node
from llm_planner.ros import process

class Hanging(Node):
    failure = None
    def __init__(self):
        print("builds", flush=True)
        if "build" in sys.argv:
            time.sleep(600)
        super().__init__("hanging")
        if "exit" in sys.argv:
            threading.Thread(target=time.sleep, args=(600,)).start()
        self.create_timer(0.1, lambda: print("up", flush=True))
    def end_goals(self):
        if "end_goals" in sys.argv:
            time.sleep(600)
    def close(self):
        self.destroy_node()

sys.exit(process.run(Hanging, []))
"""


@pytest.mark.parametrize(
    ("where", "last", "status"),
    [("build", "builds", -signal.SIGALRM), ("end_goals", "up", -signal.SIGALRM), ("exit", "up", 0)],
)
def test_a_process_that_hangs_wherever_ends_after_a_signal(where, last, status):
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HANGING, where], stdout=pipe, stderr=pipe, text=True) as hanging:
        while hanging.stdout.readline() != f"{last}\n":
            pass
        hanging.send_signal(signal.SIGTERM)
        _, errors = hanging.communicate()
    assert hanging.returncode == status
    assert (status == 0) or f"in {'__init__' if where == 'build' else where}\n" in errors  # where it hung


def test_a_composition_starts_a_fleet_and_stops_it(ros, tmp_path):
    composition = Composition(drones=1, arms=0, time_scale=20.0, planner={"backend": "fake"})
    node = rclpy.create_node("operator")
    outcomes = []
    node.create_subscription(msgs.PlanOutcome, "/drone_1/outcome", outcomes.append, qos.OUTCOMES)
    client = node.create_client(Instruct, "/drone_1/instruct")
    spinner = Spinner(node)
    with Fleet(composition.commands(), log_dir=tmp_path) as fleet:
        assert client.wait_for_service(TIMEOUT_S)
        wait_until(lambda: "accepts goals" in (tmp_path / "planner.log").read_text(), TIMEOUT_S)
        spinner.executor.create_task(client.call_async, Instruct.Request(instruction="say something", tag="1"))
        wait_until(lambda: outcomes, TIMEOUT_S)
        assert fleet.first_ended() is None
        assert fleet.stop() == {"planner": 0, "drone_1": 0}
    spinner.stop()
    node.destroy_node()
    assert (outcomes[0].error_code, outcomes[0].tag) == (ErrorCode.NONE, "1")


def children(pid):
    """Engine processes of a planner."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            parent = each.joinpath("stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == pid and b"child_process import main" in each.joinpath("cmdline").read_bytes():
                found.append(int(each.name))
    return found


PARENT = """
import os, sys, time
from pathlib import Path
from llm_planner.ros.composition import Fleet
robot = [sys.executable, "-c", "import os; exec(os.environ['ROBOT'])"]
Fleet({"drone_1": robot}, log_dir=Path(os.environ["LOGS"])).start()
time.sleep(600)
"""
ROBOT = """
import os, time
print("pid", os.getpid(), flush=True)
if "IMPORTS" in os.environ:
    time.sleep(600)
from rclpy.node import Node
from llm_planner.ros import process

class Robot(Node):
    failure = None
    def __init__(self):
        super().__init__("robot")
        self.create_timer(0.1, lambda: print("up", flush=True))
    def end_goals(self):
        print("stops", flush=True)
    def close(self):
        self.destroy_node()
        print("ends", flush=True)

process.run(Robot, [])
"""


def lines_after_the_parent_is_killed(tmp_path, until, **environment):
    """Returns what a robot of a fleet prints after the fleet's parent was killed, which it does not outlive."""
    log = tmp_path / "drone_1.log"
    environment = os.environ | {"LOGS": str(tmp_path), "ROBOT": ROBOT} | environment

    def lines():
        return log.read_text().splitlines() if log.exists() else []

    with subprocess.Popen([sys.executable, "-c", PARENT], env=environment) as parent:
        wait_until(lambda: any(line.startswith(until) for line in lines()), TIMEOUT_S)
        parent.kill()
    pid = int(lines()[0].split()[1])
    try:
        wait_until(lambda: not is_alive(pid), TIMEOUT_S, "end of the orphan")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return lines()


def test_a_robot_whose_parent_is_killed_stops_first(tmp_path):
    lines = lines_after_the_parent_is_killed(tmp_path, "up")
    assert [line for line in lines if line != "up"][1:] == ["stops", "ends"]


def test_a_process_whose_parent_is_killed_while_it_imports_ends_too(tmp_path):
    assert len(lines_after_the_parent_is_killed(tmp_path, "pid", IMPORTS="1")) == 1


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_commands_of_a_composition(tmp_path):
    composition = Composition(drones=2, arms=1, seed=5, scenario=tmp_path / "s.yaml", planner={"engine.model": "tiny"})
    commands = composition.commands()
    assert list(commands) == ["planner", "drone_1", "drone_2", "arm_1"]
    assert commands["planner"][-2:] == ["-p", "engine.model:=tiny"]
    assert {"robot_model:=indy7", "seed:=7", f"scenario:={tmp_path}/s.yaml"} <= set(commands["arm_1"])
