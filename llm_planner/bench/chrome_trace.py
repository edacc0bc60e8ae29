"""A run as a Chrome trace: opens in Perfetto, one lane per robot and one for the engine."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llm_planner.bench.timeline import Span, SpanKind
from llm_planner.simulation.records import RequestRecord, RunRecord

_ENGINE, _ROBOTS = 1, 2  # process ids in the trace
_MICRO = 1e6


def write_chrome_trace(run: RunRecord, path: Path) -> None:
    """Writes the run in the JSON array format of the Trace Event specification."""
    path.write_text(json.dumps({"traceEvents": list(_events(run)), "displayTimeUnit": "ms"}), encoding="utf-8")


def _events(run: RunRecord) -> Iterator[dict[str, Any]]:
    lanes = sorted({record.robot_id for record in run.requests})
    yield _name("process_name", _ENGINE, 0, "engine")
    yield _name("process_name", _ROBOTS, 0, "robots")
    for number, lane in enumerate(lanes):
        yield _name("thread_name", _ROBOTS, number, lane)
    for step in run.steps:
        details: dict[str, Any] = {"prompt tokens": step.num_prompt_tokens, "decodes": step.num_decodes}
        yield _slice("step", _ENGINE, 0, (step.start_s, step.start_s + step.duration_s), details)
    for record in run.requests:
        for span in spans_of(record):
            details = {"request": record.request_id, "task": record.task, "urgency": record.urgency}
            yield _slice(span.kind.value, _ROBOTS, lanes.index(span.lane), (span.start_s, span.end_s), details)


def spans_of(record: RequestRecord, lane: str = "") -> Iterator[Span]:
    """Yields what the robot of one request did: waiting and executing in turns."""
    idle_s, lane, is_urgent = record.arrival_s, lane or record.robot_id, record.urgency == "urgent"
    for segment in record.segments:
        if segment.started_s > idle_s:
            yield Span(lane=lane, kind=SpanKind.WAITING, start_s=idle_s, end_s=segment.started_s, is_urgent=is_urgent)
        yield Span(
            lane=lane, kind=SpanKind.EXECUTION, start_s=segment.started_s, end_s=segment.ended_s, is_urgent=is_urgent
        )
        idle_s = segment.ended_s


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _slice(
    name: str, process: int, thread: int, times_s: tuple[float, float], details: dict[str, Any]
) -> dict[str, Any]:
    start_s, end_s = times_s
    return {
        "ph": "X",
        "name": name,
        "pid": process,
        "tid": thread,
        "ts": _MICRO * start_s,
        "dur": _MICRO * (end_s - start_s),
        "args": details,
    }
