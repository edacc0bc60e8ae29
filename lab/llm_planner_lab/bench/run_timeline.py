# SPDX-License-Identifier: Apache-2.0
"""The spans of a recorded run (``simulation.records``): engine steps, generation, execution, waiting."""

from collections.abc import Iterator

from llm_planner.core.errors import ErrorCode
from llm_planner.monitoring.timeline import ENGINE_ROW, Span, SpanKind
from llm_planner_lab.simulation.records import RequestRecord, RunRecord, SegmentTimes


def spans_of_run(run: RunRecord) -> Iterator[Span]:
    """Yields the engine's steps, if they were kept, and what every robot did."""
    for step in run.steps:
        details = {"prompt tokens": step.num_prompt_tokens, "decodes": step.num_decodes}
        yield Span(
            row=ENGINE_ROW,
            kind=SpanKind.ENGINE,
            start_s=step.start_s,
            end_s=step.start_s + step.duration_s,
            details=details,
        )
    for record in run.requests:
        yield from spans_of(record)


def spans_of(record: RequestRecord, row: str = "") -> Iterator[Span]:
    """Yields what was done for one request: segments generated and carried out, and the robot's waiting in between.

    A segment that its robot still carried out when the request ended with an error was interrupted.

    Args:
        record: The request.
        row: Name of the row, if not that of the robot.
    """
    idle_s, row, is_urgent = record.arrival_s, row or record.robot_id, record.urgency == "urgent"
    details = {"request": record.request_id, "task": record.task, "urgency": record.urgency}

    def span(kind: SpanKind, start_s: float, end_s: float, *, is_interrupted: bool = False) -> Span:
        return Span(
            row=row,
            kind=kind,
            start_s=start_s,
            end_s=end_s,
            is_urgent=is_urgent,
            is_interrupted=is_interrupted,
            details=details,
        )

    for segment in record.segments:
        if segment.generation_time_s > 0:
            yield span(SpanKind.GENERATION, segment.delivered_s - segment.generation_time_s, segment.delivered_s)
        end_s = _end_s(record, segment)
        if segment.started_s >= end_s:
            continue  # the request had ended before its turn came
        if segment.started_s > idle_s:
            yield span(SpanKind.WAITING, idle_s, segment.started_s)
        yield span(SpanKind.EXECUTION, segment.started_s, end_s, is_interrupted=end_s < segment.ended_s)
        idle_s = end_s
    if not record.segments and record.finished_s is not None and record.finished_s > idle_s:
        yield span(SpanKind.WAITING, idle_s, record.finished_s, is_interrupted=True)


def _end_s(record: RequestRecord, segment: SegmentTimes) -> float:
    if record.error_code is ErrorCode.NONE or record.finished_s is None:
        return segment.ended_s
    return min(segment.ended_s, record.finished_s)
