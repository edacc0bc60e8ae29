# SPDX-License-Identifier: Apache-2.0
"""Commands that are imported when they run: a program with many commands starts as fast as one with few."""

import importlib
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import entry_points
from typing import Any, ClassVar, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

ENTRY_POINTS = "llm_planner.commands"
"""An installed package adds commands by an entry point of this group: ``MODULE:NAME`` of a sequence of LazyCommand."""


class LazyCommand(TyperCommand):
    """Stands for a command, or a group of them, in its parent's list; gives its place to it when it is called.

    Args:
        name: As it is typed.
        target: ``module:name`` below ``package`` of a function or a ``typer.Typer``.
        summary: The first paragraph of its help, in one line (``tests/cli/test_lazy.py`` compares them).
    """

    package: ClassVar[str] = "llm_planner.cli"

    def __init__(self, name: str, target: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self._target = target

    def load(self) -> Any:
        """Imports the command and returns it."""
        module, _, name = self._target.partition(":")
        target = getattr(importlib.import_module(f"{self.package}.{module}"), name)
        if isinstance(target, typer.Typer):
            command: Any = get_group(target)
        else:
            alone = typer.Typer(add_completion=False)
            alone.command()(target)
            command = get_command(alone)
        command.name = self.name
        show_flags_without_type(command)
        return command

    def make_context(self, *arguments: Any, **fields: Any) -> Any:
        """Returns the context of the command itself."""
        return self.load().make_context(*arguments, **fields)


def show_flags_without_type(command: Any) -> None:
    """Lets the help of a command, and of those below it, show ``--json`` rather than ``--json <bool>``."""
    params = command.get_params
    command.get_params = lambda ctx: _without_flag_types(params(ctx))
    for child in getattr(command, "commands", {}).values():
        show_flags_without_type(child)


def _without_flag_types(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class MissingCommand(TyperCommand):
    """Stands for a command that is not installed: hidden, and says in one line how to get it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, hidden=True)

    def make_context(self, *_: Any, **__: Any) -> NoReturn:
        """Ends the program with exit status 2."""
        print(
            f"llm-planner {self.name} belongs to the laboratory, which is not installed: "
            "run `make setup-dev` in a checkout",
            file=sys.stderr,
        )
        sys.exit(2)


def laboratory_commands(names: Iterable[str]) -> Sequence[TyperCommand]:
    """Returns the commands that installed packages add, and a stand-in for each of ``names`` that none adds."""
    found: dict[str | None, TyperCommand] = {}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            found |= {command.name: command for command in point.load()}
        except (ImportError, AttributeError):  # what it names is gone, its metadata is not
            continue
    return [*found.values(), *(MissingCommand(name) for name in names if name not in found)]


def lazy_group(commands: Iterable[TyperCommand]) -> type[TyperGroup]:
    """Returns the class of a group (``typer.Typer(cls=...)``) that shows these commands before its own."""

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = {**{str(command.name): command for command in commands}, **self.commands}

        def get_params(self, ctx: Any) -> list[Any]:
            return _without_flag_types(super().get_params(ctx))

    return LazyGroup
