# SPDX-License-Identifier: Apache-2.0
"""``llm-planner emulate``: what a user sees when something is wrong, and a program that is run unchanged."""

import venv

import pytest
from typer.testing import CliRunner

from llm_planner.cli.emulate import addresses
from llm_planner.cli.main import app
from llm_planner.core.errors import ErrorCode, PlannerError
from tests.robots.loopback import loopback

runner = CliRunner()


def test_drones_have_consecutive_addresses():
    assert addresses("127.0.0.254", 3) == ["127.0.0.254", "127.0.0.255", "127.0.1.0"]


@pytest.mark.parametrize("first", ["here", "127.0.0.256", "255.255.255.255"])
def test_an_address_that_is_none_is_named(first):
    result = runner.invoke(app, ["emulate", "tello", "--count", "2", "--address", first])
    assert isinstance(result.exception, PlannerError)
    assert result.exception.code is ErrorCode.INVALID_CONFIG


def test_an_impossible_share_is_refused():
    assert runner.invoke(app, ["emulate", "tello", "--lost", "1.5"]).exit_code == 2


def test_a_program_keeps_its_ports_on_one_address_and_gets_its_arguments(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import pathlib, socket, sys\n"
        "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:\n"
        "    s.bind(('', 0))\n"
        "    pathlib.Path(sys.argv[1]).write_text(' '.join([s.getsockname()[0], *sys.argv[2:]]))\n"
    )
    said = tmp_path / "said"
    here = loopback(40)
    its_own = ["--fast", "--address", "127.0.0.9", "--help"]
    result = runner.invoke(app, ["emulate", "run", "--address", here, str(program), str(said), *its_own])
    assert result.exit_code == 0, result.output
    assert said.read_text() == f"{here} --fast --address 127.0.0.9 --help"


PROGRAM = """
import pathlib, socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.bind(('', 0))
    pathlib.Path(sys.argv[1]).write_text(' '.join([s.getsockname()[0], sys.executable, *sys.argv[2:]]))
sys.exit(3)
"""


def test_a_program_runs_in_the_environment_that_its_driver_is_in(tmp_path):
    (program := tmp_path / "program.py").write_text(PROGRAM)
    venv.create(tmp_path / "other", with_pip=False, symlinks=True)  # without anything of ours
    python, said, here = tmp_path / "other/bin/python", tmp_path / "said", loopback(40)
    arguments = ["emulate", "run", "--address", here, "--python", str(python), str(program), str(said), "--fast"]
    assert runner.invoke(app, arguments).exit_code == 3
    assert said.read_text() == f"{here} {python} --fast"


def test_an_interpreter_that_is_none_is_named(tmp_path):
    (program := tmp_path / "program.py").write_text("")
    result = runner.invoke(app, ["emulate", "run", "--python", str(tmp_path / "python"), str(program)])
    assert isinstance(result.exception, PlannerError)
    assert result.exception.code is ErrorCode.INVALID_FILE


@pytest.mark.parametrize("content", [b"this is a text", b"\xff\xfe", b"\0\1"])
def test_a_program_that_is_none_is_named(tmp_path, content):
    (program := tmp_path / "program").write_bytes(content)
    result = runner.invoke(app, ["emulate", "run", "--address", loopback(40), str(program)])
    assert isinstance(result.exception, PlannerError)
    assert result.exception.code is ErrorCode.INVALID_FILE
    assert f"{program} is no Python program: " in result.exception.message


def test_a_mistake_in_what_a_program_imports_is_shown_as_python_does(tmp_path, monkeypatch):
    (tmp_path / "broken_module.py").write_text("x = ")
    monkeypatch.syspath_prepend(tmp_path)
    (program := tmp_path / "program.py").write_text("import broken_module")
    result = runner.invoke(app, ["emulate", "run", "--address", loopback(40), str(program)])
    assert isinstance(result.exception, SyntaxError)
