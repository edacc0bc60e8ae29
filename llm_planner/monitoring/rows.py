# SPDX-License-Identifier: Apache-2.0
"""What every robot and its plan were doing, as spans of time: folded from a planner's goal events, as they come."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from llm_planner.core.text import MAX_NUMBER

WINDOW_S = 180.0
"""How long an ended span is remembered."""
SHORTEST_S = 0.02  # a robot that begins its next segment within this has not been waiting
MAX_LABEL = 200
MAX_SPANS = 20_000  # of hundreds of robots; beyond, a sender floods the view, and the oldest go
MAX_GOALS, MAX_SEGMENTS, MAX_REFLEXES = 10_000, 50_000, 1_000  # unfinished ones, likewise


class RowKind(Enum):
    """What a span of a row shows."""

    GENERATION = "generation"
    SUSPENSION = "suspension"  # the generation is suspended, or due and not yet back
    WAITING = "waiting"  # the robot waits for the planner
    EXECUTION = "execution"
    REFLEX = "reflex"


@dataclass(slots=True, kw_only=True)
class RowSpan:
    """One bar. Times are on the planner's clock.

    Attributes:
        end_s: None while it lasts.
        revision: Grows with every change of any span.
    """

    number: int
    robot_id: str
    kind: RowKind
    start_s: float
    end_s: float | None = None
    label: str = ""
    is_urgent: bool = False
    is_interrupted: bool = False
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """A segment whose duration is known: what was predicted, and what was measured."""

    robot_id: str
    text: str
    expected_s: float
    expected_p90_s: float
    measured_s: float


@dataclass(frozen=True, slots=True)
class _Sent:
    """A segment that left the planner."""

    text: str
    expected_s: float
    expected_p90_s: float


@dataclass(slots=True)
class _Goal:
    robot_id: str
    is_urgent: bool
    generated_until_s: float
    segments: dict[int, _Sent] = field(default_factory=dict)
    suspension: RowSpan | None = None
    waiting: RowSpan | None = None
    execution: RowSpan | None = None


class RobotRows:
    """Spans by robot. Feed it the lines of ``serving.event_log`` in the order in which they came.

    Args:
        max_spans: How many are kept, the last ones; None for all.
    """

    def __init__(self, max_spans: int | None = MAX_SPANS) -> None:
        self._max_spans = max_spans
        self._spans: dict[int, RowSpan] = {}
        self._goals: dict[str, _Goal] = {}
        self._reflexes: dict[str, RowSpan] = {}
        self._num_segments = 0  # of these goals
        self._alive_s = -math.inf  # when the planner was last known to be at work
        self._number = 0
        self.revision = 0

    @property
    def spans(self) -> tuple[RowSpan, ...]:
        """All spans that are remembered, in the order in which they began to be known."""
        return tuple(self._spans.values())

    def changed(self, since: int) -> Iterator[RowSpan]:
        """Yields the spans that have changed since a revision."""
        return (span for span in self._spans.values() if span.revision > since)

    def take(self, line: Mapping[str, Any]) -> Measured | None:
        """Notes an event; returns what it says of a duration that was predicted.

        Raises:
            KeyError, TypeError or ValueError: If the line is not as ``serving.event_log`` writes it.
        """
        request_id, event, time_s = str(line["request_id"])[:MAX_LABEL], line["event"], number(line["time_s"])
        self._alive_s = max(self._alive_s, time_s)
        if event == "accepted" and request_id not in self._goals:
            robot_id = str(line["robot_id"])[:MAX_LABEL]
            self._goals[request_id] = begun = _Goal(robot_id, line["urgency"] == "urgent", time_s)
            begun.waiting = self._open(begun, RowKind.WAITING, time_s)
            self._forget_goals()
        goal = self._goals.get(request_id)
        if goal is None or event == "accepted":
            return None  # a goal that began before there was a listener
        if event == "segment":
            self._generated(goal, line, time_s)
        elif event == "report":
            return self._reported(goal, line, time_s)
        elif event == "finished":
            self._finished(self._pop(request_id), time_s, is_error=bool(line["error_code"]))
        return None

    def _pop(self, request_id: str) -> _Goal:
        goal = self._goals.pop(request_id)
        self._num_segments -= len(goal.segments)
        return goal

    def _forget_goals(self) -> None:
        """Drops the oldest goals while there are more than can be; what is shown of them ends."""
        while len(self._goals) > MAX_GOALS or (self._num_segments > MAX_SEGMENTS and self._goals):
            self._break_off(self._pop(next(iter(self._goals))))

    def _break_off(self, goal: _Goal) -> None:
        for span in (goal.suspension, goal.waiting, goal.execution):
            if span is not None:
                span.is_interrupted = True
                self._close(span, self._alive_s)

    def robot_of(self, request_id: str) -> str:
        """Returns the robot of an unfinished goal; empty if it is unknown."""
        goal = self._goals.get(request_id[:MAX_LABEL])
        return "" if goal is None else goal.robot_id

    def working(self, request_id: str, time_s: float) -> None:
        """Notes that the planner of a goal was at work at a time; one that was started again does not know the goal."""
        if request_id in self._goals:
            self._alive_s = max(self._alive_s, time_s)

    def interrupt(self) -> None:
        """Ends all goals, because their planner has gone: what is open ends where it was last known to be at work."""
        for goal in self._goals.values():
            self._break_off(goal)
        self._goals.clear()
        self._num_segments = 0

    def complete(self, request_id: str) -> None:
        """Notes that nothing more is generated for a goal: what looked like a suspension is none."""
        goal = self._goals.get(request_id)
        if goal is not None and goal.suspension is not None:
            self._close(goal.suspension, goal.suspension.start_s)
            goal.suspension = None

    def reflex(self, robot_id: str, time_s: float, label: str, *, is_over: bool) -> None:
        """Notes the beginning or the end of a reflex."""
        robot_id = robot_id[:MAX_LABEL]
        if (running := self._reflexes.pop(robot_id, None)) is not None:
            self._close(running, time_s)
        if not is_over:
            self._reflexes[robot_id] = self._add(robot_id, RowKind.REFLEX, time_s, label=label[:MAX_LABEL])
        if len(self._reflexes) > MAX_REFLEXES:
            self.lost(next(iter(self._reflexes)), time_s)

    def lost(self, robot_id: str, time_s: float) -> None:
        """Ends what only a robot itself could end, because it has gone."""
        if (running := self._reflexes.pop(robot_id[:MAX_LABEL], None)) is not None:
            running.is_interrupted = True
            self._close(running, time_s)

    def put_reflexes_later(self, by_s: float) -> None:
        """Moves all reflexes: the clock on which rows are kept was not known until now."""
        for span in self._spans.values():
            if span.kind is RowKind.REFLEX:
                self.revision += 1
                span.start_s, span.revision = span.start_s + by_s, self.revision
                span.end_s = None if span.end_s is None else span.end_s + by_s

    def forget(self, before_s: float) -> None:
        """Drops the spans that ended before a time."""
        old = [n for n, span in self._spans.items() if span.end_s is not None and span.end_s < before_s]
        for number in old:
            del self._spans[number]

    def _generated(self, goal: _Goal, line: Mapping[str, Any], time_s: float) -> None:
        """A segment was written: from its start or resumption until now; before that, the generation was suspended."""
        start_s = max(goal.generated_until_s, time_s - number(line.get("generation_s", 0.0)))
        expected_s = number(line["expected_s"])
        p90_s = number(line.get("expected_p90_s", expected_s))
        index, sent = integer(line["index"]), _Sent(str(line["text"])[:MAX_LABEL], expected_s, p90_s)
        if goal.suspension is not None:
            self._close(goal.suspension, start_s)
        done = self._add(goal.robot_id, RowKind.GENERATION, start_s, label=sent.text, is_urgent=goal.is_urgent)
        self._close(done, time_s)
        goal.generated_until_s = time_s
        self._num_segments += index not in goal.segments
        goal.segments[index] = sent
        goal.suspension = self._open(goal, RowKind.SUSPENSION, time_s)
        self._forget_goals()

    def _reported(self, goal: _Goal, line: Mapping[str, Any], time_s: float) -> Measured | None:
        segment = goal.segments.get(integer(line["index"]))
        measured_s = number(line["duration_s"])
        if line["status"] == "started":
            self._end_waiting(goal, time_s)
            if goal.execution is not None:  # a report was lost
                self._close(goal.execution, time_s)
            goal.execution = self._open(goal, RowKind.EXECUTION, time_s)
            goal.execution.label = "" if segment is None else segment.text
            return None
        if goal.execution is not None:
            goal.execution.is_interrupted = line["status"] == "failed"
            self._close(goal.execution, time_s)
            goal.execution = None
        goal.waiting = goal.waiting or self._open(goal, RowKind.WAITING, time_s)
        if line["status"] in ("failed", "skipped") or segment is None or measured_s <= 0.0:
            return None
        return Measured(goal.robot_id, segment.text, segment.expected_s, segment.expected_p90_s, measured_s)

    def _end_waiting(self, goal: _Goal, time_s: float) -> None:
        if goal.waiting is not None:
            is_short = time_s - goal.waiting.start_s < SHORTEST_S
            self._close(goal.waiting, goal.waiting.start_s if is_short else time_s)
            goal.waiting = None

    def _finished(self, goal: _Goal, time_s: float, *, is_error: bool) -> None:
        """Ends what was going on. After the last segment of a plan that went well, there was no wait."""
        for span in (goal.suspension, goal.waiting, goal.execution):
            if span is None:
                continue
            span.is_interrupted = is_error
            is_nothing = not is_error and span is not goal.execution
            self._close(span, span.start_s if is_nothing else time_s)

    def _open(self, goal: _Goal, kind: RowKind, time_s: float) -> RowSpan:
        return self._add(goal.robot_id, kind, time_s, is_urgent=goal.is_urgent)

    def _add(
        self, robot_id: str, kind: RowKind, start_s: float, *, label: str = "", is_urgent: bool = False
    ) -> RowSpan:
        self._number += 1
        self.revision += 1
        span = RowSpan(
            number=self._number,
            robot_id=robot_id,
            kind=kind,
            start_s=start_s,
            label=label,
            is_urgent=is_urgent,
            revision=self.revision,
        )
        self._spans[span.number] = span
        if self._max_spans is not None and len(self._spans) > self._max_spans:
            del self._spans[next(iter(self._spans))]
        return span

    def _close(self, span: RowSpan, end_s: float) -> None:
        self.revision += 1
        span.end_s, span.revision = max(span.start_s, end_s), self.revision


def number(value: object) -> float:
    """Returns a value of a line as a number.

    Raises:
        ValueError: If it is none, not finite or too great.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_NUMBER:
        raise ValueError("not a number")
    return float(value)


def integer(value: object) -> int:
    """Returns a value of a line as an integer.

    Raises:
        TypeError: If it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("not an integer")
    return value
