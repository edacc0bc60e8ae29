# SPDX-License-Identifier: Apache-2.0
"""A planner that still loads its model is waited for, by robots and by their operators; not for ever."""

import json
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import rclpy
from rclpy.client import Client
from typer.testing import CliRunner

from llm_planner.cli.main import app
from llm_planner.cli.send import _obeyed
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.segment import ReportStatus
from llm_planner.msg import PlanOutcome
from llm_planner.ros.commander import (
    DISCOVERY_S,
    EMPTY_S,
    POLL_S,
    SIGN_OF_LIFE_S,
    Commander,
    _is_anything_running,
    planner_of,
    robot_name,
)
from llm_planner.ros.graph import robot_nodes
from llm_planner.ros.planner_client import PlannerClient
from llm_planner.ros.spinning import spinning
from llm_planner.srv import Instruct, Stop
from tests.ros.nodes import Planner, Robot, wait_until
from tests.ros.test_robot_node import Operator

pytestmark = pytest.mark.ros

TIMEOUT_S = 20.0


class LoadingPlanner(Planner):
    """A planner whose model is there when the test says so."""

    def __init__(self, name):
        self.loaded = threading.Event()
        super().__init__(name)

    def _build(self, config, book):
        server = super()._build(config, book)
        server.wait_ready = self.loaded.wait
        return server


@pytest.fixture
def start(ros):
    started = []

    def start(cls, *arguments, **fields):
        started.append(cls(*arguments, **fields))
        return started[-1]

    yield start
    for node in reversed(started):
        node.stop()


class Send:
    """``llm-planner send`` in a thread of its own."""

    def __init__(self, *arguments):
        self._thread = threading.Thread(target=self._run, args=(["send", *arguments],), daemon=True)
        self._thread.start()

    def _run(self, arguments):
        self._result = CliRunner().invoke(app, arguments)

    @property
    def is_waiting(self):
        return self._thread.is_alive()

    @property
    def result(self):
        self._thread.join(TIMEOUT_S)
        assert not self.is_waiting
        return self._result


@pytest.fixture
def waited_for(monkeypatch):
    """Returns the list of what a commander says it waits for."""
    said, wait = [], Commander.wait_until_ready

    def listen(commander, timeout_s, *, on_wait, **options):
        wait(commander, timeout_s, on_wait=lambda what: (said.append(what), on_wait(what)), **options)

    monkeypatch.setattr(Commander, "wait_until_ready", listen)
    return said


def test_send_waits_for_a_planner_that_loads_and_says_so(start, waited_for):
    planner = start(LoadingPlanner, "slow")
    operator = start(Operator, "drone_1", planner="/slow", server_timeout_s=1.5)
    send = Send("drone_1", "mf(20);mb(30);")
    wait_until(lambda: "planner /slow is loading planner-small" in waited_for, TIMEOUT_S)
    missions = operator.robot._missions
    assert not missions._pending
    assert not missions._obeyed  # a console that gives up leaves nothing behind
    planner.loaded.set()
    assert send.result.exit_code == 0, send.result.output
    assert "planner /slow is loading planner-small" in send.result.stderr
    assert "mb(30);" in send.result.stdout


def test_the_limit_of_send_ends_in_an_error_that_says_what_to_do(start):
    start(LoadingPlanner, "slow")
    start(Operator, "drone_1", planner="/slow")
    error = Send("drone_1", "mf(20);", "--wait", "0").result.exception
    assert isinstance(error, PlannerError)
    assert error.code is ErrorCode.NOT_ACTIVE
    assert "--wait" in error.message


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_waiting_shows_no_traceback(number):
    code = "import sys; sys.argv[0] = 'llm-planner'; from llm_planner.cli.main import main; main()"
    command = [sys.executable, "-c", code, "send", "absent", "go up"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as send:
        assert send.stderr.readline() == "looking for /absent\n"
        send.send_signal(number)
        _, errors = send.communicate(timeout=TIMEOUT_S)
    assert send.returncode != 0
    assert "no robot" not in errors
    assert "Traceback" not in errors


def test_send_shows_how_each_segment_went_and_what_came_of_it(start):
    planner = start(Planner, "telling")
    start(Operator, "drone_1", planner="/telling")
    wait_until(planner.is_active)
    result = Send("drone_1", "mf(20);_1=od(chair);l('hi');mb(20);", "--scene", "chair").result
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("ok")
    assert lines[0].endswith("mf(20);")
    assert lines[1].startswith("failed")
    assert "(od: chair is not visible)" in lines[1]
    result = Send("drone_1", "l('hi');mb(20);", "--json").result
    shown = json.loads(result.stdout)
    assert [(s["status"], s["said"]) for s in shown["segments"]] == [("ok", ["hi"]), ("ok", [])]


def test_a_default_scene_has_things_in_it_and_is_shown(start):
    start(Operator, "arm_1", robot_model="indy7", default_scene=True)
    start(Operator, "drone_1")
    result = CliRunner().invoke(app, ["scene", "/arm_1", "--json"])
    assert [thing["name"] for thing in json.loads(result.stdout)["/arm_1"]] == [
        "table",
        "bin",
        "plate",
        "cup",
        "red_box",
    ]
    result = CliRunner().invoke(app, ["scene", "drone_1"])
    assert "knows of nothing" in result.stdout
    assert isinstance(CliRunner().invoke(app, ["scene", "absent", "--timeout", "0.5"]).exception, PlannerError)


def test_a_scene_without_robots_says_how_to_start_one(ros, monkeypatch):
    monkeypatch.setattr("llm_planner.ros.graph.robot_nodes", lambda _: set())
    error = CliRunner().invoke(app, ["scene", "rover_1", "--timeout", "0.1"]).exception
    assert isinstance(error, PlannerError)
    assert "`llm-planner robot rover_1 ...`" in error.message


SEND = "import sys; sys.argv[0] = 'llm-planner'; from llm_planner.cli.main import main; main()"


def test_ctrl_c_in_send_stops_the_robot_and_says_so(start):
    planner = start(Planner, "prompt")
    operator = start(Operator, "drone_1", planner="/prompt", time_scale=1.0)
    wait_until(planner.is_active)
    robot = operator.robot._robot
    command = [sys.executable, "-c", SEND, "send", "drone_1", "hang mf(500);"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as send:
        wait_until(lambda: robot.pose.x_m > 0.1, TIMEOUT_S, what="flight")
        send.send_signal(signal.SIGINT)
        wait_until(lambda: robot._driver.target is None, TIMEOUT_S, what="a halt")
        _, errors = send.communicate(timeout=TIMEOUT_S)
    assert robot.pose.x_m < 4.0
    assert send.returncode == 130
    assert "/drone_1 is stopped" in errors
    assert "Ctrl-C" in operator.outcome().error_msg
    assert operator.outcome().error_code == ErrorCode.STOPPED


def test_the_second_ctrl_c_leaves(start, monkeypatch):
    planner = start(Planner, "prompt")
    operator = start(Operator, "drone_1", planner="/prompt", time_scale=1.0)
    wait_until(planner.is_active)
    planner.server.cancel = lambda *_: True  # this goal never ends
    robot = operator.robot._robot
    command = [sys.executable, "-c", SEND, "send", "drone_1", "hang mf(500);"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as send:
        wait_until(lambda: robot.pose.x_m > 0.1, TIMEOUT_S, what="flight")
        send.send_signal(signal.SIGINT)
        while "is stopped" not in send.stderr.readline():
            pass
        send.send_signal(signal.SIGINT)
        _, errors = send.communicate(timeout=5.0)
    assert send.returncode != 0
    assert "Traceback" not in errors


def test_send_stops_a_robot_that_does_not_answer_and_may_have_taken_the_instruction():
    stopped, shown = [], []

    def stop(robot, reason):
        stopped.append(robot)
        raise PlannerError(ErrorCode.SERVER_UNREACHABLE, "no answer either")

    error = PlannerError(ErrorCode.SERVER_UNREACHABLE, "/drone_1 did not answer")
    commander = SimpleNamespace(instruct=Mock(side_effect=error), stop=stop)
    with pytest.raises(PlannerError, match="/drone_1 did not answer; it was told to stop, too") as caught:
        _obeyed(commander, "drone_1", Instruct.Request(instruction="go"), 1.0, shown.append)
    assert caught.value.code is ErrorCode.SERVER_UNREACHABLE
    assert stopped == ["drone_1"] * 2
    assert shown == ["/drone_1 does not answer; it is told to stop"]


def test_send_stops_no_robot_that_refuses_an_instruction():
    error = PlannerError(ErrorCode.ROBOT_BUSY, "/drone_1 is busy")
    with pytest.raises(PlannerError, match="is busy"):
        _obeyed(SimpleNamespace(instruct=Mock(side_effect=error)), "drone_1", Instruct.Request(), 1.0, print)


def test_an_instruction_that_is_not_answered_may_still_be_carried_out(ros):
    mute = rclpy.create_node("mute")  # nobody spins it
    mute.create_service(Instruct, "~/instruct", lambda _, response: response)
    with spinning("console_of_mute") as node:
        commander = Commander(node, ["mute"])
        wait_until(commander._clients["mute"].service_is_ready, TIMEOUT_S)
        with pytest.raises(PlannerError, match=r"did not answer within 0\.1 s; it may still do what it was asked"):
            commander.instruct("mute", Instruct.Request(instruction="go"), timeout_s=0.1)
    mute.destroy_node()


def test_stop_stops_the_robots_that_are_named_or_all(start):
    planner = start(Planner, "prompt")
    operators = [start(Operator, f"drone_{n}", planner="/prompt", time_scale=1.0) for n in (1, 2, 3)]
    wait_until(planner.is_active)
    for operator in operators:
        operator.instruct("hang mf(500);")
    wait_until(lambda: all(operator.robot._robot.pose.x_m > 0.1 for operator in operators), what="flight")
    result = CliRunner().invoke(app, ["stop", "/drone_1", "absent"])
    assert result.exit_code == 1
    assert "/drone_1: stopped 'hang mf(500);'" in result.stdout
    assert "/absent" in result.stderr
    assert [operator.robot._robot.is_active for operator in operators] == [False, True, True]
    result = CliRunner().invoke(app, ["stop", "--all"])
    assert result.exit_code == 0, result.output
    assert not any(operator.robot._robot.is_active for operator in operators)
    assert "/drone_1: had nothing to do" in result.stdout


@pytest.mark.parametrize("arguments", [["/drone_1", "drone_2"], ["--all"]])
def test_a_robot_that_does_not_answer_holds_up_no_stop_of_another(ros, monkeypatch, arguments):
    looks, both = iter(range(1000)), threading.Barrier(2, timeout=TIMEOUT_S)

    def seen(_):
        return {"/drone_1", "/drone_2"} if next(looks) > 10 else {"/drone_1"}  # the other one after the search

    def answer(node, robot, client, reason):
        both.wait()  # answers when the other one is asked
        return Stop.Response(was_busy=robot == "drone_2")

    monkeypatch.setattr("llm_planner.cli.stop.SEARCH_S", 0.01)
    monkeypatch.setattr("llm_planner.ros.graph.robot_nodes", seen)
    monkeypatch.setattr("llm_planner.ros.commander.stop_robot", answer)
    result = CliRunner().invoke(app, ["stop", *arguments])
    assert result.exit_code == 0, result.exception
    assert sorted(result.stdout.splitlines()) == [
        "/drone_1: had nothing to do",
        "/drone_2: stopped a motion of its own",
    ]


@pytest.mark.parametrize("arguments", [["stop"], ["stop", "--all", "drone_1"], ["stop", "drone 1"]])
def test_a_stop_that_names_no_robot_is_refused(arguments):
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, PlannerError)
    assert error.code is ErrorCode.INVALID_ROBOT_ID


@pytest.mark.parametrize(
    ("typed", "name"), [("drone_1", "drone_1"), ("/drone_1", "drone_1"), ("/site_b/drone_1", "site_b/drone_1")]
)
def test_a_robot_is_named_as_our_messages_print_it(typed, name):
    assert robot_name(typed) == name


@pytest.mark.parametrize("typed", ["", "/", "drone 1", "1st", "a//b", "a/", "dröhne", "a\nb", "x" * 200 + "!"])
def test_a_name_that_no_robot_can_have_is_refused_in_one_line(typed):
    with pytest.raises(PlannerError) as caught:
        robot_name(typed)
    assert caught.value.code is ErrorCode.INVALID_ROBOT_ID
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 250


def test_an_emergency_with_a_budget_does_not_wait(start):
    start(LoadingPlanner, "slow")
    start(Operator, "drone_1", planner="/slow", time_scale=1.0)
    result = Send("drone_1", "mf(20);", "--urgent", "--budget", "0.2").result
    assert result.exit_code == 1
    assert "reflex" in result.stderr


def test_an_order_to_stop_does_not_wait_for_a_planner(start):
    start(LoadingPlanner, "slow")
    start(Operator, "drone_1", planner="/slow")
    result = Send("drone_1", "stop!", "--approve", "ask").result
    assert (result.exit_code, result.stdout) == (0, "done\n")


def test_a_plan_that_nobody_confirmed_is_not_done(start, monkeypatch):
    start(Planner, "shown")
    start(Operator, "drone_1", planner="/shown", time_scale=1.0)
    shown = PlanOutcome(candidates=["mf(20);"], robot_model="tello")
    monkeypatch.setattr("llm_planner.cli.send._obeyed", lambda *_: shown)
    result = Send("drone_1", "mf(20);", "--approve", "ask").result
    assert result.exit_code == 1
    assert "mf(20);" in result.stdout
    assert "not executed: confirm it in a terminal" in result.stdout


def test_an_unknown_robot_is_named_with_those_that_are_there(start):
    operator = start(Operator, "drone_1")
    commander = Commander(operator.node, ["dron_1"])
    with pytest.raises(PlannerError, match="no robot /dron_1 is running; robots here: /drone_1"):
        commander.wait_until_ready(0.0, sign_of_life_s=0.0)
    looking = []
    with pytest.raises(PlannerError, match="no robot /dron_1"):
        planner_of(operator.node, "dron_1", timeout_s=0.3, on_wait=looking.append)
    assert looking[-1] == "looking for /dron_1; robots here: /drone_1"


def test_a_planner_that_was_not_started_is_not_waited_for(start):
    operator = start(Operator, "drone_1", planner="/absent")
    assert planner_of(operator.node, "drone_1") == "/absent"
    commander = Commander(operator.node, ["drone_1"], planner="/absent")
    wait_until(commander._clients["drone_1"].service_is_ready)
    with pytest.raises(PlannerError, match="no planner /absent is running"):
        commander.wait_until_ready(TIMEOUT_S, sign_of_life_s=0.0)


class SteppedClock:
    """Time passes only where it is waited for."""

    def __init__(self):
        self.seconds = 0.0

    def now_s(self):
        return self.seconds

    def sleep(self, seconds):
        self.seconds += seconds


def stepped_clock(monkeypatch):
    clock = SteppedClock()
    monkeypatch.setattr("llm_planner.ros.commander.time", clock)
    return clock


def test_a_robot_is_searched_for_no_longer_than_allowed(start, monkeypatch):
    operator = start(Operator, "drone_1")
    wait_until(lambda: robot_nodes(operator.node))
    clock = stepped_clock(monkeypatch)
    with pytest.raises(PlannerError, match="no robot /absent is running"):
        planner_of(operator.node, "absent", timeout_s=3.0, clock=clock)
    assert clock.seconds == pytest.approx(3.0, abs=2 * POLL_S)


def test_where_nothing_runs_the_search_ends_early(ros, monkeypatch):
    clock = stepped_clock(monkeypatch)
    node = rclpy.create_node("alone")
    wait_until(lambda: not _is_anything_running(node), what="end of the nodes of other tests")
    with pytest.raises(
        PlannerError, match=r"no robot /drone_1 is running; start it with `llm-planner up`.*`llm-planner robot drone_1"
    ):
        planner_of(node, "drone_1", timeout_s=SIGN_OF_LIFE_S, clock=clock)
    assert clock.seconds == pytest.approx(EMPTY_S, abs=2 * POLL_S)
    node.destroy_node()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("wait_s", [0.0, 5.0])
def test_send_waits_as_long_as_it_is_told_to(ros, monkeypatch, wait_s):
    limits = []

    def search(node, robot, *, timeout_s, on_wait):
        limits.append(timeout_s)
        return "/absent"

    def wait(commander, timeout_s, *, sign_of_life_s, on_wait):
        limits.append(sign_of_life_s)
        raise PlannerError(ErrorCode.SERVER_UNREACHABLE, "found nothing")

    monkeypatch.setattr("llm_planner.ros.commander.planner_of", search)
    monkeypatch.setattr(Commander, "wait_until_ready", wait)
    assert Send("drone_1", "go up", "--wait", f"{wait_s}").result.exit_code == 1
    assert limits == pytest.approx([max(wait_s, DISCOVERY_S)] * 2, abs=1.0)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("wait_s", "left_s"), [(0.0, 0.5), (3.0, 0.5), (20.0, 17.5), (120.0, 27.5)])
def test_what_the_search_for_a_robot_took_is_not_waited_again_for_its_planner(ros, monkeypatch, wait_s, left_s):
    clock, limits = SteppedClock(), []

    def search(node, robot, *, timeout_s, on_wait):
        clock.seconds += 2.5
        return "/absent"

    def wait(commander, timeout_s, *, sign_of_life_s, on_wait):
        limits.append(sign_of_life_s)
        raise PlannerError(ErrorCode.SERVER_UNREACHABLE, "found nothing")

    monkeypatch.setattr("llm_planner.core.clock.MonotonicClock", lambda: clock)
    monkeypatch.setattr("llm_planner.ros.commander.planner_of", search)
    monkeypatch.setattr(Commander, "wait_until_ready", wait)
    assert Send("drone_1", "go up", "--wait", f"{wait_s}").result.exit_code == 1
    assert limits == pytest.approx([left_s])


def test_the_planner_of_a_robot_is_found_without_asking_the_robot(ros, monkeypatch):
    """A request that is sent as soon as a service is found was answered up to 3 s later."""
    monkeypatch.setattr(Client, "call_async", lambda *_: 1 / 0)
    robot, node = rclpy.create_node("drone_1", namespace="/site_b"), rclpy.create_node("console")
    client = PlannerClient(robot, "tello", planner="/site_b/brain")
    assert client.robot_id == "site_b/drone_1"
    assert planner_of(node, "site_b/drone_1", timeout_s=TIMEOUT_S) == "/site_b/brain"
    robot.destroy_node()
    node.destroy_node()


@pytest.mark.timeout(60)
def test_send_ends_when_its_robot_does(start, monkeypatch):
    planner = start(Planner, "lone")
    operator = Operator("drone_1", planner="/lone", time_scale=1.0)
    wait_until(planner.is_active)
    send = Send("drone_1", "hang mf(500);")
    wait_until(lambda: operator.robot._robot.pose.x_m > 0.1, TIMEOUT_S, what="flight")
    operator.stop()
    error = send.result.exception
    assert isinstance(error, PlannerError)
    assert error.code is ErrorCode.SERVER_UNREACHABLE
    assert "robot /drone_1 has ended; start it again with `llm-planner up` (drones and arms) or" in error.message
    assert error.message.endswith("`llm-planner robot drone_1 ...`")


@pytest.mark.timeout(60)
def test_send_ends_when_the_planner_that_it_waits_for_does(start, waited_for):
    planner = start(LoadingPlanner, "slow")
    start(Operator, "drone_1", planner="/slow")
    send = Send("drone_1", "mf(20);")
    wait_until(lambda: "planner /slow is loading planner-small" in waited_for, TIMEOUT_S)
    planner.die()
    planner.loaded.set()
    error = send.result.exception
    assert isinstance(error, PlannerError)
    assert error.code is ErrorCode.SERVER_UNREACHABLE
    assert "planner /slow has ended; start it again with `llm-planner up`" in error.message


def test_an_inactive_planner_must_be_activated(start, start_planner):
    start_planner("led", autostart=False)
    operator = start(Operator, "drone_1", planner="/led")
    received = []
    commander = Commander(operator.node, ["drone_1"], planner="/led")
    with pytest.raises(PlannerError, match="ros2 lifecycle set /led activate") as caught:
        commander.wait_until_ready(1.0, on_wait=received.append)
    assert caught.value.code is ErrorCode.NOT_ACTIVE
    assert received[-1] == "planner /led is inactive"


def test_a_goal_waits_for_a_planner_that_loads(start):
    planner = start(LoadingPlanner, "slow")
    robot = start(Robot, "drone_1", planner="/slow", server_timeout_s=1.5)
    wait_until(lambda: robot.client.received_at_s > 0)
    handle = robot.client.plan("mf(20);")
    time.sleep(2.0)  # longer than a silent planner is waited for
    assert not handle.is_done
    planner.loaded.set()
    for segment in handle:
        handle.report(segment, ReportStatus.SUCCEEDED)
    assert handle.result(TIMEOUT_S).error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    ("loading_timeout_s", "time_budget_s", "code", "reason"),
    [
        (0.2, None, ErrorCode.NOT_ACTIVE, "still loads its model"),
        (60.0, 0.2, ErrorCode.BUDGET_EXCEEDED, "nothing came from planner /slow within 0.2 s"),
    ],
)
def test_a_goal_waits_no_longer_than_it_may(start, loading_timeout_s, time_budget_s, code, reason):
    start(LoadingPlanner, "slow")
    robot = start(Robot, "drone_1", planner="/slow", server_timeout_s=1.5, loading_timeout_s=loading_timeout_s)
    wait_until(lambda: robot.client.received_at_s > 0)
    result = robot.client.plan("mf(20);", time_budget_s=time_budget_s).result(TIMEOUT_S)
    assert result.error_code is code
    assert reason in result.error_msg
