# SPDX-License-Identifier: Apache-2.0
"""A run as a Chrome trace: opens in Perfetto, a row for the engine, one per robot, one for each robot's plans."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from llm_planner.monitoring.timeline import ENGINE_ROW, Span, SpanKind

_ENGINE, _ROBOTS, _PLANS = 1, 2, 3  # process ids in the trace
_PROCESSES = {_ENGINE: "engine", _ROBOTS: "robots", _PLANS: "generation of plans"}
_MICRO = 1e6


def write_chrome_trace(spans: Iterable[Span], path: Path) -> None:
    """Writes spans in the JSON object format of the Trace Event specification.

    Generation and execution of one robot overlap, which slices of one track may not: they get a track each.
    """
    document = {"traceEvents": list(_events(list(spans))), "displayTimeUnit": "ms"}
    path.write_text(json.dumps(document), encoding="utf-8")


def _events(spans: list[Span]) -> Iterator[dict[str, Any]]:
    rows = [ENGINE_ROW, *sorted({span.row for span in spans} - {ENGINE_ROW})]
    tracks = sorted({(_process(span), rows.index(span.row)) for span in spans})
    for process in sorted({process for process, _ in tracks}):
        yield _name("process_name", process, 0, _PROCESSES[process])
    for process, thread in tracks:
        yield _name("thread_name", process, thread, rows[thread])
    for span in spans:
        yield _slice(span, _process(span), rows.index(span.row))


def _process(span: Span) -> int:
    return {SpanKind.ENGINE: _ENGINE, SpanKind.GENERATION: _PLANS}.get(span.kind, _ROBOTS)


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _slice(span: Span, process: int, thread: int) -> dict[str, Any]:
    interrupted: dict[str, object] = {"interrupted": True} if span.is_interrupted else {}
    return {
        "ph": "X",
        "name": span.label or span.kind.value,
        "cat": span.kind.name.lower() + (",interrupted" if span.is_interrupted else ""),
        "pid": process,
        "tid": thread,
        "ts": _MICRO * span.start_s,
        "dur": _MICRO * (span.end_s - span.start_s),
        "args": {**span.details, **interrupted},
    }
