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


def part_of(document: Document) -> str:
    """Returns which way of running a document is of."""
    setup = document["setup"]
    if "starts" in setup:
        return "starts"
    if setup["is_soak"]:
        return "soak"
    return "bodies" if setup["sim"] == "mujoco" else "campaign"
