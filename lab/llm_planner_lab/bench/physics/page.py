# SPDX-License-Identifier: Apache-2.0
"""The page docs/benchmarks/physics.md from the document of ``bench.physics``."""

from pathlib import Path
from typing import Any

_HEAD = """# Robots with bodies: success and speed

Written by `llm-planner bench physics`, commit `{commit}` (`+`: with changes). Simulated: MuJoCo, in virtual time
([physics.md](../physics.md)).

## Speed

{drones} drones and {arms} arms, all at work, with their drivers and executors in one process and one thread:
**{cpu_factor:g} seconds of their world per second of processor time** ({wall_factor:g} per second on the clock while
this was measured).

## Task success by family

{tasks} held-out tasks per family, objects with room ([`lab/llm_planner_lab/tasks/arranged.py`](../../lab/llm_planner_lab/tasks/arranged.py)); the
reference plan of each is carried out by kinematic robots and by robots with bodies, and judged by the same goal test.
So what is missing in the last column is what bodies cost: things hidden behind others, collisions, what is out of reach
from above, drift.

| family | kinematic | with bodies |
|---|---|---|
{rows}
| **all** | **{kinematic} of {total}** | **{physical} of {total}** |

## Why bodies failed

{reasons}
"""


def write_page(document: dict[str, Any], page: Path) -> None:
    """Writes the page."""
    rows, speed = document["families"], document["speed"]
    failed = [(row["family"], item) for row in rows for item in row["failed"]]
    text = _HEAD.format(
        commit=document["setup"]["commit"],
        tasks=document["setup"]["tasks_per_family"],
        rows="\n".join(map(_row, rows)),
        kinematic=sum(row["kinematic"] for row in rows),
        physical=sum(row["physical"] for row in rows),
        total=sum(row["tasks"] for row in rows),
        reasons="\n".join(f"- {family}: `{item['plan']}` {item['reason']}" for family, item in failed) or "None did.",
        **speed,
    )
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")


def _row(row: dict[str, Any]) -> str:
    return f"| {row['family']} | {row['kinematic']} of {row['tasks']} | {row['physical']} of {row['tasks']} |"
