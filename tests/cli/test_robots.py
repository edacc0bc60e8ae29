# SPDX-License-Identifier: Apache-2.0
"""``llm-planner robots``: what is no command is a name; bodies and profiles on request."""

import errno
import json
import os
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from llm_planner.cli.main import app
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.resources import share_dir

runner = CliRunner()


def invoke(*arguments: str):
    return runner.invoke(app, ["robots", *arguments], env={"COLUMNS": "200"})


def refusal(*arguments: str) -> PlannerError:
    result = invoke(*arguments)
    assert isinstance(result.exception, PlannerError), result.output
    return result.exception


def test_a_name_shows_and_a_command_acts():
    assert "tello" in invoke().stdout
    assert invoke("tello").stdout == invoke("show", "tello").stdout
    assert "describe" in invoke("--help").stdout
    assert refusal("submarine").code is ErrorCode.UNKNOWN_ROBOT_MODEL


def test_an_example_that_no_model_reads_is_named(tmp_path: Path):
    text = (share_dir() / "robot_models" / "tello.yaml").read_text(encoding="utf-8")
    bad = text.replace("\nexamples:\n", "\nexamples:\n  - {instruction: go on, plan: fwd(100);}\n")
    (tmp_path / "tello.yaml").write_text(bad, encoding="utf-8")
    shown = "example 'go on' is left out: tello has no skill 'fwd'"
    assert shown in invoke("tello", "--models", str(tmp_path)).stdout
    (line,) = json.loads(invoke("tello", "--models", str(tmp_path), "--json").stdout)["left_out"]
    assert line.startswith(shown)
    assert "left out" not in invoke("tello").stdout


def test_brackets_of_a_description_are_shown_as_they_are(tmp_path: Path):
    text = (share_dir() / "robot_models" / "tello.yaml").read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith("description:"))
    shown = "a drone [mk2] [/docs]"
    (tmp_path / "tello.yaml").write_text(text.replace(line, f'description: "{shown}"'), encoding="utf-8")
    assert shown in invoke("tello", "--models", str(tmp_path)).stdout
    assert shown in invoke("--models", str(tmp_path)).stdout


def test_a_body_is_described(tmp_path: Path):
    pytest.importorskip("mujoco")
    assert ET.fromstring(invoke("describe", "--robot", "indy7").stdout).tag == "robot"
    path = tmp_path / "here" / "tello.sdf"
    assert invoke("describe", "--format", "sdf", "--output", str(path)).exit_code == 0
    assert ET.parse(path).getroot().tag == "sdf"
    assert invoke("describe", "--format", "obj").exit_code == 2


def test_a_world_is_written(tmp_path: Path):
    pytest.importorskip("mujoco")
    result = invoke("gazebo", "--world", "table", "--drones", "0", "--arms", "2", "--output", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.iterdir()} == {"world.sdf", "bridge.yaml"}
    assert refusal("gazebo", "--world", "moon").code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    "arguments",
    [
        ["describe", "--output", "."],
        ["describe", "--output", "a_file/x.urdf"],
        ["gazebo", "--output", "a_file"],
        ["profile", "--output", "a_file"],
        ["profile", "--output", "/proc"],
        ["profile", "--json", "a_file/x.json"],
    ],
)
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]):
    pytest.importorskip("mujoco")
    monkeypatch.setattr("llm_planner.sim.physics.profiling.profile.profile", lambda *_, **__: 1 / 0)  # before it
    monkeypatch.chdir(tmp_path)
    Path("a_file").touch()
    error = refusal(*arguments)
    assert error.code is ErrorCode.INVALID_FILE
    assert " cannot be written: " in error.message


def test_a_model_that_cannot_be_replaced_is_named_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("mujoco")

    def refuse(**_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("llm_planner.sim.physics.profiling.profile.profile", lambda *_, **__: 1 / 0)
    monkeypatch.setattr("llm_planner.cli.robots_profile.TemporaryFile", refuse)
    error = refusal("profile", "--in-place")
    assert error.code is ErrorCode.INVALID_FILE
    assert error.message.endswith("robot_models cannot be written: Read-only file system")


def test_a_profile_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch):
    assert "there is mujoco" in refusal("profile", "--sim", "paper").message
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "requirements/sim.txt" in refusal("profile").message
