"""Commands that are imported when they run: their list needs none of them and tells the truth about them."""

import inspect

import pytest
from typer.testing import CliRunner

from llm_planner.cli import bench, main

ALL = [pytest.param(command, id=command.name) for command in (*main.COMMANDS, *bench.COMMANDS)]


@pytest.mark.parametrize("command", ALL)
def test_the_list_says_what_the_command_says_of_itself(command):
    real = command.load()
    assert real.name == command.name
    assert " ".join(inspect.cleandoc(real.help).partition("\n\n")[0].split()) == command.help


def test_a_command_that_nobody_knows_is_answered_with_one_that_is_near():
    result = CliRunner().invoke(main.app, ["chek", "mf(50);"])
    assert result.exit_code == 2
    assert "check" in result.stderr


def test_a_lazy_group_holds_lazy_commands():
    result = CliRunner().invoke(main.app, ["bench", "decision", "--queued", "few"])
    assert result.exit_code == 1
    assert "--queued takes whole numbers" in str(result.exception)
