# SPDX-License-Identifier: Apache-2.0
"""A planner and a robot are recorded, with the definitions of their messages; a killed recorder loses little."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import rclpy
import yaml
from mcap.reader import make_reader
from typer.testing import CliRunner

from llm_planner.cli.main import app
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.monitoring.playback import Recording
from llm_planner.monitoring.recorder import McapRecorder
from llm_planner.monitoring.summary import summarize
from llm_planner.ros.fleet_recorder import FleetRecorder
from llm_planner.ros.message_definitions import SEPARATOR, definition, message_class
from llm_planner.ros.planner_node import STATUS_PERIOD_S
from tests.ros.nodes import Spinner, wait_until
from tests.ros.test_live_view import Counting
from tests.ros.test_robot_node import CHAIR, start_operator  # noqa: F401 -- a fixture

pytestmark = pytest.mark.ros


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.mcap"


@pytest.fixture
def start_recorder(ros):
    started = []

    def start(path, planner):
        node, file = rclpy.create_node(f"recorder_{len(started)}"), McapRecorder(path)
        started.append((node, file, Spinner(node)))
        recorder = FleetRecorder(node, planner, file)
        wait_until(lambda: f"/{planner.lstrip('/')}/goal_events" in recorder.topics)
        return recorder

    def stop():
        while started:
            node, file, spinner = started.pop()
            spinner.stop()
            node.destroy_node()
            file.close()

    yield start, stop
    stop()


def test_a_flight_is_recorded_and_summed_up(start_planner, start_operator, start_recorder, path):  # noqa: F811
    start, stop = start_recorder
    Counting(start_planner("taped").server)
    operator = start_operator("taped_1", planner="/taped")
    recorder = start(path, "/taped")
    wait_until(lambda: {"/taped_1/view", "/taped_1/outcome"} <= recorder.topics)
    time.sleep(0.3)  # the publishers must have found the subscriptions too
    operator.instruct("mf(100);mb(50);", [CHAIR])
    operator.outcome()
    time.sleep(0.6)
    stop()
    summary = summarize(Recording(path))
    assert (summary.planner, dict(summary.ended), summary.num_broken) == ("/taped", {"NONE": 1}, 0)
    assert summary.robots["taped_1"].num_segments == 2
    assert {"/taped/status", "/taped/report", "/taped/view", "/taped_1/view", "/diagnostics"} <= set(summary.counts)
    outcomes = [message.decode() for message in Recording(path).messages() if message.topic == "/taped_1/outcome"]
    assert [(outcome.robot_id, len(outcome.segments)) for outcome in outcomes] == [("taped_1", 2)]
    assert "/rosout" in summary.counts
    offers = offered_qos(path)
    assert offers["/taped/goal_events"] == [("reliable", "transient_local", 9223372036)]
    assert offers["/taped_1/view"] == [("best_effort", "volatile", 9223372036)]
    result = CliRunner().invoke(app, ["replay", str(path), "--json", "--png", str(path.with_suffix(".png"))])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["ended"] == {"NONE": 1}
    assert path.with_suffix(".png").stat().st_size > 10_000
    assert "taped_1" in CliRunner().invoke(app, ["replay", str(path)]).stdout


def test_a_planner_may_be_named_without_the_leading_slash(start_planner, start_recorder, path):
    start_planner("bare_tape")
    start, stop = start_recorder
    start(path, "bare_tape")
    time.sleep(2.0 * STATUS_PERIOD_S)
    stop()
    assert "/bare_tape/status" in summarize(Recording(path)).counts


def offered_qos(path):
    """Returns what the publishers of each topic offered: reliability, durability, seconds of the deadline."""
    with path.open("rb") as file:
        channels = make_reader(file).get_summary().channels.values()
    profiles = {channel.topic: yaml.safe_load(channel.metadata["offered_qos_profiles"]) for channel in channels}
    return {
        t: [(p["reliability"], p["durability"], p["deadline"]["sec"]) for p in all_] for t, all_ in profiles.items()
    }


def test_a_recorder_that_is_killed_leaves_a_file_that_can_be_read(start_planner, path):
    start_planner("killed_tape")
    command = [sys.executable, "-m", "llm_planner.ros.recorder_node", "--ros-args", "-p", f"path:={path}"]
    with subprocess.Popen([*command, "-p", "planner:=/killed_tape"], stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: path.is_file() and path.stat().st_size > 5000 and models_in(path), 60.0)
            os.kill(process.pid, signal.SIGKILL)
        finally:
            process.kill()
    recording = Recording(path)
    assert models_in(path, recording) == {"planner-small"}
    assert recording.is_cut


def models_in(path, recording=None):
    """Returns the models that the statuses name of a planner whose recording is perhaps still being written."""
    messages = (recording or Recording(path)).messages()
    return {message.decode().model for message in messages if message.topic == "/killed_tape/status"}


def test_a_disk_that_is_full_ends_the_recording_with_a_reason(start_planner, start_recorder, path):
    start, _ = start_recorder
    start_planner("full_tape")
    recorder = start(path, "/full_tape")

    def fail():
        raise OSError(28, "No space left on device")

    recorder._recorder.flush, original = fail, recorder._recorder.flush
    wait_until(lambda: recorder.failure is not None)
    recorder._recorder.flush = original
    assert recorder.failure.code is ErrorCode.INVALID_FILE
    assert "No space left" in recorder.failure.message


def test_a_file_that_exists_is_left_alone(path, ros):
    path.write_text("precious")
    result = CliRunner().invoke(app, ["record", str(path), "--duration", "0.1"])
    assert isinstance(result.exception, PlannerError)
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("message_type", "parts"),
    [
        ("std_msgs/msg/String", set()),
        ("llm_planner/msg/Segment", {"llm_planner/SkillCall", "llm_planner/Value"}),
        ("diagnostic_msgs/msg/DiagnosticArray", {"std_msgs/Header", "builtin_interfaces/Time"}),
    ],
)
def test_a_definition_holds_all_that_a_message_is_made_of(message_type, parts):
    text = definition(message_type)
    found = {line.removeprefix("MSG: ") for line in text.splitlines() if line.startswith("MSG: ")}
    assert parts <= found
    assert text.count(SEPARATOR) == len(found)
    if importlib.util.find_spec("mcap_ros2"):
        from mcap_ros2._dynamic import generate_dynamic

        assert message_type in generate_dynamic(message_type, text)


@pytest.mark.parametrize("message_type", ["nowhere_msgs/msg/Thing", "std_msgs/msg/Nothing"])
def test_what_is_not_installed_is_said(message_type):
    with pytest.raises(LookupError):
        definition(message_type)
    with pytest.raises(LookupError):
        message_class(message_type)


def test_a_recording_of_nothing_is_an_error_and_leaves_no_file(tmp_path):
    arguments = ["record", str(path := tmp_path / "run.mcap"), "--planner", "/nobody", "--duration", "0.2"]
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, PlannerError)
    assert (error.code, path.exists()) == (ErrorCode.SERVER_UNREACHABLE, False)
    assert "/nobody" in error.message


def test_where_ros_cannot_start_there_is_no_file(path, monkeypatch):
    def refuse(_):
        raise RuntimeError("no network")

    monkeypatch.setattr("llm_planner.ros.spinning.spinning", refuse)
    assert isinstance(CliRunner().invoke(app, ["record", str(path)]).exception, RuntimeError)
    assert not path.exists()
