# SPDX-License-Identifier: Apache-2.0
"""Checks of the machine: Python, packages, ports, disk, memory."""

import importlib.metadata
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from llm_planner import __version__
from llm_planner.core.resources import share_dir
from llm_planner.doctor.finding import Finding, Level

OLDEST, NEWEST = (3, 11), (3, 13)
LEAST_DISK_GB, LEAST_MEMORY_GB = 1.0, 1.0
SETUP = "run `make setup` again"


def versions() -> Iterator[Finding]:
    """Yields versions: of Python, and of packages that are not those that the planner was tested with."""
    python = ".".join(map(str, sys.version_info[:3]))
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        fix = f"use Python {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}: `make setup PYTHON=/path/to/python`"
        yield Finding(check="versions", level=Level.ERROR, text=f"Python {python} is not supported", fix=fix)
        return
    path = Path(__file__).resolve().parents[2] / "requirements" / "runtime.txt"
    pins = _pins(path) if path.is_file() else {}
    missing = [name for name in pins if _installed(name) is None]
    others = [f"{n} {_installed(n)} (tested: {v})" for n, v in pins.items() if _installed(n) not in (None, v)]
    if missing:
        yield Finding(check="versions", level=Level.ERROR, text=f"not installed: {', '.join(missing)}", fix=SETUP)
    if others:
        yield Finding(check="versions", level=Level.WARNING, text=f"untested versions: {', '.join(others)}", fix=SETUP)
    if not missing and not others:
        checked = f"{len(pins)} packages as tested" if pins else "packages were not compared: this is no checkout"
        yield Finding(check="versions", text=f"llm_planner {__version__}, Python {python}, {checked}")


def _pins(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {name: version for name, _, version in (line.partition("==") for line in lines) if version}


def _installed(name: str) -> str | None:
    """Returns the version of an installed package; what a build adds to it (``+cpu``) does not count."""
    try:
        return importlib.metadata.version(name).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def ports(numbers: Sequence[int]) -> Iterator[Finding]:
    """Yields which TCP ports of loopback are taken."""
    taken = [number for number in numbers if not _is_free(number)]
    for number in taken:
        text = f"TCP port {number} of 127.0.0.1 is taken (by a dashboard that runs?)"
        fix = f"end the process that has it (`ss -ltnp sport = {number}`), or give the dashboard another --port"
        yield Finding(check="ports", level=Level.WARNING, text=text, fix=fix)
    if not taken:
        yield Finding(check="ports", text=f"TCP {', '.join(map(str, numbers))} of 127.0.0.1: free")


def _is_free(number: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", number)):
            return True
    except OSError:
        return False


def space() -> Iterator[Finding]:
    """Yields how much disk and memory is left."""
    for path in dict.fromkeys((Path.cwd(), share_dir())):
        free_gb = shutil.disk_usage(path).free / 1e9
        short = free_gb < LEAST_DISK_GB
        fix = "make room: logs, recordings and checkpoints need it" if short else ""
        level = Level.WARNING if short else Level.OK
        yield Finding(check="disk", level=level, text=f"{free_gb:.1f} GB free at {path}", fix=fix)
    memory_gb = _free_memory_gb()
    if memory_gb is None:
        return
    short = memory_gb < LEAST_MEMORY_GB
    fix = "end other programs, or bound the KV cache: engine.num_kv_blocks" if short else ""
    level = Level.WARNING if short else Level.OK
    yield Finding(check="memory", level=level, text=f"{memory_gb:.1f} GB free, {os.cpu_count()} processors", fix=fix)


def _free_memory_gb() -> float | None:
    """Returns what Linux says is available; None elsewhere."""
    path = Path("/proc/meminfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    amounts = (line.split() for line in lines if line.startswith("MemAvailable:"))
    return next((int(words[1]) / 1e6 for words in amounts), None)
