# SPDX-License-Identifier: Apache-2.0
"""What the page of ``bench overload`` says beyond its document: groups of cells, means, where the aim is missed."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from llm_planner_lab.bench.overload.benchmark import DEFAULT, about, engine_of, shortfall, urgent_gap

Row = Mapping[str, Any]


def facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the template takes, for the parts that the document has."""
    factors = document.get("factors", {"rows": ()})["rows"]
    compared = document.get("comparison", {"rows": ()})["rows"]
    return {
        "setup": next(iter(document.values())),
        "default": DEFAULT,
        "scenes": [
            {"title": title, "rows": rows, "brings": _brings(rows)}
            for title, group in groupby(factors, key=_title)
            if (rows := list(group))
        ],
        "compared": [_compare(row) for row in compared],
    }


def _title(row: Row) -> str:
    return about(engine_of(row), row["load"])


def _brings(rows: Sequence[Row]) -> dict[str, float]:
    """Returns what one of the three changes on average over all settings of the other two, in points; < 0: it costs.

    Of the orders the default is compared with EDF.
    """
    return {
        "order": _mean(rows, "order", DEFAULT) - _mean(rows, "order", "edf_segment"),
        "limit": _mean(rows, "batch_limit", "on") - _mean(rows, "batch_limit", "off"),
        "shedding": _mean(rows, "sheds_load", True) - _mean(rows, "sheds_load", False),
    }


def _mean(rows: Sequence[Row], name: str, value: object) -> float:
    shares = [100 * row["all"]["share_of_max"] for row in rows if row[name] == value]
    return float(sum(shares) / len(shares))


def _compare(row: Row) -> dict[str, Any]:
    policies = row["policies"]
    others = (name for name in policies if name != DEFAULT)
    best = max(others, key=lambda name: policies[name]["all"]["share_of_max"])
    is_missed = shortfall(row) > 1.0 or urgent_gap(row) > 0.0
    return {"title": _title(row), "own": policies[DEFAULT], "best": best, "policies": policies, "is_missed": is_missed}
