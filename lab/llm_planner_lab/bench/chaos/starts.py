# SPDX-License-Identifier: Apache-2.0
"""Starts and stops a whole fleet again and again, at any moment of its life, and looks for what is left."""

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llm_planner_lab.bench.chaos import machine
from llm_planner_lab.bench.chaos.checks import INVARIANTS, Violation
from llm_planner_lab.bench.chaos.fleet import Processes, compose
from llm_planner_lab.checkout import commit

READY_TIMEOUT_S = 120.0
READY = "accepts goals"  # what the planner logs then
LONGEST_LIFE = 1.5  # relative to the time that the first fleet took until its planner was ready
ORPHAN_TIMEOUT_S = 3.0


def run_starts(
    number: int, seed: int, *, drones: int, arms: int, on_progress: Callable[[str, float], None] = lambda *_: None
) -> dict[str, Any]:
    """Returns the document of a number of starts and stops."""
    rng = random.Random(f"starts {seed}")
    violations: list[tuple[int, Violation]] = []
    stops_s: list[float] = []
    statuses: Counter[str] = Counter()
    began_s = time.monotonic()
    alive_s, ready_s, num_ready = None, 0.0, 0
    for index in range(number):
        on_progress(f"start {index + 1} of {number}", index / number)
        with tempfile.TemporaryDirectory(prefix="llm_planner_chaos_") as name:
            lived_s, took_s, ended, found = _start_and_stop(Path(name), alive_s, drones, arms)
            num_ready += _is_ready(Path(name))
        ready_s = ready_s or lived_s
        alive_s = rng.uniform(0.0, LONGEST_LIFE * ready_s)
        stops_s.append(took_s)
        statuses.update(map(str, ended.values()))
        violations += [(index, violation) for violation in found]
    counts = Counter(violation.invariant for _, violation in violations)
    return {
        "setup": {"commit": commit(), "seed": seed, "starts": number, "drones": drones, "arms": arms},
        "goals": {},
        "figures": {
            "ready_s": round(ready_s, 1),
            "stopped_when_ready": num_ready,
            "longest_stop_s": round(max(stops_s), 2),
            "exit_statuses": dict(statuses),
            "seconds": round(time.monotonic() - began_s, 1),
        },
        "invariants": {
            name: counts[name] for name in ("hangs_at_stop", "orphans", "shared_memory") if name in INVARIANTS
        },
        "examples": [
            {"invariant": v.invariant, "at_s": round(v.at_s - began_s, 1), "fault": index, "what": v.what}
            for index, v in violations[:20]
        ],
        "reproduce": f"llm-planner chaos --starts {number} --seed {seed} --drones {drones} --arms {arms}",
    }


def _start_and_stop(
    directory: Path, alive_s: float | None, drones: int, arms: int
) -> tuple[float, float, dict[str, int], list[Violation]]:
    """Starts a fleet, and stops it after some seconds, or, with None, when its planner is ready.

    Returns:
        How long it lived, how long stopping took, exit statuses, and what is left.
    """
    (directory / "disk").mkdir()
    before = machine.shared_memory()
    composition = compose(
        drones=drones, arms=arms, time_scale=1.0, backend="fake", has_world=False, directory=directory
    )
    processes = Processes(directory, composition)
    born_s = time.monotonic()
    processes.start({})
    if alive_s is None:
        while not _is_ready(directory) and time.monotonic() - born_s < READY_TIMEOUT_S:
            time.sleep(0.1)
    else:
        time.sleep(alive_s)
    began_s = time.monotonic()
    lived_s = began_s - born_s
    statuses = processes.fleet.stop()
    took_s = time.monotonic() - began_s
    found = [
        Violation(
            invariant="hangs_at_stop", at_s=began_s, what=f"{name} had to be killed, {lived_s:.1f} s after its start"
        )
        for name, status in statuses.items()
        if machine.had_to_be_killed(status)
    ]
    while machine.processes_of(directory) and time.monotonic() - began_s - took_s < ORPHAN_TIMEOUT_S:
        time.sleep(0.05)
    found += [
        Violation(invariant="orphans", at_s=began_s, what=command)
        for command in machine.processes_of(directory).values()
    ]
    left = sorted(machine.shared_memory() - before)
    return lived_s, took_s, statuses, found + [Violation(invariant="shared_memory", at_s=began_s, what=n) for n in left]


def _is_ready(directory: Path) -> bool:
    """Returns whether the planner of a fleet has become ready."""
    log = directory / "disk" / "planner.log"
    return log.exists() and READY in log.read_text(encoding="utf-8", errors="replace")
