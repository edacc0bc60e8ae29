# SPDX-License-Identifier: Apache-2.0
"""The report of campaigns: one JSON file with a part for each way to run and each seed."""

import json
from pathlib import Path
from typing import Any

Document = dict[str, Any]


def with_other_parts(document: Document, earlier: Path | None) -> Document:
    """Returns the document of a run as a part, with the other parts of an earlier file.

    Args:
        document: Of one run.
        earlier: JSON file of parts, if there is one.
    """
    parts = json.loads(earlier.read_text(encoding="utf-8")) if earlier is not None and earlier.exists() else {}
    return {**parts, f"{part_of(document)}, seed {document['setup']['seed']}": document}


def is_earlier(document: Document) -> bool:
    """Returns whether a campaign was recorded before its checks counted the kills of the engine that they judge."""
    return "faults" in document and "engine_kills_judged" not in document["figures"]


def judged(document: Document) -> dict[str, int]:
    """Returns how many cases of each invariant a campaign has judged, without those where there were none, or unknown.

    Args:
        document: Of a campaign.
    """
    setup, goals, figures = document["setup"], document["goals"], document["figures"]
    is_scripted = setup["backend"] == "fake"
    undisturbed = figures.get("engine_killed_beyond_load_undisturbed_s") or {"n": 0}
    observed = figures.get("silence_rule_late_s") or {"n": 0}
    counts = {
        "goals_lost": goals["accepted"] + goals["burst"],
        "segments_twice": goals["segments"],
        "foreign_calls": goals["calls"] if is_scripted or not is_earlier(document) else 0,
        "calls_not_admitted": goals["calls"],
        "ended_without_code": goals["ended"],
        "false_success": goals["codes"].get("NONE", 0) if is_scripted else 0,
        "robots_unsafe": observed["n"] + document["invariants"]["robots_unsafe"],
        "engine_late": figures.get("engine_kills_judged", undisturbed["n"]),
        "processes_ended": setup["drones"] + setup["arms"] + 3 + (setup["sim"] == "mujoco"),  # planner and observers
        "hangs_at_stop": 1,
        "orphans": 1,
        "shared_memory": 1,
    }
    return {name: count for name, count in counts.items() if count}


def part_of(document: Document) -> str:
    """Returns which way of running a document is of."""
    setup = document["setup"]
    if "starts" in setup:
        return "starts"
    if setup["is_soak"]:
        return "soak"
    return "bodies" if setup["sim"] == "mujoco" else "campaign"
