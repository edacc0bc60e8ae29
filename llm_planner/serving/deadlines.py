# SPDX-License-Identifier: Apache-2.0
"""When must a goal be looked at: time budgets that run out, plans that must be closed, robots that fall silent."""

import heapq
from collections.abc import Iterable, Mapping

from llm_planner.core.request import AtDeadline
from llm_planner.core.step import SchedulerOutput
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.goal import Goal


class Deadlines:
    """A heap of times, one or more per goal; pure bookkeeping, the loop draws the consequences.

    Strategies of TimeBill, section 6.1: KILL is due when the budget is over, SKIP_NEXT never. PARTIAL, which is ours,
    and KILL under a token cap are due at their last safe moment: the last end of a step from which the next one, and
    the way to the robot, would take until after the deadline.

    Args:
        scheduler: Its configuration has the network delay and the timeout of silent robots; it knows the step times.
        do_clients_report: Whether robots report, so that silence means something.
    """

    def __init__(self, scheduler: Scheduler, *, do_clients_report: bool) -> None:
        self._config, self._times = scheduler.config, scheduler.times
        self._do_clients_report = do_clients_report
        self._heap: list[tuple[float, str]] = []

    def watch(self, goal: Goal) -> None:
        """Enters a goal, again after anything that may bring its time forward."""
        due_s = self.due_s(goal)
        if due_s is not None:
            heapq.heappush(self._heap, (due_s, goal.request.request_id))

    def take_due(self, goals: Mapping[str, Goal], now_s: float) -> list[Goal]:
        """Returns the goals of ``goals`` that are due, each once, and enters the others again.

        Times of goals that have ended would stay to the ends of their budgets, so all are entered anew now and then.
        """
        if len(self._heap) > 4 * len(goals) + 64:
            self._heap.clear()
            for known in goals.values():
                self.watch(known)
        due: dict[str, Goal] = {}
        while self._heap and self._heap[0][0] <= now_s:
            goal = goals.get(heapq.heappop(self._heap)[1])
            due_s = None if goal is None else self.due_s(goal)
            if goal is None or due_s is None:
                continue
            if due_s <= now_s:
                due[goal.request.request_id] = goal
            else:
                self.watch(goal)
        return list(due.values())

    @property
    def next_s(self) -> float | None:
        """When ``take_due`` has something to do; None for never."""
        return self._heap[0][0] if self._heap else None

    def would_miss(self, goals: Iterable[Goal], scheduled: SchedulerOutput, now_s: float) -> list[Goal]:
        """Returns which of the goals with a time budget must be closed now, if ``scheduled`` is run."""
        closing = [goal for goal in goals if goal.is_closed_in_time and _has_plan(goal)]
        if not closing:
            return []
        latest_s = now_s + self._times.bound_s(scheduled) + self._config.network_latency_s
        return [goal for goal in closing if (end_s := goal.budget_ends_at_s) is not None and end_s < latest_s]

    def is_overrun(self, goal: Goal, now_s: float) -> bool:
        """Whether the goal may not go on: its time budget is over (or, if it is closed in time, about to be)."""
        due_s = self._budget_due_s(goal)
        return due_s is not None and due_s <= now_s

    def is_too_late(self, goal: Goal, now_s: float) -> bool:
        """Whether the time budget is over, so that what leaves the planner now does not count any more."""
        end_s = goal.budget_ends_at_s
        return end_s is not None and now_s > end_s and goal.at_deadline is not AtDeadline.GOES_ON

    def due_s(self, goal: Goal) -> float | None:
        """Returns when the goal ends, or is closed, if nothing happens until then; None for never."""
        silent_s = goal.execution.silent_at_s(self._config.silence_timeout_s) if self._do_clients_report else None
        budget_s = None if goal.request.time_budget_s is None else self._budget_due_s(goal)
        return min((time_s for time_s in (budget_s, silent_s) if time_s is not None), default=None)

    def _budget_due_s(self, goal: Goal) -> float | None:
        end_s = goal.budget_ends_at_s
        if end_s is None or goal.at_deadline is AtDeadline.GOES_ON:
            return None
        if not goal.is_closed_in_time:
            return end_s
        step_s = self._times.decode_bound_s if _has_plan(goal) else 0.0
        return end_s - self._config.network_latency_s - step_s


def _has_plan(goal: Goal) -> bool:
    """Whether there is a beginning of a plan that one more step could make late; what has none may as well try."""
    return bool(goal.delivered or goal.held or goal.can_truncate)
