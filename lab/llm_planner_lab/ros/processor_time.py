# SPDX-License-Identifier: Apache-2.0
"""What processes take of a processor and of memory, by the kernel's own account (Linux)."""

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def processor_s(pid: int) -> float:
    """Returns the processor seconds of a process and of its living children, so far; 0 of one that is gone."""
    return sum(_own_s(each) for each in (pid, *_children(pid)))


def share_of_core(pids: Mapping[str, int], seconds: float) -> dict[str, float]:
    """Waits ``seconds``; returns which share of one core each process took meanwhile, its children included."""
    before = {name: processor_s(pid) for name, pid in pids.items()}
    began_s = time.monotonic()
    time.sleep(seconds)
    passed_s = time.monotonic() - began_s
    return {name: round((processor_s(pid) - before[name]) / passed_s, 4) for name, pid in pids.items()}


def memory_mb(pid: int) -> float:
    """Returns the proportional memory of a process in MB (PSS): what it shares is divided among those that share it."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))


def _own_s(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()  # the name before may hold spaces
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _children(pid: int) -> Iterator[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    except OSError:
        return
    for child in map(int, text.split()):
        yield child
        yield from _children(child)
