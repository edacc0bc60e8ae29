# SPDX-License-Identifier: Apache-2.0
"""Opens goals: a prepared request becomes a generation with limits, a robot to follow, and what happened before."""

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import BackendInfo
from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.scheduling.execution_tracker import ExecutionTracker
from llm_planner.scheduling.generation import Generation
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.goal import Goal, History
from llm_planner.serving.preparation import Prepared
from llm_planner.serving.replans import most_tokens


def pin_prefix(prepared: Prepared, scheduler: Scheduler) -> None:
    """Counts the shared prefix of a request as held, once for all that share it."""
    sequence = prepared.sequence
    if sequence.prefix_id is not None:
        scheduler.ledger.pin_prefix(sequence.prefix_id, sequence.num_cached_tokens)


def open_goal(
    request: PlanRequest,
    prepared: Prepared,
    history: History,
    scheduler: Scheduler,
    info: BackendInfo,
    *,
    expects_reports: bool,
) -> Goal:
    """Returns the goal of a request, brought up to what happened before.

    Args:
        request: What was asked.
        prepared: The same, ready.
        history: Of the goal in another process, or its arrival.
        scheduler: Holds the KV ledger.
        info: Of the backend.
        expects_reports: Whether the robot reports its segments.

    Raises:
        PlannerError: PROMPT_TOO_LONG if there is no room for a plan behind the prompt.
    """
    sequence = prepared.sequence
    pin_prefix(prepared, scheduler)
    room_tokens = most_tokens(sequence, scheduler, info) - len(sequence.prompt_token_ids)
    if room_tokens < 1:
        raise PlannerError(
            ErrorCode.PROMPT_TOO_LONG,
            f"the prompt has {len(sequence.prompt_token_ids)} tokens and leaves no room for a plan; shorten the "
            "scene or give the engine more KV blocks",
        )
    execution = ExecutionTracker(history.arrival_s, scheduler.config.network_latency_s, expects_reports=expects_reports)
    generation = Generation(
        request=request,
        sequence=sequence,
        arrival_s=history.arrival_s,
        execution=execution,
        max_output_tokens=min(room_tokens, request.max_tokens - prepared.num_delivered_tokens),
    )
    goal = Goal(
        request=request,
        session=prepared.session,
        generation=generation,
        execution=execution,
        awaited_length=prepared.length,
        pace=scheduler.robots,
        begin_replan=prepared.begin_replan,
        stop_skill=prepared.stop_skill,
        failures=list(request.failures[: sum(segment.is_replan for segment in request.delivered)]),
    )
    goal.replay(history)
    goal.is_plan_complete |= prepared.session.is_complete
    return goal


def refusal(request: PlanRequest, error: PlannerError) -> PlanResult:
    """Returns the result of a request that could not be opened."""
    return PlanResult(
        request_id=request.request_id,
        error_code=error.code,
        error_msg=error.message,
        segments=request.delivered,
    )
