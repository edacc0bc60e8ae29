# SPDX-License-Identifier: Apache-2.0
"""The commands of the laboratory: installed by `make setup-dev`, imported when they run, as their list says."""

import inspect

import pytest
from typer.testing import CliRunner

from llm_planner.cli import main
from llm_planner_lab.cli import bench
from llm_planner_lab.cli import commands as laboratory
from tests.test_imports import RUN, SLOW, loaded_by, top_level

ALL = [pytest.param(command, id=command.name) for command in (*laboratory.COMMANDS, *bench.COMMANDS)]


@pytest.mark.parametrize("command", ALL)
def test_the_list_says_what_the_command_says_of_itself(command):
    real = command.load()
    assert real.name == command.name
    assert " ".join(inspect.cleandoc(real.help).partition("\n\n")[0].split()) == command.help


def test_the_product_knows_their_names():
    assert {command.name for command in laboratory.COMMANDS} == set(main.LABORATORY)
    output = CliRunner().invoke(main.app, ["--help"]).stdout
    assert all(name in output for name in main.LABORATORY)


def test_a_lazy_group_holds_lazy_commands():
    result = CliRunner().invoke(main.app, ["bench", "decision", "--queued", "few"])
    assert result.exit_code == 1
    assert "--queued takes whole numbers" in str(result.exception)


@pytest.mark.parametrize("words", ["bench --help", "trace --help"])
def test_help_loads_nothing_slow(words):
    loaded = loaded_by(*words.split(), program=RUN)
    assert "typer" in loaded
    assert not top_level(loaded) & SLOW
