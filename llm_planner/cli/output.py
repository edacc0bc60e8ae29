# SPDX-License-Identifier: Apache-2.0
"""How commands speak: a table or line for people, one JSON object for programs."""

import dataclasses
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.segment import Segment

console = Console(highlight=False)
error_console = Console(stderr=True, highlight=False)


def print_error(error: PlannerError) -> None:
    """Prints one line on standard error: what happened, and its number."""
    error_console.print(Text("error:", "bold red"), str(error), markup=False, soft_wrap=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Names a file that cannot be written, and why, instead of a traceback.

    Raises:
        PlannerError: INVALID_FILE.
    """
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: matplotlib's, for a format that it does not know
        reason = getattr(error, "strerror", None) or error
        raise PlannerError(ErrorCode.INVALID_FILE, f"{path} cannot be written: {reason}") from error


class _Elapsed:
    """A line that tells how long it has been true, whenever it is drawn."""

    def __init__(self, text: str) -> None:
        self._text, self._clock = text, MonotonicClock()
        self._since_s = self._clock.now_s()

    def __rich__(self) -> str:
        return f"{self._text} ({self._clock.now_s() - self._since_s:.0f} s)"


@contextmanager
def waiting() -> Iterator[Callable[[str], None]]:
    """Yields what shows on standard error what is being waited for; without a terminal, one line for each new thing."""
    shown = ""
    with error_console.status("") as status:

        def show(text: str) -> None:
            nonlocal shown
            if text == shown:
                return
            shown = text
            status.update(_Elapsed(text))
            if not error_console.is_terminal:
                error_console.print(text, markup=False, soft_wrap=True)

        yield show


def print_json(value: object) -> None:
    """Prints one JSON document on standard output."""
    print(json.dumps(plain(value), ensure_ascii=False))


def plain(value: Any) -> Any:
    """Returns dataclasses, enums and tuples as what JSON knows; a number that JSON lacks becomes null."""
    if isinstance(value, Enum):
        return int(value) if isinstance(value, ErrorCode) else value.name
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    is_unknown = isinstance(value, float) and not math.isfinite(value)
    return None if is_unknown else value


def segment_json(segment: Segment) -> dict[str, Any]:
    """Returns a segment as ``--json`` shows it."""
    return {
        "index": segment.index,
        "text": segment.text,
        "calls": [{"name": call.name, "arguments": list(call.arguments)} for call in segment.calls],
        "expected_s": plain(segment.expected),
    }
