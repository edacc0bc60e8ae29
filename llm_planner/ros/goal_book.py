"""What the planner node remembers of its goals: segments for re-sync, signs of life of the clients."""

from dataclasses import dataclass, field

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.core.segment import Segment


@dataclass(slots=True, kw_only=True)
class Goal:
    """One goal from its admission until it is forgotten.

    Attributes:
        num_published: How many of the segments went out as feedback.
        published_at_s: When the last feedback went out.
        is_complete: Whether no segment will follow.
        is_partial: Whether that is so because the plan was closed to keep its time budget.
        heard_at_s: When its client last showed life; None until its first heartbeat.
        finished_at_s: When ``result`` came.
    """

    request: PlanRequest
    segments: list[Segment] = field(default_factory=list)
    num_published: int = 0
    published_at_s: float = float("-inf")
    is_complete: bool = False
    is_partial: bool = False
    heard_at_s: float | None = None
    result: PlanResult | None = None
    finished_at_s: float | None = None


class GoalBook:
    """All goals that are unfinished or finished not long ago.

    Args:
        client_timeout_s: A client whose heartbeats stop for this long is gone, > 0.
        memory_s: How long a finished goal is remembered, >= 0.
    """

    def __init__(self, *, client_timeout_s: float, memory_s: float) -> None:
        self._client_timeout_s = client_timeout_s
        self._memory_s = memory_s
        self._goals: dict[str, Goal] = {}

    def open(self, request: PlanRequest) -> None:
        """Notes a goal that was admitted."""
        self._goals[request.request_id] = Goal(request=request)

    def unfinished(self) -> list[Goal]:
        """Returns the goals that have no result yet."""
        return [goal for goal in self._goals.values() if goal.result is None]

    def robots(self) -> dict[str, str]:
        """Returns the robot model of every robot that has a goal, or had one that is remembered."""
        return {goal.request.robot_id: goal.request.robot_model for goal in self._goals.values()}

    def last_of_idle_robots(self) -> list[Goal]:
        """Returns, of every robot that has no unfinished goal, the one that ended last, as far as remembered."""
        last = {goal.request.robot_id: goal for goal in self._goals.values() if goal.result is not None}
        busy = {goal.request.robot_id for goal in self.unfinished()}
        return [goal for robot_id, goal in last.items() if robot_id not in busy]

    def get(self, goal_id: str) -> Goal | None:
        """Returns a goal, or None if it is unknown or forgotten."""
        return self._goals.get(goal_id)

    def find(self, goal_id: str) -> Goal:
        """Returns a goal.

        Raises:
            PlannerError: UNKNOWN_GOAL if it is unknown or forgotten.
        """
        if (goal := self._goals.get(goal_id)) is None:
            raise PlannerError(ErrorCode.UNKNOWN_GOAL, f"this planner knows no goal {goal_id}; ask for a new plan")
        return goal

    def add_segment(self, goal_id: str, segment: Segment) -> None:
        """Notes a segment of an unfinished goal; one that is known already is ignored."""
        goal = self._goals.get(goal_id)
        if goal is not None and goal.result is None and segment.index == len(goal.segments):
            goal.segments.append(segment)

    def finish(self, result: PlanResult, now_s: float) -> bool:
        """Notes how a goal ended; returns False if it is unknown or had ended before."""
        goal = self._goals.get(result.request_id)
        if goal is None or goal.result is not None:
            return False
        goal.segments.extend(result.segments[len(goal.segments) :])
        goal.result, goal.finished_at_s, goal.is_complete = result, now_s, True
        return True

    def hear(self, goal_id: str, now_s: float, *, heartbeat: bool) -> None:
        """Notes a sign of life; only a heartbeat makes the node expect further ones."""
        goal = self._goals.get(goal_id)
        if goal is not None and (heartbeat or goal.heard_at_s is not None):
            goal.heard_at_s = now_s

    def abandoned(self, now_s: float) -> list[Goal]:
        """Returns unfinished goals whose client fell silent."""
        return [
            goal
            for goal in self.unfinished()
            if goal.heard_at_s is not None and now_s - goal.heard_at_s > self._client_timeout_s
        ]

    def forget(self, now_s: float) -> None:
        """Drops the goals that finished longer ago than the memory reaches."""
        self._goals = {
            goal_id: goal
            for goal_id, goal in self._goals.items()
            if goal.finished_at_s is None or now_s - goal.finished_at_s <= self._memory_s
        }
