# SPDX-License-Identifier: Apache-2.0
"""Writes what campaigns found: one JSON file with a part for each way to run, and the page that is made from it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_planner_lab.bench.chaos.checks import INVARIANTS
from llm_planner_lab.bench.chaos.schedule import MEANINGS
from llm_planner_lab.bench.document import write_document

Document = dict[str, Any]
TITLES = {
    "campaign": "A campaign of faults",
    "bodies": "A campaign with bodies",
    "soak": "Memory",
    "starts": "Starts and stops",
}
_HEAD = """# Faults: what a fleet does under attack

Written by `llm-planner chaos`. Planner, engine, robots, dashboard and recorder are real processes over DDS; robots are
kinematic unless a section says otherwise. What each fault does to a fleet is in [safety.md](../safety.md); the seed
decides which fault comes when and what robots are told, not where in its work a process is hit.

Two journals are compared, call by call: what the safety gate admitted, written in the engine process before the segment
leaves it, and what each robot's driver was told, written before the driver has it. Both survive SIGKILL. Messages are
dropped, delayed, duplicated and reordered by a hook between rclpy and the callbacks of planner and robots
(subscriptions, feedback, results, answers), not by the network; a partition is a network namespace whose loopback goes
down; the clock is stepped by a library between the processes and libc, because a time namespace has no offset for the
system time. A robot is late with its silence rule only by time in which it had a processor.
"""


def write_chaos(document: Document, out: Path | None, page: Path | None) -> list[Path]:
    """Returns what was written, of what was asked for; other parts of a file that exists stay.

    Args:
        document: Of one run.
        out: JSON file.
        page: Made from all parts of that file.
    """
    parts = json.loads(out.read_text(encoding="utf-8")) if out is not None and out.exists() else {}
    name = f"{part_of(document)}, seed {document['setup']['seed']}"
    return write_document({**parts, name: document}, out, page, write_page)


def part_of(document: Document) -> str:
    """Returns which way of running a document is of."""
    setup = document["setup"]
    if "starts" in setup:
        return "starts"
    if setup["is_soak"]:
        return "soak"
    return "bodies" if setup["sim"] == "mujoco" else "campaign"


def write_page(parts: Mapping[str, Document], page: Path) -> None:
    """Writes the page."""
    sections = {"campaign": _campaign, "bodies": _campaign, "soak": _soak, "starts": _starts}
    kinds = [(name, name.partition(",")[0]) for name in parts]
    texts = [f"## {TITLES[kind]}\n\n{sections[kind](parts[name])}" for name, kind in kinds]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join([_HEAD, *texts]), encoding="utf-8")


def _campaign(document: Document) -> str:
    setup, goals, faults = document["setup"], document["goals"], document["faults"]
    ended = goals["ended"] + sum(goals["burst_codes"].values())
    kinds = "\n".join(f"| {MEANINGS[kind]} | {faults[kind.value]} |" for kind in MEANINGS if faults.get(kind.value))
    broken = "\n".join(
        f"| `{name}` | {INVARIANTS[name]} | {count} |"
        for name, count in document["invariants"].items()
        if name != "memory_growth"
    )
    fleet = f"{setup['drones']} drones and {setup['arms']} arms, {setup['time_scale']:g} times as fast as real time"
    num_burst = sum(goals["burst_codes"].values())
    return f"""{_setup(setup)}
{fleet}, backend `{setup["backend"]}`; a fault every {setup["every_s"]:g} s for {setup["seconds"] / 60:.0f} min.

`{document["reproduce"]}`

**{ended} goals ended** ({goals["ended"]} of robots, {num_burst} of bursts), with {goals["emergencies"]} emergencies and
{goals["cancels"]} cancels at any moment; {goals["segments"]} segments and {goals["calls"]} calls of drivers were
compared, {goals["malformed_messages"]} malformed messages were sent. How goals of robots ended:
{_counts(goals["codes"])}.

| must hold | says that | broken |
|---|---|---|
{broken}

| fault | injected |
|---|---|
{kinds}

{_figures(document)}{_examples(document)}"""


def _soak(document: Document) -> str:
    rows = "\n".join(
        f"| {name} | {g['mean_mb']:.1f} | {g['mb_per_h']:+.2f} ± {g['interval_mb_per_h']:.2f} "
        f"| {100 * g['mb_per_h'] / g['mean_mb']:+.2f} ± {100 * g['interval_mb_per_h'] / g['mean_mb']:.2f} |"
        for name, g in document["memory"].items()
    )
    minutes, goals = document["setup"]["seconds"] / 60, document["goals"]
    num_growing = document["invariants"]["memory_growth"]
    return f"""{_setup(document["setup"])}
No faults, {minutes:.0f} min, {goals["ended"]} goals with emergencies and cancels.

`{document["reproduce"]}`

Resident memory every 2 s; least squares over the last three quarters, with the 95 % interval of 20 batches. More than
1 % per hour beyond the interval breaks `memory_growth`: {num_growing} processes do.

| process | MB | MB per hour | % per hour |
|---|---|---|---|
{rows}
{_examples(document)}"""


def _starts(document: Document) -> str:
    setup, figures, broken = document["setup"], document["figures"], document["invariants"]
    return f"""{_setup(setup)}
A fleet of {setup["drones"]} drones and {setup["arms"]} arms, started and stopped {setup["starts"]} times, at a random
moment: while Python loads, while the model loads, at work. The first planner was ready after {figures["ready_s"]:g} s,
{figures["stopped_when_ready"]} fleets were stopped with a planner that was ready.

`{document["reproduce"]}`

{broken["hangs_at_stop"]} hangs, {broken["orphans"]} orphans, {broken["shared_memory"]} leftovers in shared memory. The
longest stop took {figures["longest_stop_s"]:g} s. Exit statuses of processes: {_counts(figures["exit_statuses"])}
(-15: ended by SIGTERM before Python could handle it).
{_examples(document)}"""


def _setup(setup: Mapping[str, Any]) -> str:
    load = f", load average {setup['load']:g} at the end" if "load" in setup else ""
    processors = f"{setup['processors']} processors{load}" if "processors" in setup else ""
    machine = f" {processors}." if processors else ""
    return f"Commit `{setup['commit']}` (`+`: with changes), seed {setup['seed']}.{machine}"


def _figures(document: Document) -> str:
    rows = "\n".join(
        f"| {name.removesuffix('_s').replace('_', ' ')} | {value['n']} | {value['median']:g} | {value['most']:g} |"
        for name, value in document["figures"].items()
        if isinstance(value, dict)
    )
    return f"| seconds | n | median | most |\n|---|---|---|---|\n{rows}\n"


def _examples(document: Document) -> str:
    lines = [f"- `{e['invariant']}`, fault {e['fault']}: {e['what']}" for e in document["examples"]]
    return "\n".join(["\nWhat was broken:\n", *lines, ""]) if lines else ""


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())
