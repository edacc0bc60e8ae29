# SPDX-License-Identifier: Apache-2.0
"""The loop: schedule -> execute -> update, one step at a time, with the time as an argument."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Backend, BackendInfo, Clock, InterruptibleBackend
from llm_planner.core.request import AtDeadline, PlanRequest, PlanResult, Urgency
from llm_planner.core.segment import Segment, SegmentReport
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.planning.session import Progress
from llm_planner.scheduling.execution_tracker import Reception, gives_up
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.budgets import Budgets
from llm_planner.serving.deadlines import Deadlines
from llm_planner.serving.events import Event, Finished, PlanComplete, SegmentReady
from llm_planner.serving.goal import Goal, open_goal
from llm_planner.serving.goal_record import GoalRecord
from llm_planner.serving.meter import Meter
from llm_planner.serving.preparation import Preparer
from llm_planner.serving.replans import Replans
from llm_planner.serving.view import LoopStatus, LoopView, count, look
from llm_planner.serving.warm_up import rehearse

_log = logging.getLogger(__name__)


class PlannerLoop:
    """Plans for all goals with one backend. Single-threaded; every call returns the events that it caused.

    A failure of the backend as a whole is not caught here: the server around the loop ends or moves the goals.

    Args:
        backend: Runs steps.
        scheduler: Decides about steps.
        preparer: Makes requests ready.
        do_clients_report: Whether robots report their segments. If so, a goal finishes when the robot has ended the
            last segment, and a robot that falls silent ends it; if not, execution is estimated and a goal finishes
            with its plan.
        max_replans: How often a plan may go on another way around a segment that failed, before its goal ends.
        waits_for_plan_s: How long the first statements of a plan wait for the rest of it, at most: what is not
            understood further on is not begun. Emergencies, answers and goals with a time budget do not wait.
        second_look_s: How long other plans are looked for, at most, instead of one that must not be executed.
        stopwatch: Measures how long decisions take, for people; None where time is virtual.
        budgets: Makes what keeps time budgets; benchmarks put other approaches in its place.

    Attributes:
        longest_rehearsal_s: Time that ``warm_up`` took for one request, at most; 0 without a stopwatch.
    """

    def __init__(  # noqa: PLR0913 (one argument per thing that it combines)
        self,
        *,
        backend: Backend,
        scheduler: Scheduler,
        preparer: Preparer,
        do_clients_report: bool = True,
        max_replans: int = 0,
        waits_for_plan_s: float = 0.0,
        second_look_s: float = 0.0,
        stopwatch: Clock | None = None,
        budgets: Callable[[Scheduler, BackendInfo], Budgets] = Budgets,
    ) -> None:
        self._backend = backend
        self._scheduler = scheduler
        self._preparer = preparer
        self._do_clients_report = do_clients_report
        self._waits_for_plan_s, self._second_look_s = waits_for_plan_s, second_look_s
        self._waiting: dict[str, Goal] = {}  # for the rest of their plans, of which their robots have nothing
        self._meter = Meter(stopwatch)
        self._goals: dict[str, Goal] = {}
        self._timed: dict[str, Goal] = {}  # of these, those with a time budget
        self._unpredicted: list[Goal] = []  # predictions of their lengths are in the making
        self._deadlines = Deadlines(scheduler, do_clients_report=do_clients_report)
        self._budgets = budgets(scheduler, backend.info)
        self._replans = Replans(scheduler, max_replans if do_clients_report else 0)
        self._scheduled: SchedulerOutput | None = None  # decided, and not run yet
        self._is_kv_off = False
        self._may_give_up = True  # the step that runs
        self.longest_rehearsal_s = 0.0

    def tell_admissions(self, on_admitted: Callable[[Goal], None]) -> None:
        """Has ``on_admitted`` called with every goal whose time budget is to be kept, as soon as that is decided.

        An event would come too late: behind the step, which the decision lets begin.
        """
        self._budgets.on_admitted = on_admitted

    def let_interrupt(self, is_pressing: Callable[[float], bool]) -> None:
        """Lets steps be given up for what cannot wait for their end, if the backend is able to.

        Not one that a goal with a time budget is part of, nor the one after a step that was given up.

        Args:
            is_pressing: Whether there is such a thing; gets the share of the step that is done.
        """
        if isinstance(self._backend, InterruptibleBackend):
            self._backend.interrupt_by(lambda share: self._may_give_up and is_pressing(share))

    # --- What comes in

    def submit(self, request: PlanRequest, now_s: float) -> list[Event]:
        """Takes a new request; see ``open``."""
        delivered_at_s = (now_s,) * len(request.delivered)
        return self.open(GoalRecord(request=request, arrival_s=now_s, delivered_at_s=delivered_at_s), now_s)

    def open(self, record: GoalRecord, now_s: float) -> list[Event]:
        """Begins a goal, or goes on with one of another process; twice is once.

        Args:
            record: Of a goal that was admitted (``serving.admission``).
            now_s: The time.

        Returns:
            What it caused; if the goal cannot be served, its end, which says why.
        """
        request = record.request
        if request.request_id in self._goals:
            return []
        try:
            request.time_utility.after_ert(1.0)  # its function may be known to another process only
            prepared = self._preparer.prepare(request)
            goal = open_goal(record, prepared, self._scheduler, now_s, expects_reports=self._do_clients_report)
        except PlannerError as error:
            return [_failure(request.request_id, error, request.delivered)]
        self._goals[request.request_id] = goal
        if request.time_budget_s is not None:
            self._timed[request.request_id] = goal
        self._deadlines.watch(goal)
        self._scheduler.add(goal.generation)
        if goal.is_plan_complete:
            self._replans.put_aside(goal)
        self._budgets.open(goal, now_s)
        if goal.awaited_length is not None:
            self._unpredicted.append(goal)
        if goal.execution.has_failed or (request.failures and gives_up(request.failures[-1])):
            return self._replan(goal, request.failures[-1], now_s)
        if prepared.at_once is not None and not record.is_complete:
            return [*self._deliver(goal, prepared.at_once, now_s), *self._conclude(goal, prepared.at_once, now_s)]
        return self._finish_if_done(goal) if goal.is_plan_complete else []

    def cancel(self, request_id: str, code: ErrorCode = ErrorCode.CANCELLED, message: str = "cancelled") -> list[Event]:
        """Ends a goal; none if it has ended already."""
        goal = self._goals.get(request_id)
        return [] if goal is None else [self._end(goal, code, message)]

    def give_up(self, request_id: str, message: str) -> list[Event]:
        """Ends a goal with ENGINE_FAILED, also one that could not be opened, because something unexpected happened."""
        error = PlannerError(ErrorCode.ENGINE_FAILED, message)
        return self.cancel(request_id, error.code, message) or [_failure(request_id, error)]

    def report(self, report: SegmentReport, now_s: float) -> list[Event]:
        """Takes a robot's report of a segment; one that ``ExecutionTracker`` ignores changes nothing."""
        goal = self._goals.get(report.request_id)
        reception = Reception.IGNORED if goal is None else goal.receive(report, now_s)
        if goal is None or reception is Reception.IGNORED:
            return []
        if reception is Reception.FAILED:
            return self._replan(goal, report, now_s)
        self._scheduler.robot_reported(report.request_id, now_s)
        self._deadlines.watch(goal)
        return self._finish_if_done(goal)

    def _replan(self, goal: Goal, failure: SegmentReport, now_s: float) -> list[Event]:
        error = self._replans.receive(goal, failure)
        return self._begin_replans(now_s) if error is None else [self._end(goal, error.code, error.message)]

    def _begin_replans(self, now_s: float) -> list[Event]:
        """Lets plans go on around segments that failed, or ends their goals; not before a decided step has run."""
        events: list[Event] = []
        for goal, error in [] if self._scheduled is not None else self._replans.take(self._goals, now_s):
            if error is None:
                events += self._alone(self._send_held, goal, now_s)
            else:
                events.append(self._end(goal, error.code, error.message))
        return events

    def warm_up(self, requests: Iterable[PlanRequest], num_steps: int = 0) -> None:
        """Loads the shared prefix of each request's robot model, compiles its grammar and runs the model once.

        So no robot waits for what only the first request of its kind needs.

        Args:
            requests: One for each robot model.
            num_steps: Decode steps of each, from which the scheduler learns how long they take, so that even the first
                goal with a time budget gets a sound guarantee or refusal.

        Raises:
            PlannerError: If a request cannot be prepared, or the engine cannot run it.
        """
        for request in requests:
            began_s = self._meter.now_s()
            prepared = self._preparer.prepare(request)
            rehearse(prepared.sequence, self._backend, self._scheduler, num_steps)
            if prepared.length is not None:
                prepared.length.cancel()
            self.longest_rehearsal_s = max(self.longest_rehearsal_s, self._meter.now_s() - began_s)

    # --- One step

    def step(self, now_s: float, clock: Clock | None = None) -> list[Event]:
        """Runs one step, if there is something to run, and returns what came of it.

        Goals whose time is over end, or their plans are closed; the scheduler decides what runs; plans that would be
        late after that are closed before; the backend runs it; its tokens are read, and segments go to their robots;
        plans that have failed on their robots go on another way.

        The step begins when it is decided, and takes the duration that the backend states. What is to be said before
        it is returned at once, and the next call runs it: an end or a closed plan does not wait for a step.

        Args:
            now_s: The time.
            clock: Tells when the step is decided; None if that takes no time, as where time is virtual.
        """
        events = self._keep_time(now_s)
        if self._scheduled is None:
            self._scheduled = self._meter.decide(self._scheduler, now_s)
            events += self._end_unschedulable()
        now_s = now_s if clock is None else clock.now_s()
        for goal in self._deadlines.would_miss(self._timed.values(), self._scheduled, now_s):
            events += self._alone(self._overrun, goal, now_s)
        if events and not self._scheduled.is_empty:
            return events
        scheduled, self._scheduled = self._scheduled, None
        if scheduled.is_empty:
            return events
        self._may_give_up &= not any(map(self._budgets.keeps, scheduled.num_scheduled_tokens))
        output = self._backend.execute(scheduled)
        self._may_give_up = not output.is_given_up
        return self._take(output.step or scheduled, output, now_s + output.duration_s)

    def least_budget_s(self, now_s: float) -> float:
        """Returns what is left of the time budget that ends first; infinite if there is none to keep."""
        return self._budgets.least_left_s(now_s)

    @property
    def has_emergency(self) -> bool:
        """Whether the plan of an urgent goal is being written."""
        return any(g.request.urgency is Urgency.URGENT and not g.is_plan_complete for g in self._goals.values())

    def next_wakeup_s(self, now_s: float) -> float | None:
        """Returns when ``step`` has something to do; None for not before something comes in."""
        wakeup_s = self._scheduler.next_wakeup_s(now_s) if self._scheduled is None else now_s
        times_s = [t for t in (wakeup_s, self._deadlines.next_s) if t is not None]
        return max(now_s, min(times_s)) if times_s else None

    def _keep_time(self, now_s: float) -> list[Event]:
        """Notes predicted lengths, and ends, or closes, the goals that are due."""
        self._take_predicted_lengths()
        events: list[Event] = []
        if self._scheduled is None:  # before the deadlines: what could never be kept is refused, not missed
            events += [self._end(goal, error.code, error.message) for goal, error in self._budgets.keep(now_s)]
            events += [self._shed(self._goals[r], now_s) for r in self._scheduler.shed(now_s, self._budgets.keeps)]
        for goal in self._deadlines.take_due(self._goals, now_s):
            if self._deadlines.is_overrun(goal, now_s):
                events += self._alone(self._overrun, goal, now_s)
            else:
                events.append(self._end(goal, ErrorCode.ROBOT_SILENT, "the robot did not report its segment in time"))
        return events

    def _take_predicted_lengths(self) -> None:
        """Notes the lengths that are predicted by now; by these, policies that look ahead rank."""
        waiting, self._unpredicted = self._unpredicted, []
        for goal in waiting:
            if goal.take_predicted_length():
                self._scheduler.rank_again(goal.generation)
            else:
                self._unpredicted.append(goal)

    def _end_unschedulable(self) -> list[Event]:
        message = "the plan outgrew the KV cache; give the engine more KV blocks"
        unschedulable = [self._goals[request_id] for request_id in self._scheduler.take_unschedulable()]
        return [self._end(goal, ErrorCode.OUT_OF_MEMORY, message) for goal in unschedulable]

    def _take(self, scheduled: SchedulerOutput, output: StepOutput, now_s: float) -> list[Event]:
        """Hands tokens to their sessions, segments to their robots, and all of it to the scheduler."""
        self._meter.count(scheduled, output)
        generations = {g.request_id: g for g in self._scheduler.ran(scheduled)}
        ran = [goal for r in generations if (goal := self._goals.get(r)) is not None]
        ran = [g for g in ran if g.generation is generations[g.request.request_id]]  # not one that came with an old id
        late = [g for g in ran if g.request.time_budget_s is not None and self._deadlines.is_too_late(g, now_s)]
        ran = [goal for goal in ran if not goal.is_plan_complete and goal not in late]  # not one closed meanwhile
        output = output.limited({g.request.request_id: g.generation.num_tokens_left for g in ran})
        progress = {g.request.request_id: g.read(output) for g in ran if not g.execution.has_failed}  # else it is void
        events: list[Event] = []
        for request_id, read in progress.items():
            if read.segments or read.is_complete:
                events += self._alone(self._deliver, self._goals[request_id], read, now_s)
        events += self._send_waiting(now_s)
        segments = Counter(event.request_id for event in events if isinstance(event, SegmentReady))
        self._scheduler.update(scheduled, output, segments, now_s)
        self._check_kv(output)
        for request_id, reason in output.failed.items():
            is_unanswered = request_id in output.unanswered
            code = ErrorCode.SERVER_UNREACHABLE if is_unanswered else ErrorCode.ENGINE_FAILED
            events += self.cancel(request_id, code, reason)
        for request_id, read in progress.items():
            goal = self._goals.get(request_id)
            if goal is not None and (read.is_complete or goal.generation.num_tokens_left <= 0):
                events += self._alone(self._conclude, goal, read, now_s)
        for goal in late:
            if goal.request.request_id in self._goals:
                events += self._alone(self._overrun, goal, now_s)
        return events + self._begin_replans(now_s) if self._replans.waiting else events

    def _alone(self, handle: Callable[..., list[Event]], goal: Goal, *arguments: object) -> list[Event]:
        """Returns what the handling of one goal causes; if it fails unexpectedly, that goal ends, and no other."""
        try:
            return handle(goal, *arguments)
        except Exception as error:  # noqa: BLE001 (whatever it is, no other goal must end)
            _log.exception("goal %s cannot go on", goal.request.request_id)
            return self.give_up(goal.request.request_id, f"the planner failed: {error!r}")

    def _deliver(self, goal: Goal, progress: Progress, now_s: float) -> list[Event]:
        """Sends new segments to the robot, or holds them for now."""
        start_s = max(goal.written_at_s, goal.generation.segment_started_at_s)
        for segment in progress.segments:
            if not goal.is_looked_at_again:  # else nobody knows in how many steps it was written
                self._budgets.lengths.observe_segment(goal, segment)
            took_s = max(0.0, now_s - start_s)  # a backend may have overstated the step before
            goal.hold(replace(segment, generation_time_s=took_s), now_s)
            start_s = now_s
        until_s = self._waits_until_s(goal)
        if progress.error is not None:
            is_due = until_s == -math.inf  # else nothing of a plan that fails is begun
        else:
            is_due = until_s <= now_s or (progress.is_complete and not goal.request.plan_only)
        if is_due:
            return self._send_held(goal, now_s)
        if progress.error is None and until_s < math.inf:
            self._waiting[goal.request.request_id] = goal
        else:
            self._waiting.pop(goal.request.request_id, None)
        return []

    def _waits_until_s(self, goal: Goal) -> float:
        """Returns how long what is written waits for the rest of its plan; -inf if it does not."""
        request = goal.request
        if request.plan_only or not self._scheduler.policy.streams:
            return math.inf
        may_wait = request.urgency is Urgency.NORMAL and request.time_budget_s is None and not goal.is_begun
        return goal.held_since_s + self._waits_for_plan_s if may_wait else -math.inf

    def _send_waiting(self, now_s: float) -> list[Event]:
        """Sends what has waited long enough for the rest of its plan."""
        due = [g for g in self._waiting.values() if not g.execution.has_failed and self._waits_until_s(g) <= now_s]
        return [event for goal in due for event in self._alone(self._send_held, goal, now_s)]

    def _send_held(self, goal: Goal, now_s: float) -> list[Event]:
        self._waiting.pop(goal.request.request_id, None)
        segments, goal.held = goal.held, []
        for segment in segments:
            goal.execution.deliver(segment, now_s)
        if segments:
            self._deadlines.watch(goal)
        return [SegmentReady(goal.request.request_id, segment) for segment in segments]

    def _conclude(self, goal: Goal, progress: Progress, now_s: float) -> list[Event]:
        """Ends the goal, or its generation, if the plan has come to its end; or has another plan written."""
        error = goal.problem(progress)
        instead = None if error is None else goal.look_again(error, now_s, self._second_look_s)
        if instead is not None:
            self._waiting.pop(goal.request.request_id, None)
            self._scheduler.rewrite(goal.request.request_id, instead.token_ids)
            if instead.progress is None:
                return []
            sent = self._deliver(goal, instead.progress, now_s)
            self._scheduler.note_sent(goal.request.request_id, len(sent), now_s)
            return [*sent, *self._conclude(goal, instead.progress, now_s)]
        if error is not None and error.code is ErrorCode.NOT_ACHIEVED and goal.delivered:
            goal.verdict = error  # what the robot has is still carried out
            return self._complete(goal)
        if error is not None:
            before = "".join(segment.text for segment in goal.held)  # which the robot has not
            candidates = tuple(plan for rest in progress.candidates if (plan := before + rest))
            return [self._end(goal, error.code, error.message, candidates)]
        if progress.is_complete and goal.request.plan_only:
            self._budgets.lengths.observe_plan(goal)
            return [self._end(goal, ErrorCode.NONE, "", goal.shown)]
        return self._complete(goal) if progress.is_complete else []

    def _check_kv(self, output: StepOutput) -> None:
        """Says so, once, if the ledger and the engine disagree: a defect, and admission is no longer safe."""
        if output.failed or self._is_kv_off or output.free_kv_blocks == self._scheduler.ledger.free_blocks:
            return
        self._is_kv_off = True
        _log.error("KV: %d blocks free, %d expected", output.free_kv_blocks, self._scheduler.ledger.free_blocks)

    # --- Deadlines and ends

    def _overrun(self, goal: Goal, now_s: float) -> list[Event]:
        """Ends a goal that cannot keep its budget, or closes its plan behind the last whole statement."""
        events: list[Event] = []
        if goal.is_closed_in_time and not self._deadlines.is_too_late(goal, now_s):
            events += self._deliver(goal, goal.truncate(), now_s)
            if goal.request.plan_only and goal.held:
                goal.is_partial = True
                return [*events, self._end(goal, *goal.ending, goal.shown)]
            events += self._send_held(goal, now_s)
        if goal.at_deadline is AtDeadline.IS_CLOSED:
            goal.is_partial = True
            return events + self._complete(goal)
        return [self._end(goal, ErrorCode.BUDGET_EXCEEDED, goal.what_is_late)]

    def _complete(self, goal: Goal) -> list[Event]:
        """Ends the generation, or lays it to rest: nothing will be added to the plan unless a segment fails."""
        goal.is_plan_complete = True
        self._replans.put_aside(goal)
        self._deadlines.watch(goal)  # from now on its robot may fall silent
        self._budgets.lengths.observe_plan(goal)
        complete = PlanComplete(goal.request.request_id, goal.execution.num_delivered, goal.is_partial, goal.verdict)
        return [complete, *self._finish_if_done(goal)]

    def _finish_if_done(self, goal: Goal) -> list[Event]:
        execution = goal.execution
        is_executed = not self._do_clients_report or (execution.is_all_reported and not execution.has_failed)
        if not (goal.is_plan_complete and is_executed):
            return []
        return [self._end(goal, *goal.ending)]

    def _shed(self, goal: Goal, now_s: float) -> Finished:
        """Refuses a goal whose service is worth nothing any more."""
        waited_s = now_s - goal.generation.arrival_s
        message = (
            f"refused after {waited_s:.3g} s in the queue: its time utility has reached zero, and scheduler.sheds_load "
            "is on; send it later, send fewer goals, or give it a longer expected response time"
        )
        return self._end(goal, ErrorCode.LOAD_SHED, message)

    def _end(self, goal: Goal, code: ErrorCode, message: str, candidates: tuple[str, ...] = ()) -> Finished:
        request_id = goal.request.request_id
        self._scheduler.end(request_id)
        self._budgets.close(request_id)
        goal.cancel_prediction()
        self._waiting.pop(request_id, None)
        self._timed.pop(request_id, None)
        del self._goals[request_id]
        return Finished(replace(goal.result(code, message), candidates=candidates))

    # --- The rest

    @property
    def request_ids(self) -> Iterable[str]:
        """Unfinished goals."""
        return tuple(self._goals)

    @property
    def status(self) -> LoopStatus:
        """How busy it is."""
        return count(self._backend.info.model, self._scheduler, len(self._goals))

    def look(self, now_s: float) -> LoopView:
        """Returns a view of its goals and its memory: for people, at their pace, as it walks over all goals."""
        return look(
            self.status, self._scheduler, self._goals.values(), self._deadlines.due_s, self._meter.totals, now_s
        )

    def close(self) -> None:
        """Frees the backend; safe to call twice."""
        self._backend.close()


def _failure(request_id: str, error: PlannerError, segments: Sequence[Segment] = ()) -> Finished:
    """Returns the end of a goal that could not be opened."""
    result = PlanResult(request_id=request_id, error_code=error.code, error_msg=error.message, segments=tuple(segments))
    return Finished(result)
