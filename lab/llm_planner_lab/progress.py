# SPDX-License-Identifier: Apache-2.0
"""How far a long run is, as a bar on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from llm_planner.cli.output import error_console


@contextmanager
def progress_bar(what: str, console: Console | None = None) -> Iterator[Callable[[str, float], None]]:
    """Yields what is told what goes on, and which share of it is done; it draws that.

    Args:
        what: Goes on at the start.
        console: Where the bar stays when all is done. By default it is drawn on standard error and vanishes.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console or error_console, transient=console is None) as progress:
        task = progress.add_task(what, total=1.0)
        yield lambda what, share: progress.update(task, description=what, completed=share)
