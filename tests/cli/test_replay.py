# SPDX-License-Identifier: Apache-2.0
"""`llm-planner replay` without ROS: text, picture, and the dashboard until Ctrl-C."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from typer.testing import CliRunner

from llm_planner.cli.main import app
from llm_planner.core.errors import ErrorCode, PlannerError
from tests.monitoring.test_playback import record

PROGRAM = "import sys; sys.argv[0] = 'llm-planner'; from llm_planner.cli.main import main; main()"


@pytest.fixture
def path(tmp_path):
    record(tmp_path / "run.mcap")
    return tmp_path / "run.mcap"


def replay(*arguments):
    return CliRunner().invoke(app, ["replay", *map(str, arguments)])


def test_what_happened_as_text(path):
    result = replay(path)
    assert result.exit_code == 0
    assert "7 messages of 3 topics" in result.stdout
    assert "goals ended: 1 done" in result.stdout
    assert "drone_1" in result.stdout


def test_a_restart_of_the_planner_is_said(tmp_path):
    record(tmp_path / "two.mcap", num_starts=2)
    result = replay(tmp_path / "two.mcap")
    assert "goals ended: 2 done" in result.stdout
    assert "the planner was restarted 1 time\n" in result.stdout


def test_what_happened_as_one_object_and_as_a_picture(path, tmp_path):
    result = replay(path, "--json", "--png", tmp_path / "run.png")
    answer = json.loads(result.stdout)
    assert (answer["ended"], answer["is_cut"]) == ({"NONE": 1}, False)
    assert "spans" not in answer
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["run.txt", "nowhere/run.png"])
def test_a_picture_that_cannot_be_written_is_named(path, tmp_path, name):
    error = replay(path, "--png", tmp_path / name).exception
    assert isinstance(error, PlannerError)
    assert error.code is ErrorCode.INVALID_FILE
    assert f"{name} cannot be written: " in error.message


def test_what_is_no_recording_is_refused_before_a_browser_comes(tmp_path, monkeypatch):
    monkeypatch.setattr("llm_planner.monitoring.web.WebServer", lambda *_: 1 / 0)
    (tmp_path / "run.mcap").write_text("no recording")
    error = replay(tmp_path / "run.mcap", "--dashboard").exception
    assert isinstance(error, PlannerError)
    assert error.code is ErrorCode.INVALID_FILE


def test_a_picture_of_a_time_in_which_nothing_happens_is_refused(path, tmp_path):
    result = replay(path, "--png", tmp_path / "run.png", "--start", "1000", "--duration", "5")
    assert isinstance(result.exception, PlannerError)
    assert result.exception.code is ErrorCode.INVALID_CONFIG
    assert "nothing happens from 1000 to 1005 s; the first goal begins at " in result.exception.message
    assert "goals ended: 1 done" in result.stdout  # what was asked for besides


@pytest.mark.parametrize("option", [["--json"], ["--png", "run.png"]])
def test_a_recording_is_played_or_told(path, option):
    result = replay(path, "--dashboard", *option)
    assert isinstance(result.exception, PlannerError)
    assert result.exception.code is ErrorCode.INVALID_CONFIG


def test_a_recording_plays_in_the_dashboard_until_ctrl_c(path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = [sys.executable, "-c", PROGRAM, "replay", str(path), "--dashboard", "--port", str(port), "--speed", "100"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = (line for line in connect(f"http://127.0.0.1:{port}/events") if line.startswith(b"data: "))
            robots = next(names for line in lines if (names := robot_names(line)))
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert robots == ["drone_1"]
    assert (process.returncode, "Traceback" in errors) == (0, False)


def robot_names(line):
    return [robot["robot_id"] for robot in json.loads(line[6:])["robots"]]


def connect(url, timeout_s=60.0):
    until_s = time.monotonic() + timeout_s
    while time.monotonic() < until_s:
        try:
            return urllib.request.urlopen(url, timeout=30)
        except urllib.error.URLError:
            time.sleep(0.1)
    raise TimeoutError(url)
