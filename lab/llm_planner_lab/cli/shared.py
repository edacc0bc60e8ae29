# SPDX-License-Identifier: Apache-2.0
"""What commands share: options that are numbers, and files of results."""

import json
import math
from pathlib import Path
from typing import TypeVar

from llm_planner.cli.output import console, plain
from llm_planner.core.errors import ErrorCode, PlannerError

_Number = TypeVar("_Number", int, float)
_KINDS = {int: "whole numbers", float: "numbers"}


def numbers(option: str, text: str, kind: type[_Number], least: float = 0) -> tuple[_Number, ...]:
    """Returns the numbers of an option, with commas between.

    Raises:
        PlannerError: INVALID_CONFIG if one is none, or less than ``least``.
    """
    try:
        found = tuple(kind(number) for number in text.split(","))
    except ValueError:
        found = ()
    if not (found and all(map(math.isfinite, found)) and min(found) >= least):
        message = f"{option} takes {_KINDS[kind]} of {least:g} or more, with commas between; got {text!r}"
        raise PlannerError(ErrorCode.INVALID_CONFIG, message)
    return found


def write_json(document: object, path: Path) -> None:
    """Writes a result and says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plain(document), indent=1) + "\n", encoding="utf-8")
    console.print(f"wrote {path}")
