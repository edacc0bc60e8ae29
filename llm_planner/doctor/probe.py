# SPDX-License-Identifier: Apache-2.0
"""Runs a probe: a module in a process of its own, which may crash or hang, and prints one JSON object."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

from llm_planner.doctor.finding import LATE
from llm_planner.doctor.machine import SETUP


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a probe.

    Attributes:
        values: What it printed; empty if it did not get that far.
        error: Why there are no values: its last line of complaint, or that it took too long.
        fix: What to do about that.
    """

    values: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    fix: str = SETUP


def probe(module: str, *arguments: str, timeout_s: float) -> Answer:
    """Returns what a probe said; it is killed after ``timeout_s``, and its children end with it."""
    environment = {"FASTDDS_BUILTIN_TRANSPORTS": "UDPv4"} | os.environ
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(error=f"no answer within {timeout_s:g} s; a busy machine takes longer", fix=LATE)
    lines = done.stdout.strip().splitlines()
    try:
        values = json.loads(lines[-1])
    except (IndexError, ValueError):
        complaints = done.stderr.strip().splitlines()
        return Answer(error=complaints[-1][:300] if complaints else f"it ended with status {done.returncode}")
    return Answer(values=values)
