# SPDX-License-Identifier: Apache-2.0
"""What a process under test did, line by line, in a file that survives the process."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DIRECTORY = "LLM_PLANNER_CHAOS_DIR"
"""Environment variable of all processes of a campaign: where their journals are. It also tells them from others."""
BREAK = "LLM_PLANNER_CHAOS_BREAK"
"""Environment variable: which defect robots get on purpose (``mutations``), to show that the campaign finds it."""

Line = dict[str, Any]


class Journal:
    """Appends lines of JSON to a file; each is one write to the kernel, so a killed process loses none.

    Times are of CLOCK_MONOTONIC, which all processes of a machine share.

    Args:
        path: Of the file; a process that starts again goes on with it.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._pid = os.getpid()

    @classmethod
    def of(cls, name: str) -> "Journal":
        """Returns the journal of a process of a campaign."""
        return cls(Path(os.environ[DIRECTORY]) / f"{name}.jsonl")

    def note(self, kind: str, **fields: object) -> None:
        """Writes a line."""
        line = {"kind": kind, "at_s": time.monotonic(), "pid": self._pid, **fields}
        os.write(self._file, (json.dumps(line) + "\n").encode())


def read(path: Path) -> Iterator[Line]:
    """Yields the lines of a journal in order; none without a file. The last one may be cut."""
    if not path.exists():
        return
    for text in path.read_text(encoding="utf-8").split("\n"):
        try:
            line = json.loads(text)
        except ValueError:
            continue
        yield line
