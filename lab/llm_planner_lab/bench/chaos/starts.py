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
from llm_planner_lab.bench.timely.benchmark import commit

LONGEST_S = 12.0  # that a fleet lives: from the loading of Python to goals of its robots
STOP_BOUND_S = 15.0
ORPHAN_PATIENCE_S = 3.0


def run_starts(
    number: int, seed: int, *, drones: int, arms: int, on_progress: Callable[[str, float], None] = lambda *_: None
) -> dict[str, Any]:
    """Returns the document of so many starts and stops."""
    rng = random.Random(f"starts {seed}")
    violations: list[tuple[int, Violation]] = []
    stops_s: list[float] = []
    statuses: Counter[str] = Counter()
    began_s = time.monotonic()
    for index in range(number):
        on_progress(f"start {index + 1} of {number}", index / number)
        with tempfile.TemporaryDirectory(prefix="llm_planner_chaos_") as name:
            took_s, ended, found = _start_and_stop(Path(name), rng.uniform(0.0, LONGEST_S), drones, arms)
        stops_s.append(took_s)
        statuses.update(map(str, ended.values()))
        violations += [(index, violation) for violation in found]
    counts = Counter(violation.invariant for _, violation in violations)
    return {
        "setup": {"commit": commit(), "seed": seed, "starts": number, "drones": drones, "arms": arms},
        "goals": {},
        "figures": {
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
    directory: Path, alive_s: float, drones: int, arms: int
) -> tuple[float, dict[str, int], list[Violation]]:
    """Starts a fleet, stops it after some seconds; returns how long that took, exit statuses, and what is left."""
    (directory / "disk").mkdir()
    before = machine.shared_memory()
    composition = compose(
        drones=drones, arms=arms, time_scale=1.0, backend="fake", has_world=False, directory=directory
    )
    processes = Processes(directory, composition)
    processes.start({})
    time.sleep(alive_s)
    began_s = time.monotonic()
    statuses = processes.fleet.stop()
    took_s = time.monotonic() - began_s
    found = [
        Violation(
            invariant="hangs_at_stop", at_s=began_s, what=f"{name} had to be killed, {alive_s:.1f} s after its start"
        )
        for name, status in statuses.items()
        if status == -9
    ]
    while machine.processes_of(directory) and time.monotonic() - began_s - took_s < ORPHAN_PATIENCE_S:
        time.sleep(0.05)
    found += [
        Violation(invariant="orphans", at_s=began_s, what=command)
        for command in machine.processes_of(directory).values()
    ]
    left = sorted(machine.shared_memory() - before)
    return took_s, statuses, found + [Violation(invariant="shared_memory", at_s=began_s, what=n) for n in left]
