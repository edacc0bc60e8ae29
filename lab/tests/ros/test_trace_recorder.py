# SPDX-License-Identifier: Apache-2.0
"""The event log of a planner over DDS, and the recorder that writes it to a file."""

import io
import signal
import subprocess
import sys
import time

import pytest
import rclpy
from typer.testing import CliRunner

from lab.tests.simulation.builders import ROBOTS
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.segment import ReportStatus, SegmentReport
from llm_planner_lab.cli.trace import app as trace_app
from llm_planner_lab.ros.trace_recorder import TraceRecorder
from llm_planner_lab.simulation.trace import parse_lines, read_trace
from tests.ros.nodes import Spinner, wait_until

pytestmark = pytest.mark.ros


@pytest.fixture
def start_recorder(ros):
    started = []

    def start(name, **changes):
        node, file = rclpy.create_node(f"recorder_{len(started)}"), io.StringIO()
        recorder = TraceRecorder(node, f"/{name}", file, name="test", **changes)
        spinner = Spinner(node)
        started.append((node, spinner))
        wait_until(lambda: node.count_publishers(f"/{name}/goal_events") > 0)
        time.sleep(0.5)  # a late joiner receives only what comes after discovery

        def stop():
            spinner.stop()
            recorder.close()
            return file.getvalue().splitlines()

        return recorder, stop

    yield start
    for node, spinner in started:
        spinner.stop()
        node.destroy_node()


def fly(robot, instruction="mf(20);mb(30);"):
    """Carries out one plan and returns its goal id."""
    done = []

    def execute(segment):
        for status, duration_s in ((ReportStatus.STARTED, 0.0), (ReportStatus.SUCCEEDED, 0.25)):
            report = {"request_id": handle.goal_id, "index": segment.index, "status": status}
            robot.client.report(SegmentReport(**report, duration_s=duration_s))
        done.append(segment)

    handle = robot.client.plan(instruction, scene="box", on_segment=execute)
    assert handle.result(10.0).error_code is ErrorCode.NONE
    return handle.goal_id


def test_what_robots_ask_get_and_report_is_recorded(start_planner, start_robot, start_recorder):
    start_planner("recorded_1")
    robot = start_robot("d1", planner="/recorded_1")
    recorder, stop = start_recorder("recorded_1")
    goal_ids = [fly(robot), fly(robot)]
    wait_until(lambda: recorder.num_events == 2 * (1 + 2 + 4 + 1))
    trace = parse_lines(stop(), ROBOTS)
    assert [row.request_id for row in trace.requests] == goal_ids
    assert [row.plan for row in trace.requests] == ["mf(20);mb(30);"] * 2
    assert {(row.robot_id, row.robot_model, row.scene) for row in trace.requests} == {("d1", "tello", "box")}
    assert trace.requests[0].time_s < trace.requests[1].time_s
    assert (trace.about["is_cut"], trace.about["num_lost_events"]) == (False, 0)


def test_what_the_planner_remembers_is_recorded_on_request(start_planner, start_robot, start_recorder):
    start_planner("recorded_2")
    goal_id = fly(start_robot("d2", planner="/recorded_2"))
    late, stop_late = start_recorder("recorded_2")
    recorder, stop = start_recorder("recorded_2", has_past=True)
    wait_until(lambda: recorder.num_events == 8)
    assert [row.request_id for row in parse_lines(stop(), ROBOTS).requests] == [goal_id]
    assert late.num_events == 0
    assert parse_lines(stop_late(), ROBOTS).requests == ()


def test_a_gap_in_the_numbers_is_counted(ros):
    node = rclpy.create_node("recorder_gap")
    recorder = TraceRecorder(node, "/absent", io.StringIO(), name="test")
    for number in (4, 5, 8, 0, 1):  # two lost, then the planner restarted
        recorder._receive(type("Message", (), {"data": f'{{"version": 2, "number": {number}, "event": "x"}}'}))
    assert (recorder.num_events, recorder.num_lost) == (5, 2)
    node.destroy_node()


@pytest.fixture
def start_command():
    """Commands of ``llm-planner`` in processes of their own, which do not outlive the test."""
    started = []

    def start(*arguments):
        code = "from llm_planner.cli.main import main; main()"
        command = [sys.executable, "-c", code, *arguments]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_the_command_records_until_it_is_stopped(start_planner, start_command, tmp_path):
    start_planner("recorded_3")
    path = tmp_path / "recorded.jsonl"
    process = start_command("trace", "record", str(path), "--planner", "/recorded_3")
    wait_until(path.is_file, timeout_s=60.0, what="a file")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30.0)
    assert process.returncode == 0
    assert "0 whole goals" in " ".join(output.split())
    assert read_trace(path, ROBOTS).about["is_cut"] is False


def test_a_file_that_exists_is_not_overwritten(tmp_path):
    path = tmp_path / "precious.jsonl"
    path.write_text("mine")
    result = CliRunner().invoke(trace_app, ["record", str(path), "--duration", "0.1"])
    assert isinstance(result.exception, PlannerError)
    assert path.read_text() == "mine"
