# SPDX-License-Identifier: Apache-2.0
"""Every command line in the README and the pages is one that the program, or the module, would take."""

import argparse
import re
import runpy
import shlex
import sys

import pytest
import typer
import typer.core
import typer.main

from llm_planner.cli.lazy import LazyCommand
from llm_planner.cli.main import app
from tests.documented import ROOT, documented

UsageError = typer.BadParameter.__base__  # which typer does not export
READERS_OWN = re.compile(
    r"'(/path/to/|/models/|~/|\./Qwen|runs/|my_|mine\.|held_out\.|wid2\.jsonl|run\.mcap|cluster\.yaml|flight\.(py|mcap)|[A-Z_]+')"
)
"""Beginnings of the names of files that a reader has, or has made by a command before."""
COMMANDS = [command for command in documented("llm-planner") if command.words]
MODULES = [
    command
    for command in documented(r"python3?")
    if command.words[:1] == ("-m",) and command.words[1].startswith(("llm_planner", "tests."))
]


def refusal(words):
    """Returns what is wrong with a command line; None if nothing is but that it is not complete."""
    command, context = typer.main.get_command(app), None
    try:
        while True:
            command = command.load() if isinstance(command, LazyCommand) else command
            is_group = hasattr(command, "commands")
            context = command.make_context(command.name, list(words), parent=context, resilient_parsing=not words)
            if not is_group or not words:
                return None
            words = [*context._protected_args, *context.args]
            if not words:
                return None
            _, command, words = command.resolve_command(context, words)
    except UsageError as error:
        message = error.format_message()
        is_readers_own = "does not exist" in message and READERS_OWN.search(message)
        return None if is_readers_own or message.startswith("Missing ") else message
    except typer.Exit:  # --help
        return None


def test_there_are_command_lines_to_look_at():
    assert len(COMMANDS) > 150
    assert len(MODULES) > 10


@pytest.mark.parametrize(
    "words",
    [["chek"], ["up", "model:=x"], ["plan", "go", "--bugdet", "1"], ["top", "--once=3"], ["replay", "gone.mcap"]],
)
def test_a_mistake_would_be_noticed(words):
    assert refusal(words)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command)[:60])
def test_the_program_takes_it(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert refusal(command.words) is None, f"{command.page}: {command}"


EXAMPLES = sorted(
    {
        example
        for page in (ROOT / "llm_planner" / "cli").glob("*.py")
        for example in re.findall(r"Example: llm-planner (.+?)(?=\\n|\",$|$)", page.read_text(), re.MULTILINE)
    }
)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_program_takes_the_examples_of_its_help(example, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert refusal(shlex.split(example)) is None


class Taken(BaseException):
    """The arguments were understood: what a module would do with them is not done."""


@pytest.fixture
def only_parse(monkeypatch):
    """Ends programs as soon as they have understood their arguments."""
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser, *arguments):
        parse(parser, *arguments)
        raise Taken

    def invoke(command, context):
        raise Taken

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    monkeypatch.setattr(typer.core.TyperCommand, "invoke", invoke)
    monkeypatch.chdir(ROOT)


def run_module(monkeypatch, words):
    monkeypatch.setattr(sys, "argv", [words[0], *words[1:]])
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


@pytest.mark.ros
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.usefixtures("only_parse")
@pytest.mark.parametrize("command", MODULES, ids=lambda command: str(command)[:60])
def test_the_module_takes_it(command, monkeypatch):
    with pytest.raises(Taken):
        run_module(monkeypatch, command.words[1:])


@pytest.mark.ros
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.usefixtures("only_parse")
@pytest.mark.parametrize("module", ["llm_planner_lab.bench.server", "llm_planner_lab.ros.soak"])
def test_an_option_that_a_module_lacks_would_be_noticed(module, monkeypatch):
    with pytest.raises(SystemExit) as ended:
        run_module(monkeypatch, [module, "--bugdet", "1"])
    assert ended.value.code == 2
