# SPDX-License-Identifier: Apache-2.0
"""A server whose engines live in child processes: no step, no crash and no hang of one reaches the owner."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.segment import SegmentReport
from llm_planner.serving.alarm import Alarm
from llm_planner.serving.child_link import Timeouts
from llm_planner.serving.events import Finished
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.goal_record import GoalRecord
from llm_planner.serving.messages import Report
from llm_planner.serving.meter import merged_totals
from llm_planner.serving.replica import Factories, Replica
from llm_planner.serving.server import ServerStatus
from llm_planner.serving.view import merged_status, merged_view

_log = logging.getLogger(__name__)
OVERDUE_PERIOD_S = 0.25
"""How often the parent looks at plans that the child should have closed."""
BUDGET_GRACE_S = 0.01
"""How long after the end of a time budget the child may still decide, before the parent does.

Longer than the pipe takes, and shorter than the timeout of a robot, which acts by itself then (``ros.orders``).
"""
AVOIDED_S = 10.0
"""How long a replica whose model server did not answer is left alone before a goal tries it again."""


class ChildServer:
    """Implements ``PlanServer`` with one or several replicas, each an engine in a child process that is restarted.

    A goal belongs to one replica: the one with the fewest goals (an urgent goal: with the fewest urgent ones), of
    several one that has a goal of the same robot model, whose prefix is warm there. When a child dies or hangs, its
    goals go on in another replica that is ready, behind the segments that were delivered; without one, in the first
    that becomes ready. Only goals that are suspected to have ended a child stay, to be tried alone. The server ends
    when all have given up.

    Args:
        replicas: How each is built. The next is started when the one before is ready, so that an engine that measures
            itself is alone.
        book: The goals; what happens to them is announced there.
        clock: Tells the time; the same in all processes of a machine, as ``core.clock.MonotonicClock`` does.
        timeouts: Timeouts and limits.
    """

    def __init__(
        self,
        replicas: Sequence[Factories],
        *,
        book: GoalBook,
        clock: Clock,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._clock = clock
        self._book = book
        self._alarm = Alarm(clock, self._keep_budgets)
        self._lock = book.lock
        self._is_closing = threading.Event()
        self._is_ready = threading.Event()  # some replica is, or none ever will be
        self._error: PlannerError | None = None
        self._replicas = tuple(
            Replica(
                f"engine process {number}" if len(replicas) > 1 else "the engine process",
                factories,
                owner=self,
                book=book,
                clock=clock,
                timeouts=timeouts or Timeouts(),
                is_closing=self._is_closing,
            )
            for number, factories in enumerate(replicas)
        )

    # --- What the owner calls

    def start(self) -> None:
        """Starts the threads and, in the background, the first child."""
        self._alarm.start()
        with self._lock:
            self._start_next()

    def wait_ready(self, timeout_s: float) -> bool:
        """Returns whether a replica is ready, after at most ``timeout_s``.

        Raises:
            PlannerError: If the server has given up, e.g. MODEL_NOT_FOUND.
        """
        self._is_ready.wait(timeout_s)
        if self._error is not None:
            raise self._error
        return self._is_ready.is_set()

    def submit(self, request: PlanRequest) -> None:
        """Takes a request; if no replica is ready yet, it waits.

        Raises:
            PlannerError: If it is refused at admission, or the server takes none any more.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            now_s = self._clock.now_s()
            superseded = self._book.open(request, now_s)
            if superseded is not None:
                self._forget(superseded.request_id)
            self._set_alarm(self._book.find(request.request_id))
            working = [r for r in self._replicas if r.has_started and r.error is None]
            self._chosen(request, working or self._replicas[:1]).give(request)

    def cancel(self, request_id: str, code: ErrorCode = ErrorCode.CANCELLED, message: str = "cancelled") -> bool:
        """Ends a goal at once, whatever its child does; returns False if it has ended already."""
        with self._lock:
            has_ended = self._book.end(request_id, code, message, self._clock.now_s()) is not None
            if has_ended:
                self._forget(request_id)
            return has_ended

    def report(self, report: SegmentReport) -> None:
        """Takes a robot's word on a segment, if it changes anything."""
        report = self._book.bounded(report)
        with self._lock:
            now_s = self._clock.now_s()
            if self._book.report(report, now_s) and (replica := self._home(report.request_id)) is not None:
                replica.tell(Report(report, now_s))

    def look(self) -> None:
        """Asks the loops for views; ``status.view`` holds them soon."""
        with self._lock:
            for replica in self._replicas:
                replica.look()

    @property
    def status(self) -> ServerStatus:
        """How it is, all replicas together; of their loops, those that are ready, or else all."""
        replicas = self._replicas
        shown = [r for r in replicas if r.is_ready] or replicas
        views = [view for r in shown if (view := r.view) is not None]
        silences = [silent_s for r in replicas if (silent_s := r.silent_s) is not None]
        return ServerStatus(
            is_ready=self._is_ready.is_set() and self._error is None,
            num_restarts=sum(r.num_restarts for r in replicas),
            request_ids=self._book.request_ids,
            loop=merged_status([r.loop_status for r in shown if r.loop_status is not None]),
            view=merged_view(views, merged_totals([r.totals for r in replicas])),
            error=self._error,
            silent_s=max(silences, default=None),
            num_replicas=len(replicas),
            num_ready=sum(r.is_ready for r in replicas),
        )

    @property
    def child_pids(self) -> list[int]:
        """Process ids of the children that there are now."""
        return [pid for r in self._replicas if (pid := r.child_pid) is not None]

    def close(self) -> None:
        """Ends all goals with SHUTTING_DOWN, then the children; safe to call twice."""
        self._stop(PlannerError(ErrorCode.SHUTTING_DOWN, "the planner is shutting down"))
        self._is_closing.set()
        with self._lock:
            for replica in self._replicas:
                replica.wake()
        for replica in self._replicas:
            replica.join()
        self._alarm.close()

    # --- What replicas tell, under the lock

    def on_change(self, replica: Replica) -> None:
        """Starts the next replica, and moves the goals of those that are not ready to those that are."""
        if self._is_closing.is_set():
            return
        self._start_next()
        for other in self._replicas:
            if not other.is_ready:
                for request_id in other.quarantine:
                    self._withdraw_admission(request_id)
                self._move_goals(other)
        errors = [r.error for r in self._replicas if r.error is not None]
        if len(errors) == len(self._replicas):
            self._stop(errors[-1])
        elif replica.error is not None:
            _log.error("%s has given up; the others go on: %s", replica.name, replica.error)
        if self._error is not None or any(r.is_ready for r in self._replicas):
            self._is_ready.set()
        else:
            self._is_ready.clear()

    def takes_back(self, replica: Replica, finished: Finished) -> bool:
        """Moves a goal whose model server does not answer to a replica whose server may, if one has not had it yet."""
        if finished.result.error_code is not ErrorCode.SERVER_UNREACHABLE:
            return False
        request_id, now_s = finished.request_id, self._clock.now_s()
        replica.unanswered_at_s = now_s
        replica.unanswered = {request_id, *replica.unanswered.intersection(self._book.request_ids)}
        goal = self._book.get(request_id)
        untried = (r for r in self._answering() if request_id not in r.unanswered)
        others = [r for r in untried if not self._has_just_failed(r, now_s)]
        if goal is None or goal.result is not None or not others:
            return False
        _log.warning("goal %s goes on elsewhere: %s", request_id, finished.result.error_msg)
        self._withdraw_admission(request_id)
        self._chosen(goal.request, others).take_over(replica, request_id)
        return True

    def _withdraw_admission(self, request_id: str) -> None:
        """Has a goal decided about again, or refused, by the last moment for that: at once if it has passed."""
        decide_by_s = self._book.withdraw_admission(request_id)
        if decide_by_s is not None:
            self._alarm.set(decide_by_s)

    def _start_next(self) -> None:
        """Starts the first replica that has not been, if those before it are ready or have given up."""
        if self._is_closing.is_set():
            return
        for replica in self._replicas:
            if not replica.has_started:
                replica.start()
                return
            if not replica.is_ready and not replica.num_restarts and replica.error is None:
                return

    def _move_goals(self, replica: Replica) -> None:
        """Lets others that answer go on with the goals of a replica, except suspects if it will try them alone."""
        others = [r for r in self._replicas if r is not replica and r.is_ready and r.unanswered_at_s is None]
        others = [r for r in others if r.answers] or others  # in a long step; one that hangs loses them again
        if replica.error is not None:  # no process will be there for them
            others = others or [r for r in self._replicas if r.has_started and r.error is None]
        if not others:
            return
        for request_id in replica.quarantine.movable(with_suspects=replica.error is not None):
            goal = self._book.get(request_id)
            if goal is not None:
                self._chosen(goal.request, others).take_over(replica, request_id)

    # --- Which replica has a goal

    def _home(self, request_id: str) -> Replica | None:
        return next((r for r in self._replicas if request_id in r.quarantine), None)

    def _answering(self) -> list[Replica]:
        return [r for r in self._replicas if r.answers]

    def _chosen(self, request: PlanRequest, replicas: Sequence[Replica]) -> Replica:
        """Returns which of some replicas a goal is given to."""
        if len(replicas) == 1:
            return replicas[0]
        now_s = self._clock.now_s()

        def rank(replica: Replica) -> tuple[bool, bool, int, int, bool]:
            records = (self._book.get(request_id) for request_id in replica.quarantine)
            others = [record.request for record in records if record is not None]
            num_urgent = sum(r.urgency is Urgency.URGENT for r in others) if request.urgency is Urgency.URGENT else 0
            is_warm = any(r.robot_model == request.robot_model for r in others)
            is_avoided = self._is_avoided(replica, request, now_s)
            return (not replica.answers, is_avoided, num_urgent, len(others), not is_warm)

        return min(replicas, key=rank)

    def _has_just_failed(self, replica: Replica, now_s: float) -> bool:
        """Returns whether it is no use to try its model server, which has not answered."""
        return replica.unanswered_at_s is not None and now_s < replica.unanswered_at_s + AVOIDED_S

    def _is_avoided(self, replica: Replica, request: PlanRequest, now_s: float) -> bool:
        """Returns whether a new goal goes elsewhere if it can: the model server did not answer, and nothing came since.

        After a while it is tried with one goal at a time: one that can wait, and whose plan is not given.
        """
        if replica.unanswered_at_s is None:
            return False
        can_try = request.urgency is not Urgency.URGENT and request.time_budget_s is None and not request.plan
        is_planning = any(goal is not None and not goal.is_complete for goal in map(self._book.get, replica.quarantine))
        return not can_try or is_planning or self._has_just_failed(replica, now_s)

    def _forget(self, request_id: str) -> None:
        replica = self._home(request_id)
        if replica is not None:
            replica.forget(request_id)

    # --- Ends

    def _set_alarm(self, goal: GoalRecord) -> None:
        """Has the time budget of a new goal looked after; now and then, forgets the times of those that have ended."""
        for time_s in _alarms_s(goal):
            self._alarm.set(time_s)
        unfinished = self._book.unfinished()
        if self._alarm.num_times > 4 * len(unfinished) + 64:
            self._alarm.set_only(time_s for one in unfinished for time_s in _alarms_s(one))

    def _keep_budgets(self) -> None:
        """Ends what is overdue although its child is dead, starts, or hangs in a step."""

        def has_engine(request_id: str) -> bool:
            replica = self._home(request_id)
            return replica is not None and replica.answers

        with self._lock:
            now_s = self._clock.now_s()
            for event in self._book.take_overdue(now_s, has_engine=has_engine):
                if isinstance(event, Finished):
                    self._forget(event.request_id)
            if self._book.leaves_to_engine(now_s):  # which may turn out to hang
                self._alarm.set(now_s + OVERDUE_PERIOD_S)

    def _stop(self, error: PlannerError) -> None:
        """Takes no goals any more and ends those there are, once: later ones in the book are another server's."""
        with self._lock:
            if self._error is None:
                self._error = error
                self._book.end_all(error.code, error.message, self._clock.now_s())
                self._is_ready.set()  # wakes the waiting callers, to report the error


def _alarms_s(goal: GoalRecord) -> list[float]:
    """Returns when the time budget of a goal is looked at: by when an engine must have decided, and when it is over."""
    budget_s, decide_by_s = goal.request.time_budget_s, replace(goal, is_admitted=False).decide_by_s
    ends_s = None if budget_s is None else goal.arrival_s + budget_s + BUDGET_GRACE_S
    return [time_s for time_s in (decide_by_s, ends_s) if time_s is not None]
