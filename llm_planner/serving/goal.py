# SPDX-License-Identifier: Apache-2.0
"""One unfinished goal in the loop: its plan, its generation, and the robot that carries it out."""

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from llm_planner.core.errors import ACHIEVED, ErrorCode, PlannerError
from llm_planner.core.request import AtDeadline, PlanMetrics, PlanRequest, PlanResult, Urgency
from llm_planner.core.segment import BlockEdge, ExpectedDuration, Segment, SegmentReport
from llm_planner.core.step import StepOutput
from llm_planner.planning.second_look import Instead, SecondLook
from llm_planner.planning.session import Progress
from llm_planner.prediction.length import LengthDistribution
from llm_planner.scheduling.budget import Measure
from llm_planner.scheduling.execution_tracker import ExecutionTracker, Reception
from llm_planner.scheduling.generation import Generation
from llm_planner.scheduling.robot_pace import RobotPace
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.awaited_length import AwaitedLength
from llm_planner.serving.goal_record import GoalRecord
from llm_planner.serving.preparation import Prepared, Replan, Session

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class Goal:
    """The loop's record of a request.

    Attributes:
        held: Segments that were written and not sent: they wait for what follows, or are only shown (``plan_only``).
        held_since_s: When the first of these was written.
        written_at_s: When the last segment was written.
        is_plan_complete: Whether nothing will be added to the plan.
        is_partial: Whether that is so because it was closed to keep its time budget.
        verdict: Why the plan says itself that the task cannot be achieved; what was delivered is still carried out.
        stop_skill: Of the robot model: a plan that only stops behind a failure has given up.
        length: Predicted, as far as it is known.
        awaited_length: The prediction, while it is still in the making.
        predicted_time_s: From the arrival to what the budget covers, by the first decision about it.
        wcet_s: The same at the worst.
        measures: What was done to keep the budget.
        failures: What the robot said of segments that failed, after each of which the planner replanned.
        pace: Of robots: how much slower than its model this one is.
        nominal: Per segment, how long it takes by the model of the robot.
        num_delivered_tokens: Tokens of the plan that count as written before a restart of the engine.
        begin_replan: As it was prepared (``preparation.Prepared``).
        refused_since_s: Since when other plans are looked for.
    """

    request: PlanRequest
    session: Session
    generation: Generation
    execution: ExecutionTracker
    held: list[Segment] = field(default_factory=list)
    held_since_s: float = -math.inf
    written_at_s: float = -math.inf
    is_plan_complete: bool = False
    is_partial: bool = False
    verdict: PlannerError | None = None
    stop_skill: str = ""
    length: LengthDistribution | None = None
    awaited_length: AwaitedLength | None = None
    predicted_time_s: float | None = None
    wcet_s: float | None = None
    measures: tuple[str, ...] = ()
    failures: list[SegmentReport] = field(default_factory=list)
    pace: RobotPace = field(default_factory=RobotPace)
    nominal: dict[int, ExpectedDuration] = field(default_factory=dict)
    num_delivered_tokens: int = 0
    begin_replan: Callable[[PlanRequest], Replan] | None = None
    refused_since_s: float = math.inf

    def take_predicted_length(self, *, waits: bool = False) -> bool:
        """Takes over how long the plan will be, if that is predicted by now; returns whether nothing is awaited.

        Args:
            waits: Until it is predicted.
        """
        awaited = self.awaited_length
        if awaited is None or not (waits or awaited.is_here):
            return awaited is None
        self.length, self.awaited_length = awaited.wait(), None
        if self.length is not None:
            self.generation.output_interval = self.length.interval()
        return True

    def cancel_prediction(self) -> None:
        """Takes back the prediction of its length, if it is awaited."""
        if self.awaited_length is not None:
            self.awaited_length.cancel()
            self.awaited_length = None

    def replay(self, record: GoalRecord, now_s: float) -> None:
        """Catches up with what happened until now: deliveries and reports in the order of their times.

        A report of a segment comes after its delivery, also where the clock shows the same time for both.
        """
        reports = deque(record.reports)
        for segment, delivered_at_s in zip(record.segments, record.delivered_at_s, strict=True):
            while reports and reports[0][0] <= delivered_at_s and reports[0][1].index < segment.index:
                received_at_s, report = reports.popleft()
                self.execution.report(report, received_at_s)
            self.execution.deliver(segment, delivered_at_s)
        for received_at_s, report in reports:
            self.execution.report(report, received_at_s)
        self.generation.num_segments = self.execution.num_delivered
        self.generation.robot_idle_at_s = self.execution.idle_at_s(now_s)

    @property
    def delivered(self) -> tuple[Segment, ...]:
        """Segments that went to the robot, those from before a restart included."""
        return self.execution.segments

    def hold(self, segment: Segment, now_s: float) -> None:
        """Takes a segment that has just been written."""
        if not self.held:
            self.held_since_s = now_s
        self.held.append(segment)
        self.written_at_s = now_s

    @property
    def is_begun(self) -> bool:
        """Whether the robot has something of the plan, or of the one that goes on around a failure."""
        return bool(self.delivered) and not self.delivered[-1].is_replan

    @property
    def shown(self) -> tuple[str, ...]:
        """The plan of a goal that only shows it, as the candidates of its result."""
        return ("".join(segment.text for segment in self.held),)

    @property
    def is_capped(self) -> bool:
        """Whether its budget is kept with a token cap."""
        return Measure.TOKEN_CAP.value in self.measures

    @property
    def is_closed_in_time(self) -> bool:
        """As ``PlanRequest.closes_in_time``."""
        return self.request.closes_in_time(is_capped=self.is_capped)

    @property
    def at_deadline(self) -> AtDeadline:
        """What happens to it when its time budget is over."""
        return self.request.at_deadline(self.execution.num_delivered, is_capped=self.is_capped)

    @property
    def budget_ends_at_s(self) -> float | None:
        """When the time budget is over; None if there is none, or what it covers has been delivered."""
        arrival_s, num_segments = self.generation.arrival_s, self.execution.num_delivered
        return self.request.budget_ends_at_s(arrival_s, num_segments, self.is_plan_complete)

    def read(self, output: StepOutput) -> Progress:
        """Returns what a step's tokens, and the end of the generation if it came, mean for the plan.

        A plan that cannot be read ends, and no other.
        """
        request_id = self.request.request_id
        try:
            progress = self.session.feed(output.token_ids.get(request_id, ()), output.choices.get(request_id, ()))
            if not progress.is_complete and request_id in output.finished:
                end = self.session.finish()
                progress = replace(end, segments=(*progress.segments, *end.segments))
            return self._at_its_pace(progress) if progress.segments else progress
        except Exception as error:  # noqa: BLE001 (whatever it is, no other goal must end)
            _log.exception("the plan of goal %s cannot be read", request_id)
            failure = PlannerError(ErrorCode.ENGINE_FAILED, f"the plan cannot be read: {error!r}")
            return Progress(error=failure, is_complete=True)

    def look_again(self, error: PlannerError, now_s: float, max_time_s: float) -> Instead | None:
        """Returns what there is instead of a plan of which the robot has nothing; None if nothing else is looked for.

        Args:
            error: Why it must not be executed.
            now_s: The time.
            max_time_s: For how long other plans may be looked for.
        """
        if not isinstance(self.session, SecondLook) or self.is_begun or max_time_s <= 0.0:
            return None
        self.refused_since_s = min(self.refused_since_s, now_s)
        instead = self.session.instead(error, may_write=now_s - self.refused_since_s < max_time_s)
        if instead is not None:
            self.held = []
        if instead is None or instead.progress is None or not instead.progress.segments:
            return instead
        return replace(instead, progress=self._at_its_pace(instead.progress))

    @property
    def is_looked_at_again(self) -> bool:
        """Whether other plans were, or are, looked for."""
        return self.refused_since_s < math.inf

    @property
    def can_truncate(self) -> bool:
        """Whether closing its plan now would add a segment; a first segment that is asked for is never cut."""
        return self.request.has_whole_plan_budget and self.session.is_closable

    def truncate(self) -> Progress:
        """Leads its plan to the end, at its last safe moment and not before; returns what that adds.

        The model is not asked. What it wrote behind the last whole statement is void (no number is ever shortened, no
        loop is cut), and the blocks of conditions that are open there end there. This takes no step, whatever the
        backend. A plan that is whole by then is never another. If this adds something, the goal's measures say so.

        Deviation: no mask steers the model before. A cap that is known early could forbid what does not fit any more,
        and the model would write something else, which is another plan. Only a beginning of its own plan does what was
        meant, and with that rule a mask can deliver no more than this does; it could save the steps of a statement
        that does not get whole (docs/benchmarks/timebill.md counts them).
        """
        progress = self._at_its_pace(self.session.close()) if self.can_truncate else Progress()
        if progress.segments:
            self.measures = (*self.measures, Measure.GRACEFUL_TRUNCATION.value)
        return progress

    def _at_its_pace(self, progress: Progress) -> Progress:
        """Returns progress whose segments have the time that this very robot takes."""
        if self.request.urgency is Urgency.CHAT:
            return progress
        self.nominal |= {segment.index: segment.expected for segment in progress.segments}
        robot_id, pace = self.request.robot_id, self.pace
        segments = (replace(s, expected=pace.scaled(robot_id, s.expected)) for s in progress.segments)
        return replace(progress, segments=tuple(segments))

    def receive(self, report: SegmentReport, now_s: float) -> Reception:
        """Takes the robot's word on a segment."""
        reception = self.execution.report(report, now_s)
        nominal = (
            self.nominal.pop(report.index, None) if reception is Reception.ACCEPTED and report.measured_s else None
        )
        if nominal is not None:
            self.pace.observe(self.request.robot_id, nominal, report)
        return reception

    @property
    def story(self) -> str:
        """What went wrong on the way and was replanned; empty if nothing was."""
        if not self.failures:
            return ""
        number = len(self.failures)
        what = "; ".join(f"{self.delivered[f.index].text} ({f.reason or 'no reason given'})" for f in self.failures)
        return f"replanned {number} {'time' if number == 1 else 'times'}, because this failed: {what}"

    @property
    def has_given_up(self) -> bool:
        """Whether the plan that follows the last failure does nothing, or ends by stopping the robot."""
        if not self.failures or self.is_partial:
            return False
        last = next(s for s in reversed(self.delivered) if s.block_edge is not BlockEdge.CLOSES)
        return last.is_replan or (bool(last.calls) and last.calls[-1].name == self.stop_skill)

    @property
    def ending(self) -> tuple[ErrorCode, str]:
        """How it ends once its plan, as far as there is one, is carried out: the code and what there is to say."""
        if self.verdict is not None:
            return self.verdict.code, "; ".join(filter(None, (self.verdict.message, self.story)))
        if self.has_given_up:
            return ErrorCode.NOT_ACHIEVED, f"{self.story}; the new plan only stops"
        if not self.is_partial:
            return ErrorCode.NONE, self.story
        what, num_segments = "the plan was closed", self.execution.num_delivered + len(self.held)
        if Measure.GRACEFUL_TRUNCATION.value in self.measures:
            what += f" within the condition of segment {num_segments - 1}, behind a whole statement,"
        what += f" to keep its budget of {self.request.time_budget_s} s"
        return ErrorCode.PLAN_PARTIAL, f"{what}; segments: {num_segments}; ask again for the rest"

    def problem(self, progress: Progress) -> PlannerError | None:
        """Returns why its plan cannot go on behind ``progress``; None if it can, or is complete."""
        if progress.error is not None or progress.is_complete or self.generation.num_tokens_left > 0:
            return progress.error
        generation, is_replanned = self.generation, bool(self.failures)
        num_tokens = generation.num_output_tokens + generation.num_earlier_tokens + self.num_delivered_tokens
        message = f"the plan{' and its replans' if is_replanned else ''} had {num_tokens} tokens and no end; "
        if num_tokens >= self.request.max_tokens:
            message += "raise max_tokens"
        else:
            message += (
                "there is no room for more; shorten the scene, or give the engine more KV blocks or a longer context"
            )
        return _truncated(message)

    @property
    def what_is_late(self) -> str:
        """What there was none of within its time budget."""
        what = "no complete plan" if self.request.has_whole_plan_budget else "no segment"
        return f"{what} within {self.request.time_budget_s} s"

    def result(self, error_code: ErrorCode, error_msg: str) -> PlanResult:
        """Returns how it ended."""
        return PlanResult(
            request_id=self.request.request_id,
            error_code=error_code,
            error_msg=error_msg,
            segments=self.delivered,
            metrics=self._metrics(is_achieved=error_code in ACHIEVED),
        )

    def _metrics(self, *, is_achieved: bool) -> PlanMetrics:
        """Returns the times and counts defined in docs/metrics.md."""
        generation = self.generation
        metrics = PlanMetrics(
            waiting_time_s=self.execution.waiting_time_s(),
            execution_time_s=self.execution.execution_time_s(),
            num_prompt_tokens=generation.num_prompt_tokens - generation.num_own_prompt_tokens,
            num_cached_tokens=generation.sequence.num_cached_tokens,
            num_output_tokens=generation.num_output_tokens + generation.num_earlier_tokens,
            num_suspensions=generation.num_suspensions,
            num_replans=len(self.failures),
            num_inserted_tokens=generation.num_inserted_tokens,
            confidence=self.session.confidence,
            predicted_time_s=self.predicted_time_s,
            wcet_s=self.wcet_s,
            eviction_ratio=generation.eviction_ratio,
            measures=self.measures,
            predicted_output_tokens=None if self.length is None else round(self.length.expected_tokens),
        )
        delivery_s, action_s = self.execution.delivery_s, self.execution.first_action_s
        if delivery_s is None or action_s is None:
            return metrics
        response_time_s, plan_time_s = (time_s - generation.arrival_s for time_s in delivery_s)
        return replace(
            metrics,
            response_time_s=response_time_s,
            time_utility=self.request.time_utility(action_s - generation.arrival_s) if is_achieved else 0.0,
            plan_time_s=plan_time_s if self.is_plan_complete else None,
        )


def open_goal(
    record: GoalRecord, prepared: Prepared, scheduler: Scheduler, now_s: float, *, expects_reports: bool
) -> Goal:
    """Returns the goal of a record, with a generation, a robot to follow, and all that happened before.

    Args:
        record: What was asked, and what happened to it in other engine processes.
        prepared: The same, ready.
        scheduler: Holds the KV ledger.
        now_s: The time.
        expects_reports: Whether the robot reports its segments.

    Raises:
        PlannerError: PROMPT_TOO_LONG if there is no room for a plan behind the prompt; PLAN_TRUNCATED if what was
            delivered has all the tokens that the plan may have, and is not complete.
    """
    request, sequence = record.request, prepared.sequence
    if sequence.prefix_id is not None:
        scheduler.ledger.pin_prefix(sequence.prefix_id, sequence.num_cached_tokens)
    room_tokens = scheduler.most_tokens(sequence) - len(sequence.prompt_token_ids)
    if room_tokens < 1:
        raise PlannerError(
            ErrorCode.PROMPT_TOO_LONG,
            f"the prompt has {len(sequence.prompt_token_ids)} tokens and leaves no room for a plan; shorten the "
            "scene or give the engine more KV blocks",
        )
    num_left = request.max_tokens - prepared.num_delivered_tokens
    is_plan_complete = record.is_complete or prepared.session.is_complete
    if num_left < 1 and not is_plan_complete:
        raise _truncated(f"the plan had {prepared.num_delivered_tokens} tokens and no end; raise max_tokens")
    execution = ExecutionTracker(record.arrival_s, scheduler.config.network_latency_s, expects_reports=expects_reports)
    goal = Goal(
        request=request,
        session=prepared.session,
        generation=Generation(
            request=request,
            sequence=sequence,
            arrival_s=record.arrival_s,
            execution=execution,
            max_output_tokens=min(room_tokens, max(1, num_left)),  # a plan that is complete takes none
        ),
        execution=execution,
        is_plan_complete=is_plan_complete,
        is_partial=record.is_partial,
        verdict=record.verdict,
        awaited_length=prepared.length,
        pace=scheduler.robots,
        num_delivered_tokens=prepared.num_delivered_tokens,
        begin_replan=prepared.begin_replan,
        stop_skill=prepared.stop_skill,
        failures=list(request.failures[: sum(segment.is_replan for segment in request.delivered)]),
    )
    if request.delivered:
        goal.replay(record, now_s)
    return goal


def _truncated(message: str) -> PlannerError:
    return PlannerError(ErrorCode.PLAN_TRUNCATED, message)
