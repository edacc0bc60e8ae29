# SPDX-License-Identifier: Apache-2.0
"""What happens when a segment fails on the robot: the plan goes on another way, or the goal ends."""

import logging
from collections.abc import Mapping
from dataclasses import replace

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.segment import Segment, SegmentReport
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.goal import Goal

_log = logging.getLogger(__name__)


class Replans:
    """Decides whether to replan after a segment that failed, and has the generation go on behind it.

    The robot stands and waits. The model reads what has happened, behind all that it has read and written (whose KV is
    kept where the backend can insert) or as a new prompt, and writes another plan. Tries are bounded.

    Args:
        scheduler: Holds the generations.
        max_replans: Most replans of one goal; 0 for none.

    Attributes:
        waiting: Goals whose plans go on another way with the next ``take``, and what has failed.
    """

    def __init__(self, scheduler: Scheduler, max_replans: int) -> None:
        self._scheduler = scheduler
        self._max_replans = max_replans
        self.waiting: list[tuple[Goal, SegmentReport]] = []

    def put_aside(self, goal: Goal) -> None:
        """Ends the generation of a goal whose plan is complete, or retains it while a replan may be needed."""
        put_aside = self._scheduler.retain if self._is_possible(goal) else self._scheduler.end
        put_aside(goal.request.request_id)

    def _is_possible(self, goal: Goal) -> bool:
        is_replanned = goal.begin_replan is not None and not (goal.is_partial or goal.request.has_whole_plan_budget)
        return is_replanned and len(goal.failures) < self._max_replans

    def receive(self, goal: Goal, report: SegmentReport) -> PlannerError | None:
        """Notes that a segment has failed, once per goal until ``take``; returns why its goal ends now, if it does."""
        if report.is_permanent:
            return PlannerError(ErrorCode.NOT_ACHIEVED, _ending(goal, report))
        if report.situation is None or not self._is_possible(goal):
            return PlannerError(ErrorCode.SKILL_FAILED, _ending(goal, report))
        self.waiting.append((goal, report))
        return None

    def take(self, goals: Mapping[str, Goal], now_s: float) -> list[tuple[Goal, PlannerError | None]]:
        """Has plans go on around what failed, and leaves the segment that tells the robot so to be sent.

        A step that was decided must have been run: what it writes belongs to the plan that failed.

        Args:
            goals: Unfinished ones: others may have ended since.
            now_s: The time.

        Returns:
            The goals, and for each one that has no other way, why it ends.
        """
        waiting, self.waiting = self.waiting, []
        taken: list[tuple[Goal, PlannerError | None]] = []
        for goal, report in waiting:
            if goals.get(goal.request.request_id) is goal:
                try:
                    goal.held = [self._take(goal, report, now_s)]
                    taken.append((goal, None))
                except PlannerError as error:
                    taken.append((goal, error))
                except Exception as error:  # noqa: BLE001 (whatever it is, no other goal must end)
                    _log.exception("goal %s cannot be replanned", goal.request.request_id)
                    taken.append((goal, PlannerError(ErrorCode.ENGINE_FAILED, f"replanning failed: {error!r}")))
        return taken

    def _take(self, goal: Goal, report: SegmentReport, now_s: float) -> Segment:
        """Has one plan go on; returns the segment that tells the robot.

        Raises:
            PlannerError: SKILL_FAILED if there is no room for another plan.
        """
        assert goal.begin_replan is not None  # ``receive`` has asked
        goal.failures.append(report)
        request = replace(goal.request, delivered=goal.delivered, failures=tuple(goal.failures))
        replan = goal.begin_replan(request)
        generation, request_id = goal.generation, goal.request.request_id
        num_tokens = len(replan.token_ids) + (generation.num_tokens if replan.keeps_context else 0)
        room_tokens = self._scheduler.most_tokens(generation.sequence) - num_tokens
        max_output_tokens = min(generation.num_tokens_left, room_tokens)
        if max_output_tokens < 1:
            goal.failures.pop()
            problem = f"{_ending(goal, report)}; there is no room for another plan behind this one"
            raise PlannerError(ErrorCode.SKILL_FAILED, problem)
        goal.is_plan_complete, goal.verdict = False, None
        goal.cancel_prediction()
        go_on = self._scheduler.insert if replan.keeps_context else self._scheduler.restart
        go_on(request_id, replan.token_ids, max_output_tokens, now_s)
        return replan.segment


def _ending(goal: Goal, report: SegmentReport) -> str:
    text = goal.delivered[report.index].text
    ending = f"segment {report.index} ({text}) failed on the robot: {report.reason or 'no reason given'}"
    return f"{ending}; {goal.story}" if goal.failures else ending
