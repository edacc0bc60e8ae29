"""The planner as a lifecycle node: parameters, transitions, diagnostics, and the example that uses it."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import rclpy
import yaml
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import DescribeParameters, SetParameters
from rclpy.parameter import Parameter

from llm_planner.core.errors import ErrorCode
from llm_planner.ros import diagnostics
from llm_planner.serving.server import ServerStatus
from tests.ros.nodes import Planner, Spinner, wait_until

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


def test_the_parameter_file_shows_all_parameters_with_their_defaults(planner):
    def flatten(values, prefix=""):
        for key, value in values.items():
            yield from flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]

    written = dict(flatten(yaml.safe_load((ROOT / "config/planner.yaml").read_text())["/**"]["ros__parameters"]))
    own = {name for name in planner.node._parameters if name not in {"use_sim_time", "start_type_description_service"}}
    assert set(written) == own
    declared = {name: planner.node.get_parameter(name).value for name in own - {"startup_check_s"}}
    assert {name: written[name] for name in declared} == declared


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
    assert {"model", "policy", "num_restarts", "num_unfinished"} <= {value.key for value in report.values}


def test_diagnostics_warn_of_an_engine_that_does_not_answer():
    status = ServerStatus(is_ready=True, num_restarts=0, request_ids=(), loop=None, silent_s=3.21)
    assert diagnostics._judge(status, True) == (DiagnosticStatus.WARN, "the engine has not answered for 3.2 s")
    assert diagnostics._judge(replace(status, silent_s=None), True) == (DiagnosticStatus.OK, "accepts goals")


def test_a_server_that_cannot_be_built_is_the_nodes_failure(ros):
    class Broken(Planner):
        def _build(self, config, on_event):
            raise RuntimeError("no such accelerator")

    planner = Broken("broken")
    wait_until(lambda: planner.node.failure is not None)
    planner.stop()
    assert planner.node.failure.code is ErrorCode.ENGINE_FAILED
    assert "no such accelerator" in str(planner.node.failure)


def test_the_minimal_robot(planner):
    command = [sys.executable, str(ROOT / "examples/minimal_robot.py"), "mf(20);mb(30);"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["carries out mf(20);", "carries out mb(30);", "NONE: mf(20);mb(30);"]
