# SPDX-License-Identifier: Apache-2.0
"""The demo's goals, and what is written about them: held-out tasks, success by goal test, a timeline."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from llm_planner.core.errors import ErrorCode
from llm_planner.core.extras import has_extra
from llm_planner.core.request import PlanMetrics, Urgency
from llm_planner.demo.task import DemoTask, tasks_of
from llm_planner.demo.timeline import read_summary, spans_of_demo
from llm_planner.monitoring.chrome_trace import write_chrome_trace
from llm_planner.monitoring.timeline import draw_timeline
from llm_planner.robots.world import World, WorldObject


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoGoal:
    """One goal of the demo.

    Attributes:
        tag: Recognises its outcome.
        robot: Name of the robot node.
        at_s: Earliest start, from the start of the demo. A normal goal also waits for the one before it; an urgent one
            does not, and takes the place of what its robot does.
        time_budget_s: Until the first segment; None for none.
        threat: Something that comes at the robot while the planner cannot answer in time: the reflex shall act.
        expected: How it should end.
        has_body: Whether the robot is in physics, and its task arranged.
    """

    tag: str
    robot: str
    task: DemoTask
    urgency: Urgency = Urgency.NORMAL
    at_s: float = 0.0
    time_budget_s: float | None = None
    threat: WorldObject | None = None
    expected: ErrorCode = ErrorCode.NONE
    has_body: bool = False

    @property
    def world(self) -> World:
        """The world that it begins in, the threat aside."""
        return World(self.task.solid) if self.has_body else self.task.world


# Per robot: family, urgency, earliest start. The urgent goal of drone_2 meets a robot at work and supersedes its goal.
# The last goal of drone_3 has a budget that no planner can keep.
PROGRAMME: dict[str, tuple[tuple[str, Urgency, float], ...]] = {
    "drone_1": (
        ("look_for", Urgency.NORMAL, 0.0),
        ("sequence", Urgency.NORMAL, 0.0),
        ("check_or", Urgency.NORMAL, 0.0),
    ),
    "drone_2": (
        ("sequence", Urgency.NORMAL, 0.0),
        ("avoid_injury", Urgency.URGENT, 5.0),
        ("goto", Urgency.NORMAL, 0.0),
        ("cannot", Urgency.NORMAL, 0.0),
    ),
    "drone_3": (
        ("find_tool", Urgency.NORMAL, 0.0),
        ("evade_animal", Urgency.URGENT, 0.0),
        ("sequence", Urgency.NORMAL, 0.0),
        ("avoid_injury", Urgency.URGENT, 0.0),
    ),
    "arm_1": (("arm_put", Urgency.NORMAL, 0.0), ("arm_put", Urgency.NORMAL, 0.0)),
}
_BUDGETS_S = {"drone_2/1": 3.0, "drone_3/1": 3.0, "drone_3/3": 0.002}  # by goal; the last for the reflex
_FOR_THE_REFLEX = frozenset({"drone_3/3"})
_UNANSWERED = frozenset({ErrorCode.BUDGET_INFEASIBLE, ErrorCode.BUDGET_EXCEEDED, ErrorCode.CANCELLED})
"""How an emergency ends without an answer: refused, too late, or called off by a robot that acted first."""
_PERSON = WorldObject(
    name="person",
    kind="person",
    position_m=(3.0, 0.0, 0.9),
    size_m=(0.4, 0.5, 1.8),
    velocity_m_per_s=(-0.8, 0.0, 0.0),
    moves_for_s=2.75,
)
"""Walks up to a Tello that hovers at home, to 0.6 m before it: nearer than its reflex allows."""


def draw_goals(seed: int) -> dict[str, list[DemoGoal]]:
    """Returns the goals of every robot in order: wordings and combinations of names that are held out."""
    tasks, goals = tasks_of(seed), dict[str, list[DemoGoal]]()
    for robot, programme in PROGRAMME.items():
        goals[robot] = []
        for number, (family, urgency, at_s) in enumerate(programme):
            is_superseded = number + 1 < len(programme) and programme[number + 1][2] > 0
            tag = f"{robot}/{number}"
            is_for_reflex = tag in _FOR_THE_REFLEX
            goals[robot].append(
                DemoGoal(
                    tag=tag,
                    robot=robot,
                    task=tasks[tag],
                    urgency=urgency,
                    at_s=at_s,
                    time_budget_s=_BUDGETS_S.get(tag),
                    threat=_PERSON if is_for_reflex else None,
                    expected=_expected(family, is_superseded=is_superseded, is_for_reflex=is_for_reflex),
                )
            )
    return goals


def _expected(family: str, *, is_superseded: bool, is_for_reflex: bool) -> ErrorCode:
    if is_for_reflex:
        return ErrorCode.BUDGET_INFEASIBLE
    if family == "cannot":
        return ErrorCode.NOT_ACHIEVED
    return ErrorCode.SUPERSEDED if is_superseded else ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTimes:
    """One segment on the robot; times in seconds of one clock.

    Attributes:
        started_s: None if it was not carried out.
        finished_s: When the robot reported its end; None if it never did.
        is_interrupted: Whether it was begun but not carried out to its end.
    """

    text: str
    generation_time_s: float
    received_s: float
    started_s: float | None
    finished_s: float | None
    is_interrupted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflexTimes:
    """What the robot did without asking; times as in ``SegmentTimes``."""

    cause: str
    reason: str
    action: str
    started_s: float
    finished_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """How a goal ended.

    Attributes:
        is_success: The goal test's verdict on what the robot did; of a goal for the reflex, whether it kept away.
        reflexes: In order.
        reason: Why not; empty otherwise.
    """

    goal: DemoGoal
    error_code: ErrorCode
    error_msg: str
    plan: str
    metrics: PlanMetrics
    asked_s: float
    ended_s: float
    segments: tuple[SegmentTimes, ...]
    reflexes: tuple[ReflexTimes, ...] = ()
    is_success: bool
    reason: str

    @property
    def met_by(self) -> str | None:
        """What met the obstacle of an urgent goal: ``planner``, ``reflex`` or ``neither``; None for any other goal."""
        if self.goal.urgency is not Urgency.URGENT:
            return None
        if self.reflexes and not self.segments:
            return "reflex"
        return "planner" if self.segments else "neither"

    @property
    def is_as_expected(self) -> bool:
        """Whether it ended as it should.

        A goal for the reflex is refused (in whichever way was the fastest) and met; one whose place an emergency took
        is superseded; any other one succeeds.
        """
        if self.goal.threat is not None:
            return self.error_code in _UNANSWERED and self.met_by == "reflex" and self.is_success
        return self.error_code is self.goal.expected and (self.is_success or self.goal.expected is not ErrorCode.NONE)


def summary(
    outcomes: Sequence[DemoOutcome], *, policy: str, model: str, seed: int, network_latency_s: float
) -> dict[str, object]:
    """Returns ``summary.json``. ``share_served`` counts goals that got a first segment."""
    served = [outcome for outcome in outcomes if outcome.segments]
    return {
        "goals": [_goal_json(outcome) for outcome in outcomes],
        "policy": policy,
        "model": model,
        "share_served": len(served) / max(1, len(outcomes)),
        "seed": seed,
        "network_latency_s": network_latency_s,
    }


def _goal_json(outcome: DemoOutcome) -> dict[str, object]:
    goal, metrics = outcome.goal, outcome.metrics
    return {
        "robot": goal.robot,
        "family": goal.task.family,
        "instruction": goal.task.instruction,
        "urgency": goal.urgency.name,
        "time_budget_s": goal.time_budget_s,
        "met_by": outcome.met_by,
        "reflexes": [asdict(reflex) for reflex in outcome.reflexes],
        "plan": outcome.plan,
        "asked_s": outcome.asked_s,
        "ended_s": outcome.ended_s,
        "segments": [asdict(segment) for segment in outcome.segments],
        "response_time_s": metrics.response_time_s,
        "waiting_time_s": metrics.waiting_time_s,
        "execution_time_s": metrics.execution_time_s,
        "time_utility": metrics.time_utility,
        "measures": list(metrics.measures),
        "error_code": int(outcome.error_code),
        "error_msg": outcome.error_msg,
        "expected_error_code": int(goal.expected),
        "success": outcome.is_success,
        "reason": outcome.reason,
    }


def write_report(
    outcomes: Sequence[DemoOutcome],
    directory: Path,
    *,
    policy: str,
    model: str,
    seed: int,
    network_latency_s: float,
) -> None:
    """Writes ``summary.json``, ``timeline.json`` (a Chrome trace) and, with matplotlib, ``timeline.png``."""
    directory.mkdir(parents=True, exist_ok=True)
    document = summary(outcomes, policy=policy, model=model, seed=seed, network_latency_s=network_latency_s)
    path = directory / "summary.json"
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    read = read_summary(path)
    write_chrome_trace(spans_of_demo(read), directory / "timeline.json")
    if has_extra("matplotlib"):
        draw_timeline(spans_of_demo(read), directory / "timeline.png", read.title)
