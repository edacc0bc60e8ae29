# SPDX-License-Identifier: Apache-2.0
"""The one store of goals: survives the loop, ends every goal exactly once, hands nothing out twice."""

import math
import threading
from collections.abc import Callable
from dataclasses import replace

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import AtDeadline, PlanRequest, PlanResult
from llm_planner.core.segment import SegmentReport
from llm_planner.serving.admission import Admission
from llm_planner.serving.events import Event, Finished, PlanComplete, SegmentReady
from llm_planner.serving.goal_record import GoalRecord


class GoalBook:
    """All goals that are unfinished, or finished not long ago: one record each, one lock. Never blocks for long.

    Action, re-sync, status, the budgets' alarm and the hand-over to another engine process read the same records.
    Whatever changes a goal announces it under the lock, so events leave in the order of the changes.

    Args:
        admission: Checks requests; may be replaced when the planner is configured again.
        post: Queues an event for the owner of the goals; called under the lock, so it neither blocks nor raises.
        client_timeout_s: A client whose heartbeats stop for this long is gone, > 0.
        memory_s: How long a finished goal is remembered, >= 0.

    Attributes:
        lock: Held where a goal must change, and an engine be told of it, in one step; re-entrant.
    """

    def __init__(
        self,
        admission: Admission | None = None,
        post: Callable[[Event], None] = lambda _: None,
        *,
        client_timeout_s: float = math.inf,
        memory_s: float = 0.0,
    ) -> None:
        self.admission = admission
        self.post = post
        self.lock = threading.RLock()
        self._client_timeout_s = client_timeout_s
        self._memory_s = memory_s
        self._unfinished: dict[str, GoalRecord] = {}
        self._finished: dict[str, GoalRecord] = {}

    # --- What changes a goal

    def open(self, request: PlanRequest, now_s: float) -> Finished | None:
        """Enters a request; returns the end of the one that it supersedes, if any.

        Raises:
            PlannerError: If it is refused; then nothing has changed.
        """
        with self.lock:
            self._skip_while_overrun(request, now_s)
            ended = None
            if self.admission is not None:
                unfinished = {request_id: goal.request for request_id, goal in self._unfinished.items()}
                previous = self.admission.check(request, unfinished)
                if previous is not None:
                    message = f"superseded by the urgent goal {request.request_id}"
                    ended = self.end(previous.request_id, ErrorCode.SUPERSEDED, message, now_s)
            self._unfinished[request.request_id] = GoalRecord(request=request, arrival_s=now_s)
            return ended

    def accept(self, event: Event, now_s: float) -> Event | None:
        """Enters what the loop says; returns the event that was announced, None if it is outdated."""
        with self.lock:
            goal = self._unfinished.get(event.request_id)
            if goal is None:
                return None
            match event:
                case SegmentReady(_, segment):
                    is_late = goal.is_complete and not segment.is_replan
                    if is_late or segment.index != len(goal.request.delivered):
                        return None
                    goal = goal.with_segment(segment, now_s)
                case PlanComplete(_, _, is_partial, verdict):
                    if goal.is_complete:
                        return None
                    goal = replace(goal, is_complete=True, is_partial=is_partial, verdict=verdict)
                case Finished(result):
                    return self._finish(goal, result, now_s)
            self._unfinished[event.request_id] = goal
            self.post(event)
            return event

    def admit(self, request_id: str, *, is_capped: bool = False) -> None:
        """Notes that an engine has decided to keep a goal's time budget, and whether with a token cap."""
        with self.lock:
            goal = self._unfinished.get(request_id)
            if goal is not None:
                self._unfinished[request_id] = replace(goal, is_admitted=True, is_capped=is_capped)

    def withdraw_admission(self, request_id: str) -> float | None:
        """Notes that no engine keeps a goal's time budget any more; returns by when another one must decide about it.

        None if nothing has to be decided.
        """
        with self.lock:
            goal = self._unfinished.get(request_id)
            if goal is None:
                return None
            goal = self._unfinished[request_id] = replace(goal, is_admitted=False)
            return goal.decide_by_s

    def end(self, request_id: str, code: ErrorCode, message: str, now_s: float) -> Finished | None:
        """Ends a goal without waiting for the loop; None if it has ended already."""
        with self.lock:
            goal = self._unfinished.get(request_id)
            return None if goal is None else self._finish(goal, goal.result_of(code, message), now_s)

    def _finish(self, goal: GoalRecord, result: PlanResult, now_s: float) -> Finished:
        goal = goal.with_end(result, now_s)
        assert goal.result is not None
        del self._unfinished[goal.request_id]
        self._finished.pop(goal.request_id, None)
        if self._memory_s:
            self._finished[goal.request_id] = goal
        event = Finished(goal.result)
        self.post(event)
        return event

    def _skip_while_overrun(self, request: PlanRequest, now_s: float) -> None:
        """Skip-Next (TimeBill, section 6.1): what a robot asks while its overrun goal is not complete is skipped.

        Deviation: an urgent goal is not the one that pays for another's overrun; it may take that one's place.
        """
        for goal in self._unfinished.values():
            if goal.request.robot_id != request.robot_id or goal.overrun(now_s) is not AtDeadline.GOES_ON:
                continue
            if not request.supersedes(goal.request):
                raise PlannerError(
                    ErrorCode.BUDGET_EXCEEDED,
                    f"skipped: the robot's goal {goal.request_id} has exceeded its time budget and goes on "
                    "(SKIP_NEXT); ask again when it has ended",
                )

    def take_overdue(self, now_s: float, *, has_engine: Callable[[str], bool]) -> list[Event]:
        """Keeps the time budgets that the engine does not keep, because it is dead, starting, or in a long step.

        Returns what was announced: a goal of which nothing came has ended, a plan that is closed in time is closed. An
        engine that lives closes its plans itself: it knows what is on its way. A goal about which no engine has decided
        is refused while its robot has time left for its reflex: its engine cannot give up every step. So is one
        of which nothing came before the engine that had decided about it was gone.

        Args:
            now_s: The moment.
            has_engine: Whether the engine that has a goal is ready, and answers.
        """
        events: list[Event] = []
        with self.lock:
            for goal in list(self._unfinished.values()):
                overrun, budget_s = goal.overrun(now_s), goal.request.time_budget_s
                decide_by_s = (goal if has_engine(goal.request_id) else replace(goal, is_admitted=False)).decide_by_s
                if decide_by_s is not None and decide_by_s <= now_s:
                    message = (
                        f"no engine could decide in time about the time budget of {budget_s} s: it is in a long step, "
                        "or not ready; let the reflex act"
                    )
                    events.append(self._finish(goal, goal.result_of(ErrorCode.BUDGET_INFEASIBLE, message), now_s))
                elif overrun is AtDeadline.IS_CLOSED and not has_engine(goal.request_id):
                    closed = PlanComplete(goal.request_id, len(goal.segments), is_partial=True)
                    events += filter(None, [self.accept(closed, now_s)])
                elif overrun is AtDeadline.ENDS:
                    message = f"nothing came from the engine within the time budget of {budget_s} s"
                    events.append(self._finish(goal, goal.result_of(ErrorCode.BUDGET_EXCEEDED, message), now_s))
        return events

    def leaves_to_engine(self, now_s: float) -> bool:
        """Returns whether a plan is to be closed by its engine, because its time budget is over."""
        with self.lock:
            return any(goal.overrun(now_s) is AtDeadline.IS_CLOSED for goal in self._unfinished.values())

    def report(self, report: SegmentReport, now_s: float) -> bool:
        """Enters a robot's report; returns whether it changed anything, and so a loop must be told of it.

        A loop's segments are never fewer than those here, so it takes these reports as this book does.
        """
        with self.lock:
            goal = self._unfinished.get(report.request_id)
            if goal is None or not goal.counts(report):
                return False
            self._unfinished[report.request_id] = goal.with_report(report, now_s)
            return True

    def bounded(self, report: SegmentReport) -> SegmentReport:
        """Returns what is read of a report (``Admission.bounded``)."""
        return report if self.admission is None else self.admission.bounded(report)

    def end_all(self, code: ErrorCode, message: str, now_s: float) -> None:
        """Ends every goal."""
        for request_id in self.request_ids:
            self.end(request_id, code, message, now_s)

    # --- The client's life

    def note_life(self, goal_id: str, now_s: float, *, heartbeat: bool) -> None:
        """Notes a sign of life of a client; only a heartbeat makes the book expect further ones."""
        with self.lock:
            goal = self._unfinished.get(goal_id)
            if goal is not None and (heartbeat or goal.alive_at_s is not None):
                self._unfinished[goal_id] = replace(goal, alive_at_s=now_s)

    def abandoned(self, now_s: float) -> list[GoalRecord]:
        """Returns unfinished goals whose client has fallen silent."""
        goals, timeout_s = self.unfinished(), self._client_timeout_s
        return [goal for goal in goals if goal.alive_at_s is not None and now_s - goal.alive_at_s > timeout_s]

    def forget(self, now_s: float) -> None:
        """Drops the goals that finished longer ago than the memory reaches."""
        with self.lock:
            self._finished = {
                goal_id: goal
                for goal_id, goal in self._finished.items()
                if goal.ended_at_s is None or now_s - goal.ended_at_s <= self._memory_s
            }

    # --- What others read

    def get(self, goal_id: str) -> GoalRecord | None:
        """Returns a goal, or None if it is unknown or forgotten."""
        with self.lock:
            return self._unfinished.get(goal_id) or self._finished.get(goal_id)

    def find(self, goal_id: str) -> GoalRecord:
        """Returns a goal.

        Raises:
            PlannerError: UNKNOWN_GOAL if it is unknown or forgotten.
        """
        if (goal := self.get(goal_id)) is None:
            raise PlannerError(ErrorCode.UNKNOWN_GOAL, f"this planner knows no goal {goal_id}; ask for a new plan")
        return goal

    def unfinished(self) -> list[GoalRecord]:
        """Returns the goals that have no result yet, in the order of their arrival."""
        with self.lock:
            return list(self._unfinished.values())

    def robots(self) -> dict[str, str]:
        """Returns the robot model of every robot that has a goal, or had one that is remembered."""
        with self.lock:
            goals = [*self._finished.values(), *self._unfinished.values()]
        return {goal.request.robot_id: goal.request.robot_model for goal in goals}

    def last_of_idle_robots(self) -> list[GoalRecord]:
        """Returns, of every robot that has no unfinished goal, the one that ended last, as far as remembered."""
        with self.lock:
            last = {goal.request.robot_id: goal for goal in self._finished.values()}
            busy = {goal.request.robot_id for goal in self._unfinished.values()}
        return [goal for robot_id, goal in last.items() if robot_id not in busy]

    @property
    def request_ids(self) -> tuple[str, ...]:
        """Unfinished goals, in the order of their arrival."""
        with self.lock:
            return tuple(self._unfinished)
