# SPDX-License-Identifier: Apache-2.0
"""The planner as a lifecycle node: parameters, transitions, diagnostics, and the example that uses it."""

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from hypothesis import given, settings
from hypothesis import strategies as st
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import DescribeParameters, SetParameters
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock

import llm_planner.msg as msgs
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanResult
from llm_planner.ros import diagnostics, qos
from llm_planner.ros.guarded_executor import GuardedExecutor, note_error, num_callback_errors
from llm_planner.ros.planner_node import STATUS_PERIOD_S
from llm_planner.ros.process import CrashError
from llm_planner.serving.events import Finished
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.server import ServerStatus
from tests.ros.hostile import messages
from tests.ros.nodes import Planner, Spinner, wait_until
from tests.serving.builders import make_request

pytestmark = pytest.mark.ros

ROOT = Path(__file__).resolve().parents[2]


class Manager:
    """Calls services of a planner, as a lifecycle manager would."""

    def __init__(self, planner):
        self.node = rclpy.create_node("manager")
        self.spinner = Spinner(self.node)
        self._planner = planner

    def call(self, cls, name, request):
        client = self.node.create_client(cls, f"/{self._planner}/{name}")
        assert client.wait_for_service(10.0)
        future = self.spinner.executor.create_task(client.call_async, request)
        wait_until(lambda: future.done() and future.result().done())
        return future.result().result()

    def change_state(self, transition):
        request = ChangeState.Request(transition=Transition(id=transition))
        return self.call(ChangeState, "change_state", request).success

    @property
    def state(self):
        return self.call(GetState, "get_state", GetState.Request()).current_state.label

    def stop(self):
        self.spinner.stop()
        self.node.destroy_node()


@pytest.fixture
def start_manager(ros):
    started = []

    def start(planner):
        started.append(Manager(planner))
        return started[-1]

    yield start
    for manager in started:
        manager.stop()


def test_a_manager_leads_it_through_its_life(start_planner, start_manager, start_robot):
    planner = start_planner("led", autostart=False)
    manager = start_manager("led")
    robot = start_robot("drone_1", planner="/led", server_timeout_s=2.0)
    assert manager.state == "unconfigured"
    assert robot.client.plan("mf(20);").result(10.0).error_code is ErrorCode.NOT_ACTIVE

    assert manager.change_state(Transition.TRANSITION_CONFIGURE)
    assert robot.client.plan("mf(20);").result(10.0).error_code is ErrorCode.NOT_ACTIVE
    assert manager.change_state(Transition.TRANSITION_ACTIVATE)
    handle = robot.client.plan("hang mf(20);")
    next(iter(handle))
    assert manager.change_state(Transition.TRANSITION_DEACTIVATE)
    assert handle.result(10.0).error_code is ErrorCode.SHUTTING_DOWN
    assert manager.change_state(Transition.TRANSITION_CLEANUP)
    assert planner.server.is_closed
    assert manager.state == "unconfigured"

    assert manager.change_state(Transition.TRANSITION_CONFIGURE)
    assert manager.change_state(Transition.TRANSITION_ACTIVATE)
    assert len(planner.servers) == 2
    assert next(iter(robot.client.plan("hang mf(20);"))).text == "mf(20);"


def test_a_planner_whose_engines_have_given_up_ends_so_that_it_is_started_again(start_planner):
    planner = start_planner("worn_out")
    planner.server.error = PlannerError(ErrorCode.ENGINE_FAILED, "the engine failed 6 times in a row")
    wait_until(lambda: planner.node.failure is not None)
    assert isinstance(planner.node.failure, CrashError)
    assert str(planner.node.failure) == str(planner.server.error)


def test_parameters_are_described_and_fixed_once_configured(planner, start_manager):
    manager = start_manager("planner")
    names = ["temperature", "scheduler.max_num_seqs", "engine.model"]
    described = manager.call(DescribeParameters, "describe_parameters", DescribeParameters.Request(names=names))
    assert all(d.description for d in described.descriptors)
    assert described.descriptors[0].floating_point_range[0].to_value == 10.0
    assert described.descriptors[1].integer_range[0].to_value == 1024
    request = SetParameters.Request(parameters=[Parameter("temperature", value=1.0).to_parameter_msg()])
    (result,) = manager.call(SetParameters, "set_parameters", request).results
    assert not result.successful
    assert "clean up" in result.reason


def test_diagnostics_show_queue_and_model(planner):
    node = rclpy.create_node("monitor")
    reports = []
    node.create_subscription(DiagnosticArray, "/diagnostics", lambda m: reports.extend(m.status), 10)
    spinner = Spinner(node)
    wait_until(lambda: any(r.hardware_id == "/planner" for r in reports))
    spinner.stop()
    node.destroy_node()
    report = next(r for r in reports if r.hardware_id == "/planner")
    assert (report.level, report.message) == (DiagnosticStatus.OK, "accepts goals")
    values = {value.key: value.value for value in report.values}
    assert {"model", "policy", "num_restarts", "num_unfinished"} <= values.keys()
    assert values["num_callback_errors"] == "0"


def test_callbacks_that_failed_are_counted_in_diagnostics(start_planner):
    planner = start_planner("stumbling")
    planner.node._book.post(None)  # no event
    wait_until(lambda: num_callback_errors(planner.node) == 1)
    note_error(planner.node, raised(OverflowError("int too large")))
    status = diagnostics.describe(planner.node, PlannerConfig(), planner.server, is_active=True, has_double=False)
    assert {value.key: value.value for value in status.values}["num_callback_errors"] == "2"


def test_a_view_names_a_bounded_number_of_idle_robots(planner):
    book = GoalBook(client_timeout_s=1.0, memory_s=60.0)
    for number in range(300):
        book.open(make_request(f"g{number}", robot_id=f"robot_{number}"), 0.0)
        book.accept(Finished(PlanResult(request_id=f"g{number}")), 1.0)
    view = diagnostics.view(planner.node, PlannerConfig(), None, 2, book, 2.0)
    assert [robot.robot_id for robot in view.idle_robots] == [f"robot_{number}" for number in range(200, 300)]


def raised(error):
    try:
        raise error
    except type(error) as caught:
        return caught


# Lifecycle, led by any client

NO_TRANSITION = 200


@pytest.mark.parametrize("transition", [Transition.TRANSITION_ACTIVATE, Transition.TRANSITION_CREATE, NO_TRANSITION])
def test_a_transition_that_is_not_possible_is_refused(planner, start_manager, transition):
    manager = start_manager("planner")
    assert not manager.change_state(transition)
    request = ChangeState.Request(transition=Transition(label="x" * 1_000_000))
    assert not manager.call(ChangeState, "change_state", request).success
    assert manager.state == "active"


def test_transitions_in_any_order_leave_it_usable(start_planner, start_manager, start_robot):
    start_planner("tossed", autostart=False)
    manager = start_manager("tossed")
    robot = start_robot("drone_1", planner="/tossed")
    transitions = st.integers(0, 4) | st.sampled_from((99, NO_TRANSITION))  # all but those that shut down

    @given(st.lists(transitions, max_size=6))
    @settings(max_examples=15)
    def toss(numbers):
        for number in numbers:
            manager.change_state(number)
            assert manager.state in ("unconfigured", "inactive", "active")

    toss()
    ways = {"unconfigured": (1, 3), "inactive": (3,), "active": ()}
    assert all(manager.change_state(number) for number in ways[manager.state])
    assert next(iter(robot.client.plan("hang mf(20);"))).text == "mf(20);"


@pytest.mark.parametrize("last", [Transition.TRANSITION_CLEANUP, Transition.TRANSITION_INACTIVE_SHUTDOWN])
def test_a_goal_whose_end_is_on_its_way_ends_once(start_planner, start_manager, start_robot, monkeypatch, last):
    """The server's word that it has ended comes late, when the planner is deactivated and cleaned up at once."""
    planner = start_planner("hasty", autostart=False)
    manager = start_manager("hasty")
    assert manager.change_state(Transition.TRANSITION_CONFIGURE)
    assert manager.change_state(Transition.TRANSITION_ACTIVATE)
    handle = start_robot("drone_1", planner="/hasty").client.plan("hang mf(20);")
    next(iter(handle))
    late = []
    monkeypatch.setattr(planner.node._book, "post", late.append)
    assert manager.change_state(Transition.TRANSITION_DEACTIVATE)
    assert manager.change_state(last)
    assert handle.result(10.0).error_code is ErrorCode.SHUTTING_DOWN
    wait_until(lambda: late)
    for event in late:
        planner.spinner.executor.create_task(planner.node._action.on_event, event)
    wait_until(lambda: not planner.node._book.unfinished())


def test_a_manager_that_configures_first_also_activates(ros, start_manager):
    planner = Planner("helped", startup_check_s=0.5)
    try:
        manager = start_manager("helped")
        assert manager.change_state(Transition.TRANSITION_CONFIGURE)
        wait_until(planner.node._autostart_timer.is_canceled)
        assert manager.state == "inactive"
    finally:
        planner.stop()


def test_a_transition_that_fails_unexpectedly_goes_back_to_the_beginning(start_planner, start_manager, monkeypatch):
    planner = start_planner("unlucky", autostart=False)
    manager = start_manager("unlucky")
    assert manager.change_state(Transition.TRANSITION_CONFIGURE)
    with monkeypatch.context() as patched:
        patched.setattr(planner.node, "get_fully_qualified_name", lambda: 1 / 0)
        assert not manager.change_state(Transition.TRANSITION_ACTIVATE)
    assert manager.state == "unconfigured"
    assert planner.server.is_closed
    assert not planner.is_active()


def test_any_request_to_any_service_leaves_it_alive(start_planner, start_manager, monkeypatch):
    """rclpy's own services too: a parameter of an unknown type raises in them."""
    monkeypatch.setattr("tests.ros.nodes.SingleThreadedExecutor", GuardedExecutor)
    planner = start_planner("served")
    manager = start_manager("served")
    kinds = {service.srv_name.rpartition("/")[2]: service.srv_type for service in planner.node.services}
    del kinds["change_state"]  # an unknown client may end it by this one, as any client may
    assert len(kinds) > 8
    clients = {name: manager.node.create_client(kind, f"/served/{name}") for name, kind in kinds.items()}
    requests = {name: messages(kind.Request, "temperature", "use_sim_time") for name, kind in kinds.items()}

    @given(st.fixed_dictionaries(requests))
    @settings(max_examples=30)
    def ask(drawn):
        for name, request in drawn.items():
            manager.spinner.executor.create_task(clients[name].call_async, request)
        assert manager.state == "active"

    assert all(client.wait_for_service(10.0) for client in clients.values())
    ask()
    broken = Parameter("temperature", value=1.0).to_parameter_msg()
    broken.value.type = 143
    manager.spinner.executor.create_task(
        clients["set_parameters"].call_async, SetParameters.Request(parameters=[broken])
    )
    assert manager.state == "active"
    wait_until(lambda: num_callback_errors(planner.node) > 0)


# Doubles


class Liar:
    """A node that says statuses of a planner."""

    def __init__(self, topic, **names):
        self.node = rclpy.create_node(**({"node_name": "liar"} | names))
        self._publisher = self.node.create_publisher(msgs.PlannerStatus, topic, qos.STATUS)
        wait_until(self._publisher.get_subscription_count)

    def say(self, **fields):
        self._publisher.publish(msgs.PlannerStatus(**({"instance_id": "0"} | fields)))

    def stop(self):
        self.node.destroy_node()


@pytest.fixture
def start_liar(ros):
    started = []

    def start(*arguments, **fields):
        started.append(Liar(*arguments, **fields))
        return started[-1]

    yield start
    for liar in started:
        liar.stop()


@pytest.mark.parametrize("autostart", [False, True])
def test_a_status_alone_ends_no_planner(start_planner, start_manager, start_liar, autostart):
    planner = start_planner("trusting", autostart=autostart)
    liar = start_liar("/trusting/status")
    liar.say(state=msgs.PlannerStatus.ACTIVE)
    assert start_manager("trusting").state == ("active" if autostart else "unconfigured")
    liar.say()
    assert start_manager("trusting").state
    assert planner.node.failure is None


def test_a_planner_that_starts_ends_if_an_older_one_is_active(start_planner, start_manager, start_liar):
    planner = start_planner("second", autostart=False)
    older = start_liar("/second/status", node_name="second")
    manager = start_manager("second")

    def has_ended():
        older.say(state=msgs.PlannerStatus.ACTIVE)
        return manager.state and planner.node.failure is not None

    wait_until(has_ended)
    assert planner.node.failure.code is ErrorCode.DUPLICATE_NODE


def test_an_active_planner_only_says_that_it_has_a_double(start_planner, start_manager, start_liar):
    planner = start_planner("first")
    double = start_liar("/first/status", node_name="first")
    wait_until(lambda: double.say(state=msgs.PlannerStatus.ACTIVE) or planner.node._has_double())
    assert start_manager("first").state == "active"
    assert planner.node.failure is None
    status = diagnostics.describe(planner.node, PlannerConfig(), planner.server, is_active=True, has_double=True)
    assert (status.level, "stop one of them" in status.message) == (DiagnosticStatus.ERROR, True)


# Clock


class Timekeeper:
    """Publishes ``/clock``: the ROS clock of nodes with ``use_sim_time``."""

    def __init__(self):
        self.node = rclpy.create_node("timekeeper")
        self._publisher = self.node.create_publisher(Clock, "/clock", 10)

    def step_to(self, planner, seconds):
        message = Clock()
        message.clock.sec = seconds
        now = planner.node.get_clock().now
        wait_until(lambda: self._publisher.publish(message) or now().nanoseconds == seconds * 10**9)

    def stop(self):
        self.node.destroy_node()


@pytest.fixture
def timekeeper(ros):
    timekeeper = Timekeeper()
    yield timekeeper
    timekeeper.stop()


def test_a_step_of_the_clock_ends_no_goal_and_no_sign_of_life(start_planner, start_robot, timekeeper):
    planner = start_planner("timeless", use_sim_time=True, client_timeout_s=3.0)
    robot = start_robot("drone_1", planner="/timeless", server_timeout_s=2.0)
    handle = robot.client.plan("hang mf(20);")
    next(iter(handle))
    statuses = []
    robot.node.create_subscription(msgs.PlannerStatus, "/timeless/status", statuses.append, qos.STATUS)
    for seconds in (1000, 970, 970 + 3600):  # 30 s back, 1 h forward
        timekeeper.step_to(planner, seconds)
        num_before, began_s = len(statuses), time.monotonic()
        wait_until(lambda before=num_before: len(statuses) >= before + 5, what="signs of life")
        assert len(statuses) - num_before <= (time.monotonic() - began_s) / STATUS_PERIOD_S + 2  # no burst
    assert not handle.is_done
    assert planner.node.failure is None
    handle.cancel()
    assert handle.result(10.0).error_code is ErrorCode.CANCELLED


def test_diagnostics_warn_of_an_engine_that_does_not_answer():
    status = ServerStatus(is_ready=True, num_restarts=0, request_ids=(), loop=None, silent_s=3.21)
    assert diagnostics._judge(status, True) == (DiagnosticStatus.WARN, "the engine has not answered for 3.2 s")
    assert diagnostics._judge(replace(status, silent_s=None), True) == (DiagnosticStatus.OK, "accepts goals")
    fewer = replace(status, silent_s=None, num_replicas=2)
    assert diagnostics._judge(fewer, True) == (DiagnosticStatus.WARN, "1 of 2 engines plan")


def test_a_server_that_cannot_be_built_is_the_nodes_failure(ros):
    class Broken(Planner):
        def _build(self, config, book):
            raise RuntimeError("no such accelerator")

    planner = Broken("broken")
    wait_until(lambda: planner.node.failure is not None)
    planner.stop()
    assert planner.node.failure.code is ErrorCode.ENGINE_FAILED
    assert "no such accelerator" in str(planner.node.failure)


def run_client(*command, returncode=0):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, *command]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert run.returncode == returncode, run.stderr
    return run.stdout.splitlines()


@pytest.mark.parametrize(
    ("instruction", "calls"),
    [
        ("mf(20);mb(30);", ["mf 20.0", "mb 30.0"]),
        ("_1=iv(cat);?_1==False{mf(20)};2{?_1{tc(45)}};", ["iv cat", "tc 45.0", "tc 45.0"]),
        ("?iv(cat){->True};mf(20);", ["iv cat"]),
    ],
)
def test_the_minimal_robot(planner, instruction, calls):
    lines = run_client(str(ROOT / "examples/minimal_robot.py"), instruction)
    assert lines == [*(f"carries out {call}" for call in calls), "done"]


def test_the_minimal_robot_begins_nothing_behind_a_failure(planner):
    program, returncode = str(ROOT / "examples/minimal_robot.py"), ErrorCode.SKILL_FAILED % 256
    lines = run_client(program, "flood mf(20);fail('no-cat');mb(30);", returncode=returncode)
    assert lines == ["carries out mf 20.0", "no-cat"]
    assert planner.server.reports[-1].is_permanent


def test_the_client_in_the_readme(planner):
    (program,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(program.splitlines()) == 10
    lines = run_client("-c", program.replace("look for the chair, then take a picture", "mf(20);mb(30);"))
    assert lines == ["executes mf(20);", "executes mb(30);", "done"]
