# SPDX-License-Identifier: Apache-2.0
"""One engine process after the other: watched, restarted, and given the goals of its replica."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from llm_planner.core.errors import ErrorCode, PlannerError, is_of_the_plan
from llm_planner.core.interfaces import Clock
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.serving.child_link import ChildLink, Timeouts
from llm_planner.serving.events import Event, Finished, SegmentReady
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.goal_record import GoalRecord
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.messages import Admitted, Cancel, Heartbeat, Look, LoopMessage, Report, Snapshot
from llm_planner.serving.meter import Totals, summed
from llm_planner.serving.quarantine import Quarantine
from llm_planner.serving.view import LoopStatus, LoopView

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Factories:
    """How a replica is built.

    Attributes:
        first: Builds the loop in the child; picklable, e.g. ``functools.partial(build_loop, config)``.
        later: The same for a child that replaces another one, while goals may be waiting; None for ``first``.
    """

    first: Callable[[], PlannerLoop]
    later: Callable[[], PlannerLoop] | None = None


def _is_answer(end: Finished) -> bool:
    """Whether a goal ended with what the model wrote; a plan that is only shown has no segments."""
    return end.result.error_code is ErrorCode.NONE or is_of_the_plan(end.result.error_code)


def _settled(event: Event) -> Event:
    """Returns what robots are told: a planner whose model server is lost has failed, and is not lost itself."""
    if not isinstance(event, Finished) or event.result.error_code is not ErrorCode.SERVER_UNREACHABLE:
        return event
    return replace(event, result=replace(event.result, error_code=ErrorCode.ENGINE_FAILED))


class ReplicaOwner(Protocol):
    """What a replica tells; called under the lock of the book, on threads of the replica."""

    def on_change(self, replica: "Replica") -> None:
        """Is told that a replica has become ready, that its process has ended, or that it has given up."""
        ...

    def takes_back(self, replica: "Replica", finished: Finished) -> bool:
        """Returns whether a goal goes on elsewhere instead of ending as the replica's engine says."""
        ...


class Replica:
    """An engine in a process of its own, which another one replaces when it dies or hangs.

    The next one goes on with every goal of this replica behind the segments that were delivered. No segment is
    delivered twice, and what the old process sent too late is discarded. A goal that ends one process after the other
    ends itself (``quarantine``). All calls but ``join`` are made under the lock of the book.

    Args:
        name: For messages.
        factories: Build the loop in the child.
        owner: Is told what happens.
        book: The goals.
        clock: Tells the time; the same in all processes of a machine.
        timeouts: Timeouts and limits.
        is_closing: Set when it shall end.

    Attributes:
        quarantine: Its goals.
        has_started: Whether it was started.
        is_ready: Whether its engine plans now.
        error: Why it has given up; None while it has not.
        num_restarts: How often its process was replaced.
        unanswered_at_s: When its model server did not answer for the last time; None if it has brought a segment since.
        unanswered: The unfinished goals that it gave up for that.
        loop_status: The last word of its loop; None before the first.
        view: The last answer to ``look`` of a process, if it is ready, of this one; None before the first.
    """

    def __init__(
        self,
        name: str,
        factories: Factories,
        *,
        owner: ReplicaOwner,
        book: GoalBook,
        clock: Clock,
        timeouts: Timeouts,
        is_closing: threading.Event,
    ) -> None:
        self.name = name
        self._factories = factories
        self._owner = owner
        self._book = book
        self._lock = book.lock  # a goal changes and is sent, an event is taken, or a child replaced: one at a time
        self._clock = clock
        self._timeouts = timeouts
        self._is_closing = is_closing
        self._watcher = threading.Thread(target=self._watch, name="planner-watch", daemon=True)
        self._link: ChildLink | None = None
        self._is_looking = False  # a view was asked for and has not come yet
        self._num_failures = 0  # children in a row that ended without a single event, and for no goal's sake
        self._num_hangs = 0  # children that were replaced for their silence since the last event
        self.quarantine = Quarantine(timeouts.max_attempts)
        self.has_started = self.is_ready = False
        self.error: PlannerError | None = None
        self.num_restarts = 0
        self.unanswered_at_s: float | None = None
        self.unanswered: set[str] = set()
        self.loop_status: LoopStatus | None = None
        self.view: LoopView | None = None
        self._earlier = Totals()  # of the processes before, as far as they have told

    # --- What the owner calls

    def start(self) -> None:
        """Starts the watcher and, in the background, the child."""
        self.has_started = True
        self._watcher.start()

    def give(self, request: PlanRequest) -> None:
        """Gives it a goal; if its child is not ready yet, the goal waits."""
        self.quarantine.add(request.request_id, is_urgent=request.urgency is Urgency.URGENT)
        self._hand_over(self._clock.now_s())

    def take_over(self, other: "Replica", request_id: str) -> None:
        """Goes on with a goal of a replica that no longer works on it."""
        self.quarantine.adopt(request_id, other.quarantine)
        self._hand_over(self._clock.now_s())

    def forget(self, request_id: str) -> None:
        """Takes a goal that has ended away from the child."""
        self.quarantine.remove(request_id)
        if self._link is not None:
            self._link.send(Cancel(request_id))

    def tell(self, report: Report) -> None:
        """Tells the child what a robot reported."""
        self._send(report)

    def look(self) -> None:
        """Asks the loop for a view, unless it owes one; ``view`` holds it soon."""
        if self._link is not None and self.is_ready and not self._is_looking:
            self._is_looking = True
            self._link.send(Look())

    @property
    def totals(self) -> Totals:
        """What its processes have done, as far as they have told."""
        view = self.view
        return self._earlier if view is None else view.totals

    @property
    def silent_s(self) -> float | None:
        """For how long its engine has said nothing, if that is longer than it should be; else None."""
        link = self._link
        return None if link is None else link.silent_s

    @property
    def answers(self) -> bool:
        """Whether its engine plans now, and has said something of late."""
        return self.is_ready and self.silent_s is None

    @property
    def child_pid(self) -> int | None:
        """Process id of the child, if there is one now."""
        link = self._link
        return None if link is None else link.pid

    def wake(self) -> None:
        """Tells the child to end, which wakes the watcher."""
        if self._link is not None:
            self._link.send(None)

    def join(self) -> None:
        """Waits for the end of the watcher, without the lock."""
        if self._watcher.is_alive():
            self._watcher.join()

    # --- Goals and the child

    def _send(self, message: GoalRecord | Report) -> None:
        """Tells the child something about a goal, which ends if it cannot be told."""
        try:
            if self._link is not None:
                self._link.send(message)
        except PlannerError as error:
            _log.error("goal %s: %s", message.request_id, error)
            self._end(message.request_id, error.code, error.message)

    def _end(self, request_id: str, code: ErrorCode, message: str) -> None:
        if self._book.end(request_id, code, message, self._clock.now_s()) is not None:
            self.forget(request_id)

    def _hand_over(self, now_s: float) -> None:
        """Tells the present child, once it is ready, the goals that it may have by now."""
        if self._link is None or not self.is_ready:
            return
        for request_id in self.quarantine.take(now_s):
            goal = self._book.get(request_id)
            if goal is not None and goal.result is None:
                self._send(goal)

    def _receive(self, message: LoopMessage) -> None:
        now_s = self._clock.now_s()
        with self._lock:
            match message:
                case Heartbeat(status):
                    self.loop_status = status
                    if not self.is_ready:
                        self.view = None  # of the process before
                        self.is_ready, self.unanswered_at_s = True, None  # it has asked its model server
                        self._owner.on_change(self)
                    else:
                        self._spare_waiting()
                case Snapshot(view):
                    self._is_looking = False
                    if view is not None:
                        self.view = replace(view, totals=summed([self._earlier, view.totals]))
                case Admitted(request_id, is_capped):
                    self._book.admit(request_id, is_capped=is_capped)
                case event:
                    self._take(event, now_s)
            if self.quarantine.waiting:
                self._hand_over(now_s)

    def _take(self, event: Event, now_s: float) -> None:
        """Takes an event of a goal, unless the goal goes on elsewhere."""
        self._num_failures = self._num_hangs = 0
        if self._link is not None:
            self._link.num_hangs = 0
        if isinstance(event, SegmentReady) or (isinstance(event, Finished) and _is_answer(event)):
            self.unanswered_at_s = None
        self.quarantine.progress(event.request_id)
        is_elsewhere = isinstance(event, Finished) and self._owner.takes_back(self, event)
        if not is_elsewhere and isinstance(self._book.accept(_settled(event), now_s), Finished):
            self.quarantine.remove(event.request_id)

    def _spare_waiting(self) -> None:
        """Notes that the child lives with goals that only wait for their robots: nothing else will come of these."""
        for request_id in self.quarantine:
            goal = self._book.get(request_id)
            if goal is not None and goal.waits_for_robot and request_id not in self.quarantine.waiting:
                self.quarantine.progress(request_id)

    # --- The watcher's thread

    def _watch(self) -> None:
        """Runs one child after the other until the server closes or this replica gives up."""
        error = None
        try:
            while not self._is_closing.is_set():
                self._run_child()
        except PlannerError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 (whatever it is, every goal must end or go on elsewhere)
            _log.exception("the watcher of the engine process failed")
            error = PlannerError(ErrorCode.ENGINE_FAILED, f"no engine process: {failure!r}; restart the planner")
        with self._lock:
            self.error = error
            if error is not None:
                self._owner.on_change(self)

    def _run_child(self) -> None:
        """Runs a child from its birth to its end, and waits a little if it died early.

        Raises:
            PlannerError: If another one would do no better.
        """
        try:
            factory = (self.num_restarts and self._factories.later) or self._factories.first
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
            has_found_reason = self._end_process()
        if self._is_closing.is_set():
            return
        if link.error is not None and self.num_restarts == 0:
            raise link.error
        self._num_hangs += link.has_hung
        with self._lock:
            self._owner.on_change(self)
        self._note_failure(link.error, is_explained=has_found_reason)

    def _end_process(self) -> bool:
        """Notes that the child has ended, and ends the goals for which it did; returns whether there were any."""
        with self._lock:
            self.is_ready = False
            self._link, self._is_looking = None, False
            self._earlier = self.totals
            blamed = self.quarantine.end_process()
            for request_id in blamed:
                what = "the engine failed again and again while it planned this"
                self._end(request_id, ErrorCode.ENGINE_FAILED, what)
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
        self.num_restarts += 1
        _log.warning("%s ended or hung; restart %d", self.name, self.num_restarts)
        self._is_closing.wait(min(2.0, 0.05 * 2**self._num_failures))

    def _adopt(self, link: ChildLink) -> None:
        """Makes ``link`` the present one; it is told the goals when it is ready."""
        with self._lock:
            self._link = link
            self.quarantine.begin_process()
