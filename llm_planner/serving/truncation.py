# SPDX-License-Identifier: Apache-2.0
"""A plan that is closed to keep its time budget is led to its end by its language: what a robot gets is a whole plan.

The model is not asked. What it wrote behind the last whole statement is void (no number is ever shortened, no loop is
cut), and the blocks of conditions that are open there end there. This takes no step, whatever the backend.

Deviation: no mask steers the model before. A cap that is known early could forbid what does not fit any more, and the
model would write something else, which is another plan. Only a beginning of its own plan does what was meant, and with
that rule a mask can deliver no more than this does; it could save the steps of a statement that does not get whole
(docs/benchmarks/timebill.md counts them).
"""

from llm_planner.core.request import BudgetScope
from llm_planner.planning.session import Progress
from llm_planner.scheduling.budget import Measure
from llm_planner.serving.goal import Goal


def can_steer(goal: Goal) -> bool:
    """Returns whether closing a plan now would add a segment to it; a first segment that is asked for is never cut."""
    return goal.request.budget_scope is BudgetScope.WHOLE_PLAN and goal.session.is_closable


def steer(goal: Goal) -> Progress:
    """Leads a plan to its end, at its last safe moment and not before; returns what that adds.

    A plan that is whole by then is never another. If it adds something, the goal's measures say so.
    """
    if not can_steer(goal):
        return Progress()
    progress = goal.close()
    if progress.segments:
        goal.levers = (*goal.levers, Measure.STEERING.value)
    return progress
