# SPDX-License-Identifier: Apache-2.0
"""Commands that are imported when they run: their list needs none of them and tells the truth about them."""

import inspect
import shlex
from importlib.metadata import EntryPoint

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from llm_planner.cli import lazy, main
from llm_planner.cli.lazy import laboratory_commands, lazy_group
from llm_planner.cli.options import complete_robot as complete_robot_of_the_shell

ALL = [pytest.param(command, id=command.name) for command in main.COMMANDS]


@pytest.mark.parametrize("command", ALL)
def test_the_list_says_what_the_command_says_of_itself(command):
    real = command.load()
    assert real.name == command.name
    assert " ".join(inspect.cleandoc(real.help).partition("\n\n")[0].split()) == command.help


def test_an_unknown_command_is_answered_with_the_nearest_one():
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
RENAMED = EntryPoint("laboratory", "llm_planner.cli.main:OF_BEFORE", lazy.ENTRY_POINTS)
OTHER = EntryPoint("other", "llm_planner.cli.main:COMMANDS", "another.group")


@pytest.mark.parametrize("points", [[], [GONE], [RENAMED], [OTHER]])
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


def every_command(command, path=("llm-planner",)):
    """Yields all commands of the product below one, with the words that call them."""
    yield path, command
    for child in getattr(command, "commands", {}).values():
        if not child.hidden and (len(path) > 1 or child.name in {each.name for each in main.COMMANDS}):
            yield from every_command(
                child.load() if isinstance(child, lazy.LazyCommand) else child, (*path, child.name)
            )


EVERY = [pytest.param(path, command, id=" ".join(path)) for path, command in every_command(get_command(main.app))]


def shown_help(path):
    return CliRunner().invoke(main.app, [*path[1:], "--help"], env={"COLUMNS": "160"}).stdout


@pytest.mark.parametrize(("path", "command"), EVERY)
def test_the_help_of_every_command_has_an_example_that_can_be_typed(path, command):
    shown = shown_help(path)
    examples = [line.split("Example: ")[1] for line in shown.splitlines() if "Example: " in line]
    assert examples
    for example in map(shlex.split, examples):
        assert tuple(example[: len(path)]) == path
        options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
        if not hasattr(command, "commands"):
            assert {word for word in example if word.startswith("--")} <= options


@pytest.mark.parametrize(("path", "command"), EVERY)
def test_a_flag_is_shown_without_a_type(path, command):
    assert "<bool>" not in shown_help(path)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("check --robot t", {"tello"}),
        ("plan --policy tard", {"tardiness", "tardiness_safe"}),
        ("robot drone_1 --robot ind", {"indy7"}),
        ("send dr", {"drone_1", "drone_2"}),
        ("stop drone_1 a", {"arm_1"}),
    ],
)
def test_a_shell_completes_robots_models_and_policies(line, expected, monkeypatch):
    def complete_robot(incomplete):
        return [name for name in ("arm_1", "drone_1", "drone_2") if name.startswith(incomplete)]

    monkeypatch.setattr(complete_robot_of_the_shell, "__code__", complete_robot.__code__)
    words = {"_LLM_PLANNER_COMPLETE": "complete_bash", "COMP_WORDS": f"llm-planner {line}"}
    words["COMP_CWORD"] = f"{len(line.split())}"
    result = CliRunner().invoke(main.app, [], prog_name="llm-planner", env=words)
    assert set(result.stdout.split()) == expected
