# SPDX-License-Identifier: Apache-2.0
"""A look at a loop in the midst of its work, for people: every goal, its robot, and what it is about to lose."""

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from llm_planner.scheduling.generation import Generation, GenerationState
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.goal import Goal
from llm_planner.serving.meter import Totals

MAX_GOALS = 64
"""Most goals that a view shows: more than a screen holds, and few enough for one datagram."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopStatus:
    """How busy the loop is, for people and diagnostics."""

    model: str
    policy: str
    num_goals: int
    num_running: int
    num_ready: int
    num_suspended: int
    num_kv_blocks: int
    num_free_kv_blocks: int
    engine_drift: float | None = None  # measured over profiled time of decode steps of late; None without a profile
    engine_times: str = ""  # what time budgets count on: a profile and when it was measured, or the steps
    num_shed: int = 0  # goals that were refused with LOAD_SHED, since the loop began


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalView:
    """One unfinished goal. Times are seconds from the moment of the view, and estimates where they lie ahead.

    Attributes:
        state: ``waiting`` (holds no KV), ``running``, ``ready`` (suspended, due), ``suspended`` (its robot
            is busy) or ``planned`` (nothing more to generate).
        num_segments: Segments that went to the robot.
        num_executed: Of these, how many the robot has ended; if fewer, it carries out segment ``num_executed``.
        num_kv_blocks: Blocks on the accelerator, without the shared prefix.
        robot_busy_s: How long the robot is busy yet; negative: how long it has been waiting.
        utility: Of the next segment, if it came now (TimelyLLM, Eq. (1); TUF_1 behind the first); None if none comes.
        falls_in_s: When this utility begins to fall; negative if it does already; None if it never will.
        ends_in_s: When the goal ends with an error if nothing happens until then: its time budget, or its robot's
            silence; None for never.
    """

    request_id: str
    robot_id: str
    urgency: str
    state: str
    age_s: float
    num_segments: int
    num_executed: int
    num_output_tokens: int
    num_kv_blocks: int
    is_offloaded: bool
    robot_busy_s: float
    utility: float | None
    falls_in_s: float | None
    ends_in_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopView:
    """A loop at one moment.

    Attributes:
        at_s: The moment, on the clock of the loop.
        max_num_seqs: Slots.
        num_prefix_kv_blocks: Blocks of the shared prefixes; 0 where the engine keeps them as it likes.
        num_offloaded_kv_blocks: Blocks in host memory.
        goals: Running ones first, then those that lose utility first; ``MAX_GOALS`` at most.
    """

    at_s: float
    status: LoopStatus
    max_num_seqs: int
    num_prefix_kv_blocks: int
    num_offloaded_kv_blocks: int
    totals: Totals
    goals: tuple[GoalView, ...]


def count(model: str, scheduler: Scheduler, num_goals: int) -> LoopStatus:
    """Returns how busy a loop is."""
    return LoopStatus(
        model=model,
        policy=scheduler.policy.name,
        num_goals=num_goals,
        num_running=scheduler.num_running,
        num_ready=scheduler.num_ready,
        num_suspended=scheduler.num_suspended,
        num_kv_blocks=scheduler.ledger.num_kv_blocks,
        num_free_kv_blocks=scheduler.ledger.free_blocks,
        engine_drift=scheduler.times.engine.drift,
        engine_times=scheduler.times.engine.source,
        num_shed=scheduler.num_shed,
    )


def merged_status(statuses: Sequence[LoopStatus]) -> LoopStatus | None:
    """Returns how busy several loops are together: counts are sums, the drift is the largest; None without any."""
    if len(statuses) < 2:
        return next(iter(statuses), None)
    drifts = [status.engine_drift for status in statuses if status.engine_drift is not None]
    return LoopStatus(
        model=", ".join(dict.fromkeys(status.model for status in statuses)),
        policy=statuses[0].policy,
        num_goals=sum(status.num_goals for status in statuses),
        num_running=sum(status.num_running for status in statuses),
        num_ready=sum(status.num_ready for status in statuses),
        num_suspended=sum(status.num_suspended for status in statuses),
        num_kv_blocks=sum(status.num_kv_blocks for status in statuses),
        num_free_kv_blocks=sum(status.num_free_kv_blocks for status in statuses),
        engine_drift=max(drifts, default=None),
        engine_times=", ".join(dict.fromkeys(status.engine_times for status in statuses)),
        num_shed=sum(status.num_shed for status in statuses),
    )


def merged_view(views: Sequence[LoopView], totals: Totals) -> LoopView | None:
    """Returns what several loops look like together; None without any.

    Args:
        views: Of the loops that there are now.
        totals: Of all that there ever were.
    """
    status = merged_status([view.status for view in views])
    if status is None:
        return None
    goals = sorted((goal for view in views for goal in view.goals), key=lambda goal: goal.state != "running")
    return LoopView(
        at_s=min(view.at_s for view in views),
        status=status,
        max_num_seqs=sum(view.max_num_seqs for view in views),
        num_prefix_kv_blocks=sum(view.num_prefix_kv_blocks for view in views),
        num_offloaded_kv_blocks=sum(view.num_offloaded_kv_blocks for view in views),
        totals=totals,
        goals=tuple(goals[:MAX_GOALS]),
    )


def look(
    status: LoopStatus,
    scheduler: Scheduler,
    goals: Iterable[Goal],
    end_s: Callable[[Goal], float | None],
    totals: Totals,
    now_s: float,
) -> LoopView:
    """Returns what a loop looks like now.

    Args:
        status: Its counts.
        scheduler: Its scheduler.
        goals: Its unfinished goals.
        end_s: When a goal ends if nothing happens.
        totals: What it has done so far.
        now_s: The moment.
    """
    shown = heapq.nsmallest(MAX_GOALS, goals, key=_place)
    ledger = scheduler.ledger
    return LoopView(
        at_s=now_s,
        status=status,
        max_num_seqs=scheduler.config.max_num_seqs,
        num_prefix_kv_blocks=ledger.pinned_blocks,
        num_offloaded_kv_blocks=ledger.offloaded_blocks,
        totals=totals,
        goals=tuple(_goal_view(goal, scheduler, end_s(goal), now_s) for goal in shown),
    )


def _place(goal: Goal) -> tuple[bool, float, int]:
    generation = goal.generation
    return generation.state is not GenerationState.RUNNING, _falls_at_s(goal), generation.order


def _falls_at_s(goal: Goal) -> float:
    """Returns when the utility of the next segment begins to fall, by the last estimate; infinity for never."""
    generation, utility = goal.generation, goal.request.time_utility
    if goal.is_plan_complete or utility.alpha == 0:
        return math.inf
    return generation.robot_idle_at_s if goal.delivered else generation.arrival_s + utility.ert_s


def _goal_view(goal: Goal, scheduler: Scheduler, end_s: float | None, now_s: float) -> GoalView:
    generation, execution = goal.generation, goal.execution
    idle_at_s = execution.idle_at_s(now_s)
    falls_at_s = _falls_at_s(goal)
    return GoalView(
        request_id=goal.request.request_id,
        robot_id=goal.request.robot_id,
        urgency=goal.request.urgency.name.lower(),
        state="planned" if goal.is_plan_complete else _state(goal.generation, now_s),
        age_s=now_s - generation.arrival_s,
        num_segments=len(goal.delivered),
        num_executed=execution.num_ended,
        num_output_tokens=generation.num_output_tokens,
        num_kv_blocks=scheduler.ledger.private_blocks(generation.request_id),
        is_offloaded=generation.is_offloaded,
        robot_busy_s=idle_at_s - now_s,
        utility=None if goal.is_plan_complete else _utility(goal, now_s, idle_at_s),
        falls_in_s=None if math.isinf(falls_at_s) else falls_at_s - now_s,
        ends_in_s=None if end_s is None else end_s - now_s,
    )


def _utility(goal: Goal, now_s: float, idle_at_s: float) -> float:
    if not goal.delivered:
        return goal.request.time_utility(now_s - goal.generation.arrival_s)
    return goal.request.time_utility.suspended()(max(0.0, now_s - idle_at_s))


def _state(generation: Generation, now_s: float) -> str:
    match generation.state:
        case GenerationState.SUSPENDED:
            return "suspended" if generation.resume_at_s > now_s else "ready"
        case GenerationState.FINISHED:
            return "planned"
        case GenerationState.WAITING | GenerationState.RUNNING:
            return generation.state.name.lower()
