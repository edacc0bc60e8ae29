"""Commands that are imported when they run: their list needs none of them and tells the truth about them."""

import inspect
from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

from llm_planner.cli import lazy, main
from llm_planner.cli.lazy import laboratory_commands, lazy_group

ALL = [pytest.param(command, id=command.name) for command in main.COMMANDS]


@pytest.mark.parametrize("command", ALL)
def test_the_list_says_what_the_command_says_of_itself(command):
    real = command.load()
    assert real.name == command.name
    assert " ".join(inspect.cleandoc(real.help).partition("\n\n")[0].split()) == command.help


def test_a_command_that_nobody_knows_is_answered_with_one_that_is_near():
    result = CliRunner().invoke(main.app, ["chek", "mf(50);"])
    assert result.exit_code == 2
    assert "check" in result.stderr


def program(points, monkeypatch):
    """Returns a program whose environment has these entry points."""
    monkeypatch.setattr(lazy, "entry_points", lambda group: [point for point in points if point.group == group])
    commands = [main.COMMANDS[0], *laboratory_commands(main.LABORATORY)]
    app = typer.Typer(cls=lazy_group(commands), no_args_is_help=True)
    app.callback()(lambda: None)
    return app


GONE = EntryPoint("laboratory", "llm_planner_that_is_gone.commands:COMMANDS", lazy.ENTRY_POINTS)
OTHER = EntryPoint("other", "llm_planner.cli.main:COMMANDS", "another.group")


@pytest.mark.parametrize("points", [[], [GONE], [OTHER]])
@pytest.mark.parametrize("name", main.LABORATORY)
def test_a_command_that_is_not_installed_says_in_one_line_how_to_get_it(points, name, monkeypatch):
    result = CliRunner().invoke(program(points, monkeypatch), [name, "--seed", "1"])
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert f"llm-planner {name} " in line
    assert "make setup-dev" in line


def test_commands_that_are_not_installed_are_not_listed(monkeypatch):
    result = CliRunner().invoke(program([], monkeypatch), ["--help"])
    assert result.exit_code == 0
    assert "plan" in result.stdout
    assert "train-planner" not in result.stdout


def test_an_installed_package_adds_its_commands(monkeypatch):
    point = EntryPoint("laboratory", "llm_planner.cli.main:COMMANDS", lazy.ENTRY_POINTS)
    result = CliRunner().invoke(program([point], monkeypatch), ["--help"])
    assert "dashboard" in result.stdout
