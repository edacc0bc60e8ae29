# SPDX-License-Identifier: Apache-2.0
"""When is it time to say that a time budget will not be kept, so that the robot's reflex has time to act?"""

import math

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.execution_time import ExecutionTime
from llm_planner.scheduling.budget import Setup, Task, execution_s


def lost_budget(
    left_s: float,
    budget_s: float,
    task: Task,
    time: ExecutionTime,
    *,
    chunk_tokens: int,
    reserve: float,
    can_be_closed: bool,
) -> PlannerError | None:
    """Returns why an admitted goal will miss its budget, or None while it may still keep it.

    At any time it is lost if not even its next token can come in time. Once no more than the reserve is left, it is
    lost too if what is expected of it cannot, by the engine's usual speed: from then on doubt is the reflex's business.

    Args:
        left_s: Of the budget.
        budget_s: All of it.
        task: What is still to be done.
        time: Expected, not cautious: no goal that would have kept its budget is to be given up.
        chunk_tokens: Most prompt tokens of one step.
        reserve: Share of the budget that is kept for the reflex, 0 to 1.
        can_be_closed: Whether part of what is expected is worth delivering: then the least that makes sense is enough.
    """
    setup = Setup(chunk_tokens=chunk_tokens)
    num_tokens = 1
    if left_s <= reserve * budget_s:
        wanted = task.lengths.lower if can_be_closed else math.ceil(task.lengths.expected)
        num_tokens = max(1, min(wanted, task.max_tokens))
    needed_s = execution_s(task, num_tokens, setup, time)
    if needed_s <= left_s:
        return None
    return PlannerError(
        ErrorCode.BUDGET_EXCEEDED,
        f"given up {max(0.0, left_s):.3g} s before the time budget of {budget_s:.3g} s is over: at least "
        f"{needed_s:.3g} s more are needed, even alone; let the reflex act",
    )
