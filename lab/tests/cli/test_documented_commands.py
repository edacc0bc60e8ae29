# SPDX-License-Identifier: Apache-2.0
"""Every command line in the README and the pages is one that the program would take."""

import re
import shlex
from pathlib import Path

import pytest
import typer
import typer.main

from llm_planner.cli.lazy import LazyCommand
from llm_planner.cli.main import app

UsageError = typer.BadParameter.__base__  # which typer does not export
ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("models/*/*.md")]
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
CALL = re.compile(r"(?:^|[\s/])llm-planner((?: [^\n]*)?)$", re.MULTILINE)


def command_lines(text):
    """Yields what follows ``llm-planner``, in fences and between backticks."""
    for fence in FENCE.findall(text):
        yield from CALL.findall(re.sub(r"\s*\\\n\s*", " ", fence))
    for span in re.findall(r"`(llm-planner [^`]*)`", FENCE.sub("", text)):
        yield span.removeprefix("llm-planner").replace("\n", " ")


LINES = sorted(
    {(line.strip(), page.relative_to(ROOT)) for page in PAGES for line in command_lines(page.read_text())},
)


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
        is_readers_own = "does not exist" in message or message.startswith("Missing ")
        return None if is_readers_own else message
    except typer.Exit:  # --help
        return None


def test_there_are_command_lines_to_look_at():
    assert len(LINES) > 80


@pytest.mark.parametrize("words", [["chek"], ["up", "model:=x"], ["plan", "go", "--bugdet", "1"], ["top", "--once=3"]])
def test_a_mistake_would_be_noticed(words):
    assert refusal(words)


@pytest.mark.parametrize(("line", "page"), LINES, ids=lambda value: str(value)[:60])
def test_the_program_takes_it(line, page):
    words = shlex.split(line.replace("...", "x"), comments=True)
    assert refusal(words) is None, f"{page}: llm-planner {line}"
