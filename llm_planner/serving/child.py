# SPDX-License-Identifier: Apache-2.0
"""A server whose loop lives in a child process: no step, no crash and no hang of the engine reaches the owner."""

import logging
import threading
from collections.abc import Callable

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Clock
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.segment import SegmentReport
from llm_planner.serving.alarm import Alarm
from llm_planner.serving.child_link import ChildLink, Timeouts
from llm_planner.serving.child_process import Admitted, Cancel, Heartbeat, Look, LoopMessage, Report, Snapshot
from llm_planner.serving.events import Finished
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.goal_record import GoalRecord
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.quarantine import Quarantine
from llm_planner.serving.server import ServerStatus
from llm_planner.serving.view import LoopStatus, LoopView

_log = logging.getLogger(__name__)
BUDGET_GRACE_S = 0.01
"""How long after the end of a time budget the child may still decide, before the parent does.

Longer than the pipe takes, and shorter than the timeout of a robot, which acts by itself then (``ros.orders``).
"""


class ChildServer:
    """Implements ``PlanServer`` with a child process that is watched and restarted.

    When the child dies or hangs, the next one goes on with every unfinished goal behind the segments that were
    delivered. No segment is delivered twice, and what the old child sent too late is discarded. A goal that ends one
    child after the other ends itself (``quarantine``).

    Args:
        factory: Builds the loop in the child; picklable, e.g. ``functools.partial(build_loop, config)``.
        book: The goals; what happens to them is announced there.
        clock: Tells the time; the same in all processes of a machine, as ``core.clock.MonotonicClock`` does.
        timeouts: Timeouts and limits.
        next_factory: The same for a child that replaces another one, while goals may be waiting; None for ``factory``.
    """

    def __init__(
        self,
        factory: Callable[[], PlannerLoop],
        *,
        book: GoalBook,
        clock: Clock,
        timeouts: Timeouts | None = None,
        next_factory: Callable[[], PlannerLoop] | None = None,
    ) -> None:
        self._factory = factory
        self._next_factory = next_factory or factory
        self._clock = clock
        self._timeouts = timeouts or Timeouts()
        self._book = book
        self._alarm = Alarm(clock, self._keep_budgets)
        self._watcher = threading.Thread(target=self._watch, name="planner-watch", daemon=True)
        self._lock = book.lock  # a goal changes and is sent, an event is taken, or a child replaced: one at a time
        self._quarantine = Quarantine(self._timeouts.max_attempts)
        self._link: ChildLink | None = None
        self._loop_status: LoopStatus | None = None
        self._view: LoopView | None = None
        self._is_looking = False  # a view was asked for and has not come yet
        self._error: PlannerError | None = None
        self._is_ready = threading.Event()
        self._is_closing = threading.Event()
        self._num_restarts = 0
        self._num_failures = 0  # children in a row that ended without a single event, and for no goal's sake
        self._num_hangs = 0  # children that were replaced for their silence since the last event

    # --- What the owner calls

    def start(self) -> None:
        """Starts the threads and, in the background, the child."""
        self._alarm.start()
        self._watcher.start()

    def wait_ready(self, timeout_s: float) -> bool:
        """Returns whether the child is ready, after at most ``timeout_s``.

        Raises:
            PlannerError: If the server has given up, e.g. MODEL_NOT_FOUND.
        """
        self._is_ready.wait(timeout_s)
        if self._error is not None:
            raise self._error
        return self._is_ready.is_set()

    def submit(self, request: PlanRequest) -> None:
        """Takes a request; if the child is not ready yet, it waits.

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
            if request.time_budget_s is not None:
                self._alarm.set(now_s + request.time_budget_s + BUDGET_GRACE_S)
                goal = self._book.get(request.request_id)
                if goal is not None and goal.decide_by_s is not None:
                    self._alarm.set(goal.decide_by_s)
            self._quarantine.add(request.request_id, is_urgent=request.urgency is Urgency.URGENT)
            self._hand_over(now_s)

    def cancel(self, request_id: str, code: ErrorCode = ErrorCode.CANCELLED, message: str = "cancelled") -> bool:
        """Ends a goal at once, whatever the child does; returns False if it has ended already."""
        with self._lock:
            return self._end(request_id, code, message)

    def report(self, report: SegmentReport) -> None:
        """Takes a robot's word on a segment, if it changes anything."""
        report = self._book.bounded(report)
        with self._lock:
            now_s = self._clock.now_s()
            if self._book.report(report, now_s):
                self._send(Report(report, now_s))

    def look(self) -> None:
        """Asks the loop for a view, unless it owes one; ``status.view`` holds it soon."""
        with self._lock:
            if self._link is not None and self._is_ready.is_set() and not self._is_looking:
                self._is_looking = True
                self._link.send(Look())

    @property
    def status(self) -> ServerStatus:
        """How it is."""
        link = self._link
        return ServerStatus(
            is_ready=self._is_ready.is_set() and self._error is None,
            num_restarts=self._num_restarts,
            request_ids=self._book.request_ids,
            loop=self._loop_status,
            view=self._view,
            error=self._error,
            silent_s=None if link is None else link.silent_s,
        )

    @property
    def child_pid(self) -> int | None:
        """Process id of the child, if there is one now."""
        link = self._link
        return None if link is None else link.pid

    def close(self) -> None:
        """Ends all goals with SHUTTING_DOWN, then the child; safe to call twice."""
        self._stop(PlannerError(ErrorCode.SHUTTING_DOWN, "the planner is shutting down"))
        self._is_closing.set()
        with self._lock:
            if self._link is not None:
                self._link.send(None)  # its end wakes the watcher
        if self._watcher.is_alive():
            self._watcher.join()
        self._alarm.close()

    def _send(self, message: GoalRecord | Report) -> None:
        """Tells the child something about a goal, which ends if it cannot be told."""
        try:
            if self._link is not None:
                self._link.send(message)
        except PlannerError as error:
            _log.error("goal %s: %s", message.request_id, error)
            self._end(message.request_id, error.code, error.message)

    def _end(self, request_id: str, code: ErrorCode, message: str) -> bool:
        has_ended = self._book.end(request_id, code, message, self._clock.now_s()) is not None
        if has_ended:
            self._forget(request_id)
        return has_ended

    def _forget(self, request_id: str) -> None:
        """Takes a goal that has ended away from the child."""
        self._quarantine.remove(request_id)
        if self._link is not None:
            self._link.send(Cancel(request_id))

    def _keep_budgets(self) -> None:
        """Ends what is overdue although the child is dead, starts, or hangs in a step."""
        with self._lock:
            events = self._book.take_overdue(self._clock.now_s(), is_engine_ready=self._is_ready.is_set())
            for event in events:
                if isinstance(event, Finished):
                    self._forget(event.request_id)

    def _stop(self, error: PlannerError) -> None:
        """Takes no goals any more and ends those there are, once: later ones in the book are another server's."""
        with self._lock:
            if self._error is None:
                self._error = error
                self._book.end_all(error.code, error.message, self._clock.now_s())

    # --- The watcher's thread

    def _watch(self) -> None:
        """Runs one child after the other until the server closes or gives up."""
        try:
            while not self._is_closing.is_set():
                self._run_child()
        except PlannerError as error:
            self._stop(error)
        except Exception as error:  # noqa: BLE001 (whatever it is, every goal must end)
            _log.exception("the watcher of the engine process failed")
            self._stop(PlannerError(ErrorCode.ENGINE_FAILED, f"no engine process: {error!r}; restart the planner"))
        self._is_ready.set()  # wakes the waiting callers, to report the error

    def _run_child(self) -> None:
        """Runs a child from its birth to its end, and waits a little if it died early.

        Raises:
            PlannerError: If another one would do no better.
        """
        try:
            factory = self._next_factory if self._num_restarts else self._factory
            link = ChildLink(factory, self._clock, self._timeouts, self._receive, self._num_hangs)
        except OSError as error:  # no memory, or too many processes: that may pass
            self._note_failure(PlannerError(ErrorCode.ENGINE_FAILED, f"no engine process can be started: {error}"))
            return
        try:
            self._adopt(link)
            link.watch(self._is_closing)
        finally:
            is_orderly = self._is_closing.is_set() and link.is_ready  # one that is loading reads nothing
            link.end(self._timeouts.stop_timeout_s if is_orderly else 0.0)
            self._is_ready.clear()
            with self._lock:
                self._link, self._is_looking = None, False
        if self._is_closing.is_set():
            return
        if link.error is not None and self._num_restarts == 0:
            raise link.error
        self._num_hangs += link.has_hung
        has_found_reason = link.is_ready and self._end_blamed()
        self._note_failure(link.error, is_explained=has_found_reason)

    def _end_blamed(self) -> bool:
        """Ends the goals for which the child that had them ended; returns whether there were any."""
        with self._lock:
            blamed = self._quarantine.end_process()
            for request_id in blamed:
                message = "the engine failed again and again while it planned this"
                self._end(request_id, ErrorCode.ENGINE_FAILED, message)
        return bool(blamed)

    def _note_failure(self, error: PlannerError | None, *, is_explained: bool = False) -> None:
        """Counts a child that has ended by itself, and waits a little before the next one.

        Raises:
            PlannerError: If there were too many without an explanation.
        """
        self._num_failures = 0 if is_explained else self._num_failures + 1
        if self._num_failures > self._timeouts.max_restarts:
            message = f"the engine failed {self._num_failures} times in a row; see its log, then restart the planner"
            raise error or PlannerError(ErrorCode.ENGINE_FAILED, message)
        self._num_restarts += 1
        _log.warning("the engine process ended or hung; restart %d", self._num_restarts)
        self._is_closing.wait(min(2.0, 0.05 * 2**self._num_failures))

    def _adopt(self, link: ChildLink) -> None:
        """Makes ``link`` the present one and tells it the unfinished goals."""
        with self._lock:
            self._link = link
            self._quarantine.begin_process()
            self._hand_over(self._clock.now_s())

    def _hand_over(self, now_s: float) -> None:
        """Tells the present child the goals that it may have by now."""
        if self._link is None:
            return
        for request_id in self._quarantine.take(now_s):
            goal = self._book.get(request_id)
            if goal is not None and goal.result is None:
                self._send(goal)

    def _receive(self, message: LoopMessage) -> None:
        now_s = self._clock.now_s()
        with self._lock:
            match message:
                case Heartbeat(status):
                    self._loop_status = status
                    self._is_ready.set()
                case Snapshot(view):
                    self._view, self._is_looking = view or self._view, False
                case Admitted(request_id):
                    self._book.admit(request_id)
                case event:
                    self._num_failures = self._num_hangs = 0
                    if self._link is not None:
                        self._link.num_hangs = 0
                    self._quarantine.progress(event.request_id)
                    if isinstance(self._book.accept(event, now_s), Finished):
                        self._quarantine.remove(event.request_id)
            if self._quarantine.waiting:
                self._hand_over(now_s)
