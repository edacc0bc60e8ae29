# SPDX-License-Identifier: Apache-2.0
"""The spans of a demo run, read from its ``summary.json``: the picture can be drawn again, or looked at closer."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from llm_planner.core.errors import ErrorCode, PlannerError, code_name
from llm_planner.monitoring.timeline import ENGINE_ROW, Span, SpanKind, merged


class _Segment(BaseModel):
    text: str
    generation_time_s: float
    received_s: float
    started_s: float | None
    finished_s: float | None
    is_interrupted: bool


class _Reflex(BaseModel):
    action: str
    started_s: float
    finished_s: float


class _Goal(BaseModel):
    robot: str
    instruction: str
    urgency: str
    asked_s: float
    ended_s: float
    error_code: int
    segments: list[_Segment]
    reflexes: list[_Reflex] = []


class DemoSummary(BaseModel):
    """What a timeline needs of ``summary.json``; the rest of it is ignored."""

    goals: list[_Goal]
    model: str
    policy: str
    network_latency_s: float = Field(ge=0)

    @property
    def title(self) -> str:
        """What stands above the picture."""
        return f"{self.model}, policy {self.policy}: generation (above) overlaps motion (below)"


def read_summary(path: Path) -> DemoSummary:
    """Returns what a demo wrote about itself.

    Raises:
        PlannerError: INVALID_FILE if the file is none, or was written by another version.
    """
    try:
        return DemoSummary.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PlannerError(ErrorCode.INVALID_FILE, f"{path} cannot be read: {error}") from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
        raise PlannerError(
            ErrorCode.INVALID_FILE, f"{path} is no demo's summary: {problems}; run `llm-planner demo` again"
        ) from error


def spans_of_demo(summary: DemoSummary) -> list[Span]:
    """Returns when each segment was generated and carried out, when a robot waited, and when anything was generated."""
    busy_until_s: dict[str, float] = {}
    spans: list[Span] = []
    for goal in sorted(summary.goals, key=lambda goal: goal.asked_s):
        idle_s = max(goal.asked_s, busy_until_s.get(goal.robot, 0.0))
        of_goal = list(_spans_of(goal, idle_s, summary.network_latency_s))
        spans += of_goal
        busy_until_s[goal.robot] = max((span.end_s for span in of_goal), default=idle_s)
    generation = (span for span in spans if span.kind is SpanKind.GENERATION)
    spans += [
        Span(row=ENGINE_ROW, kind=SpanKind.ENGINE, start_s=span.start_s, end_s=span.end_s)
        for span in merged(generation, 0.0)
    ]
    return spans


def _spans_of(goal: _Goal, idle_s: float, network_latency_s: float) -> Iterator[Span]:
    details = {"instruction": goal.instruction, "ended": code_name(goal.error_code)}

    def span(kind: SpanKind, start_s: float, end_s: float, label: str = "", *, is_interrupted: bool = False) -> Span:
        return Span(
            row=goal.robot,
            kind=kind,
            start_s=start_s,
            end_s=end_s,
            label=label,
            is_urgent=goal.urgency == "URGENT",
            is_interrupted=is_interrupted,
            details=details,
        )

    has_run, sent_s = False, goal.asked_s
    for segment in goal.segments:
        # The real delay varies around the configured one, but segments are generated one after the other.
        start_s = max(sent_s, segment.received_s - network_latency_s - segment.generation_time_s)
        sent_s = max(start_s, segment.received_s - network_latency_s)
        yield span(SpanKind.GENERATION, start_s, sent_s)
        if segment.started_s is None:
            continue
        has_run = True
        if segment.started_s > idle_s:
            yield span(SpanKind.WAITING, idle_s, segment.started_s)
        start_s = max(segment.started_s, idle_s)
        end_s = max(start_s, goal.ended_s if segment.finished_s is None else segment.finished_s)
        yield span(SpanKind.EXECUTION, start_s, end_s, segment.text, is_interrupted=segment.is_interrupted)
        idle_s = end_s
    acted_s = min((reflex.started_s for reflex in goal.reflexes), default=goal.ended_s)
    if not has_run and acted_s > idle_s:
        yield span(SpanKind.WAITING, idle_s, acted_s, is_interrupted=True)
    for reflex in goal.reflexes:
        yield span(SpanKind.REFLEX, reflex.started_s, max(reflex.started_s, reflex.finished_s), reflex.action)
