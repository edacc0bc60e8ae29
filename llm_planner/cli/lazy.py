"""Commands that are imported when they run: a program with many commands starts as fast as one with few."""

import importlib
from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group


class LazyCommand(TyperCommand):
    """Stands for a command, or a group of them, in its parent's list; gives its place to it when it is called.

    Args:
        name: As it is typed.
        target: ``module:name`` below ``llm_planner.cli`` of a function or a ``typer.Typer``.
        summary: The first paragraph of its help, in one line (``tests/cli/test_lazy.py`` compares them).
    """

    def __init__(self, name: str, target: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self._target = target

    def load(self) -> Any:  # noqa: ANN401 (a command of the click within typer)
        """Imports the command and returns it."""
        module, _, name = self._target.partition(":")
        target = getattr(importlib.import_module(f"llm_planner.cli.{module}"), name)
        if isinstance(target, typer.Typer):
            command: Any = get_group(target)
        else:
            alone = typer.Typer(add_completion=False)
            alone.command()(target)
            command = get_command(alone)
        command.name = self.name
        return command

    def make_context(self, *arguments: Any, **fields: Any) -> Any:  # noqa: ANN401 (as above)
        """Returns the context of the command itself."""
        return self.load().make_context(*arguments, **fields)


def lazy_group(commands: Iterable[LazyCommand]) -> type[TyperGroup]:
    """Returns the class of a group (``typer.Typer(cls=...)``) that shows these commands before its own."""

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 (typer's)
            super().__init__(**attributes)
            self.commands = {**{str(command.name): command for command in commands}, **self.commands}

    return LazyGroup
