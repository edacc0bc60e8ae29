# SPDX-License-Identifier: Apache-2.0
"""Nodes as processes: they start, find each other, and end cleanly, whatever ends them."""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
import rclpy

import llm_planner.msg as msgs
from llm_planner.core.errors import ErrorCode
from llm_planner.core.request import PlanRequest
from llm_planner.core.segment import ReportStatus
from llm_planner.ros import process, qos, robot_group
from llm_planner.ros.composition import Composition, Fleet
from llm_planner.ros.guarded_executor import GuardedExecutor
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


def test_a_planner_that_is_stopped_tells_every_client(robot):
    with start() as planner:
        assert robot.client.wait_for_planner(TIMEOUT_S)
        handles = [robot.client.ask(request_of(f"drone_{number}")) for number in range(20)]
        for handle in handles:
            next(iter(handle))
        planner.terminate()
        planner.communicate(timeout=STOP_S)
    assert [handle.result(TIMEOUT_S).error_code for handle in handles] == [ErrorCode.SHUTTING_DOWN] * 20


def request_of(robot_id):
    return PlanRequest(
        request_id=uuid.uuid4().hex,
        client_id=robot_id,
        robot_id=robot_id,
        robot_model="tello",
        instruction="do something",
    )


def test_an_end_takes_as_long_as_there_is_something_to_do_within_bounds(ros):
    node, executor = rclpy.create_node("ending"), GuardedExecutor()
    executor.add_node(node)
    done = []
    for number in range(50):
        executor.create_task(lambda number=number: done.append(number) or executor.create_task(done.append, number))
    process._flush(executor)
    assert len(done) == 100
    executor.create_task(busy := lambda: executor.create_task(busy))
    begun_s = time.monotonic()
    process._flush(executor)
    assert time.monotonic() - begun_s >= process.MAX_FLUSH_S
    executor.shutdown()
    node.destroy_node()


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
    refusal = process._refusal(error)
    assert refusal.message == f"the node cannot start: {what}; check its name, its namespace and its parameters"


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


RISING = """
import time
from llm_planner.ros import process

class Rising:
    def __init__(self):
        try:
            print("rises", flush=True)
            while True:  # as a driver does: a signal that comes to another thread ends no sleep
                time.sleep(0.05)
        except BaseException as error:
            print(f"lands, because of {error!r}", flush=True)
            raise

process.run(Rising, [], is_interruptible=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_what_would_leave_a_drone_in_the_air(number):
    with subprocess.Popen([sys.executable, "-c", RISING], stdout=subprocess.PIPE, text=True) as rising:
        try:
            assert rising.stdout.readline() == "rises\n"
            rising.send_signal(number)
            said, _ = rising.communicate(timeout=STOP_S)
        finally:
            rising.kill()
    assert (rising.returncode, said) == (0, "lands, because of SystemExit()\n")


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


GROUP = """
import os, sys, threading, time
from rclpy.node import Node
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.ros import process
from llm_planner.ros.guarded_executor import GuardedExecutor

process.RESTART_DELAY_S = 0.1
spin_once = GuardedExecutor.spin_once

def spin_once_or_fail(executor, timeout_sec):
    if threading.current_thread().name == "crashes":
        raise RuntimeError("rclpy has failed")
    spin_once(executor, timeout_sec)

GuardedExecutor.spin_once = spin_once_or_fail

class Robot(Node):
    failure = None
    def __init__(self, name):
        super().__init__(name)
        say(name, "built")
        if name == "refuses":
            raise PlannerError(ErrorCode.INVALID_CONFIG, "no such model")
        if name == "breaks":
            raise OSError("no body")
        self.create_timer(0.05, self.tick)
    def tick(self):
        say(self.get_name(), "up")
        if self.get_name() == "hangs":
            time.sleep(600)
        if self.get_name() == "fails":
            self.failure = PlannerError(ErrorCode.DUPLICATE_NODE, "another robot")
        if self.get_name() == "wears_out":
            self.failure = process.CrashError(ErrorCode.ENGINE_FAILED, "no engine")
    def end_goals(self):
        say(self.get_name(), "stops")
    def close(self):
        say(self.get_name(), "ends")
        self.destroy_node()

def say(*words):
    os.write(1, (" ".join(words) + chr(10)).encode())

process.run_group({name: lambda name=name: Robot(name) for name in sys.argv[1:]}, [])
"""


class Group:
    """A process with some nodes, and what they print."""

    def __init__(self, path, *names):
        self._out, self._errors = path / "out", path / "errors"
        with self._out.open("wb") as out, self._errors.open("wb") as errors:
            command = [sys.executable, "-c", GROUP, *names]
            self.process = subprocess.Popen(command, stdout=out, stderr=errors)

    def lines(self):
        return self._out.read_text().splitlines()

    def errors(self):
        return self._errors.read_text()


@pytest.fixture
def group(tmp_path):
    started = []

    def start_group(*names):
        started.append(Group(tmp_path, *names))
        return started[-1]

    yield start_group
    for each in started:
        each.process.kill()
        each.process.wait()


def test_what_one_robot_of_a_process_does_ends_no_other(group):
    shared = group("good", "refuses", "breaks", "fails", "crashes", "wears_out")
    for name in ("crashes", "breaks", "wears_out"):
        wait_until(lambda name=name: shared.errors().count(f"{name} ended") == 1 + process.MAX_RESTARTS, TIMEOUT_S)
    num_up = shared.lines().count("good up")
    wait_until(lambda: shared.lines().count("good up") > num_up + 5, TIMEOUT_S)
    lines, errors = shared.lines(), shared.errors()
    assert "good ends" not in lines
    assert "error: refuses: no such model [INVALID_CONFIG" in errors
    assert lines.count("refuses built") == lines.count("fails built") == 1
    assert lines.index("fails stops") < lines.index("fails ends")
    assert lines.count("crashes built") == lines.count("crashes ends") == 1 + process.MAX_RESTARTS
    assert "crashes ended with status 2; the others go on without it" in errors
    assert "wears_out ended with status 2; the others go on without it" in errors
    shared.process.send_signal(signal.SIGTERM)
    assert shared.process.wait(TIMEOUT_S) == 0
    assert shared.lines().index("good stops") < shared.lines().index("good ends")


def test_a_robot_whose_callback_hangs_stops_neither_the_others_nor_the_end(group):
    shared = group("good", "hangs")
    wait_until(lambda: "hangs up" in shared.lines(), TIMEOUT_S)
    num_up = shared.lines().count("good up")
    wait_until(lambda: shared.lines().count("good up") > num_up + 5, TIMEOUT_S)
    shared.process.send_signal(signal.SIGTERM)
    assert shared.process.wait(TIMEOUT_S) == -signal.SIGALRM
    assert shared.lines().index("good stops") < shared.lines().index("good ends")


def test_a_process_ends_when_all_its_robots_have(group):
    assert group("refuses").process.wait(TIMEOUT_S) == process.REFUSED
    assert group("refuses", "fails").process.wait(TIMEOUT_S) == process.REFUSED
    assert group("refuses", "breaks").process.wait(TIMEOUT_S) == CRASHED


def test_robots_that_share_a_process_are_robots_like_any_other(ros, tmp_path):
    composition = Composition(drones=1, arms=1, time_scale=20.0, planner={"backend": "fake"}, robots_per_process=2)
    node = rclpy.create_node("operator")
    outcomes, statuses, clients = [], {}, {}
    for name in ("drone_1", "arm_1"):
        node.create_subscription(msgs.PlanOutcome, f"/{name}/outcome", outcomes.append, qos.OUTCOMES)
        note = functools.partial(statuses.__setitem__, name)
        node.create_subscription(msgs.RobotStatus, f"/{name}/status", note, qos.STATUSES)
        clients[name] = node.create_client(Instruct, f"/{name}/instruct")
    spinner = Spinner(node)
    with Fleet(composition.commands(), log_dir=tmp_path) as fleet:
        assert all(client.wait_for_service(TIMEOUT_S) for client in clients.values())
        wait_until(lambda: "accepts goals" in (tmp_path / "planner.log").read_text(), TIMEOUT_S)
        for name, client in clients.items():
            order = Instruct.Request(instruction="say something", tag=name)
            spinner.executor.create_task(client.call_async, order)
        wait_until(lambda: len(outcomes) == len(statuses) == 2, TIMEOUT_S)
        assert fleet.stop() == {"planner": 0, "robots_1": 0}
    spinner.stop()
    node.destroy_node()
    assert {(outcome.tag, outcome.robot_id) for outcome in outcomes} == {("drone_1",) * 2, ("arm_1",) * 2}
    assert {name: status.robot_model for name, status in statuses.items()} == {"drone_1": "tello", "arm_1": "indy7"}


def test_a_robot_that_shares_a_process_and_cannot_start_is_named(tmp_path):
    words = [sys.executable, "-m", "llm_planner.ros.robot_group", "drone_1", "drone_2", "--ros-args"]
    words += ["-p", "drone_1:robot_model:=tello", "-p", "drone_2:robot_model:=no_such_model"]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(words, stderr=log) as robots:
        try:
            wait_until(lambda: "drone_2 ended" in (tmp_path / "log").read_text(), TIMEOUT_S)
            assert "error: drone_2: no robot model 'no_such_model'" in (tmp_path / "log").read_text()
            assert "drone_1 ended" not in (tmp_path / "log").read_text()
            robots.send_signal(signal.SIGINT)
            assert robots.wait(TIMEOUT_S) == 0
        finally:
            robots.kill()


def test_a_robot_that_is_built_again_does_not_begin_its_scenario_again(monkeypatch):
    told, untold, built = {"scenario": "s.yaml"}, {"scenario": ""}, []

    def build(name, *, parameter_overrides):
        built.append((name, told | {each.name: each.value for each in parameter_overrides}))

    monkeypatch.setattr(robot_group, "RobotNode", build)
    monkeypatch.setattr(process, "run_group", lambda builds, _: [each() for each in 3 * [*builds.values()]])
    robot_group.main(["drone_1", "drone_2", "--ros-args"])
    assert built == [(name, parameters) for parameters in (told, untold, untold) for name in ("drone_1", "drone_2")]


def test_commands_of_a_composition(tmp_path):
    composition = Composition(drones=2, arms=1, seed=5, scenario=tmp_path / "s.yaml", planner={"engine.model": "tiny"})
    commands = composition.commands()
    assert list(commands) == ["planner", "drone_1", "drone_2", "arm_1"]
    assert commands["planner"][-2:] == ["-p", 'engine.model:="tiny"']
    assert {'robot_model:="indy7"', "seed:=7", f'scenario:="{tmp_path}/s.yaml"'} <= set(commands["arm_1"])
