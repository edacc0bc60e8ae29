# SPDX-License-Identifier: Apache-2.0
"""What a recording amounts to: which robots were there, how goals ended, what every robot spent its time on."""

from collections import Counter
from dataclasses import dataclass, field

from llm_planner.monitoring.fleet import FleetState
from llm_planner.monitoring.playback import Recording, retell
from llm_planner.monitoring.rows import RowKind, RowSpan


@dataclass(slots=True, kw_only=True)
class RobotTimes:
    """Seconds that a robot spent, and how many segments it began."""

    robot_id: str
    num_segments: int = 0
    execution_s: float = 0.0
    waiting_s: float = 0.0
    suspension_s: float = 0.0
    generation_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class Summary:
    """A whole recording.

    Attributes:
        duration_s: From its first message to its last.
        is_cut: Whether it ends in mid-record.
        counts: Messages by topic.
        ended: How goals ended, by the name of the error code.
        num_restarts: How often the planner was started again.
        robots: By name.
        median_error: Of measured over predicted durations of segments, as a share; None without any.
        spans: What a timeline draws, in seconds since the first thing that is known, which may be of the time before.
    """

    planner: str = ""
    duration_s: float = 0.0
    is_cut: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    robots: dict[str, RobotTimes] = field(default_factory=dict)
    median_error: float | None = None
    num_restarts: int = 0
    num_lost: int = 0
    num_broken: int = 0
    spans: tuple[RowSpan, ...] = ()


def summarize(recording: Recording) -> Summary:
    """Returns what happened in a recording.

    Raises:
        PlannerError: INVALID_FILE if it is none.
    """
    state, first_s, last_s = FleetState(keeps_all=True), None, 0.0
    for message in recording.messages():
        first_s = message.at_s if first_s is None else first_s
        last_s = message.at_s
        retell(message, state, message.at_s)
    spans = tuple(state.rows.spans)
    end_s = state.planner_now_s(last_s)
    origin_s = min((state.planner_now_s(first_s or 0.0), *(span.start_s for span in spans)))
    for span in spans:
        span.start_s -= origin_s
        span.end_s = (end_s if span.end_s is None else span.end_s) - origin_s
    errors = sorted(abs(m.measured_s / m.expected_s - 1.0) for m in state.measured if m.expected_s > 0)
    return Summary(
        planner="" if state.planner is None else state.planner.planner,
        duration_s=last_s - (first_s or 0.0),
        is_cut=recording.is_cut,
        counts=recording.counts,
        ended=state.ended,
        robots=_times(spans),
        median_error=errors[len(errors) // 2] if errors else None,
        num_restarts=state.num_restarts,
        num_lost=state.num_lost,
        num_broken=state.num_broken,
        spans=spans,
    )


def _times(spans: tuple[RowSpan, ...]) -> dict[str, RobotTimes]:
    robots: dict[str, RobotTimes] = {}
    for span in spans:
        robot = robots.setdefault(span.robot_id, RobotTimes(robot_id=span.robot_id))
        length_s = (span.end_s or span.start_s) - span.start_s
        match span.kind:
            case RowKind.EXECUTION:
                robot.execution_s += length_s
                robot.num_segments += 1
            case RowKind.WAITING:
                robot.waiting_s += length_s
            case RowKind.SUSPENSION:
                robot.suspension_s += length_s
            case RowKind.GENERATION:
                robot.generation_s += length_s
            case RowKind.REFLEX:  # is drawn only
                pass
    return robots
