# SPDX-License-Identifier: Apache-2.0
"""The robot's side of a goal: segments in any order, each run once; reports; what to do when the planner is silent."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum

from llm_planner.core.segment import MAX_AHEAD, BlockEdge, ReportStatus, Segment, SegmentReport, Situation
from llm_planner.core.skill import SkillCall
from llm_planner.language.errors import PlanSyntaxError
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.language.syntax import Closing, If
from llm_planner.robots.driver import SkillDriver, SkillResult, SkillStatus
from llm_planner.robots.duration import expected_duration
from llm_planner.robots.interpreter import ExecutedCall, Interpreter
from llm_planner.robots.model import RobotModel

MOST_OWN_S = 60.0  # that a call of the robot's own may take: one that never ends would keep it from landing
MOST_LATE_S = 30.0
"""How much longer than expected a call of a segment may take. It is the planner's own patience (``silence_timeout_s``),
which a robot that has lost its planner must have of itself."""
AGAIN_S, MOST_AGAIN_S = 1.0, 8.0  # before a stop that failed is repeated: at first, doubled each time, and at most


class ExecutorState(Enum):
    """Life of a goal on the robot."""

    IDLE = "idle"  # no goal yet
    ACTIVE = "active"
    DONE = "done"  # every segment of the plan succeeded
    FAILED = "failed"  # a segment failed, or a reflex or cancel ended the goal


class SegmentExecutor:
    """Executes the segments of one goal at a time. Call ``tick`` often; nothing blocks.

    Segments may come twice, out of order, or late: each index of the current goal runs once, in order, without gaps,
    and nothing of any other goal runs. When the planner is silent while the robot has nothing to do, the silence steps
    of the robot model run, within an open block too, and without a goal. Of a condition that comes in parts, the block
    is run if the condition was true, else it is skipped, segment by segment. The segments of a chat are text that a
    person reads: carrying one out takes its reading time, and the body holds still.

    A call that has not ended ``MOST_LATE_S`` after the longest time that is expected of it is halted and has failed: it
    would keep a robot whose planner is lost from its silence steps for ever. Of a robot that its planner knows to be
    slow, each call is expected to take as many times longer as the planner says of its segment.

    A stop, or a silence step, that fails is not confirmed, and is repeated: until it succeeds, or the first segment of
    a goal that moves, a reflex or a person takes over, and a silence step only as long as the planner is silent. A
    silence step that a reflex or an error cuts short is due again ``MOST_AGAIN_S`` later; after a stop by a person,
    silence counts from that stop.

    Args:
        model: Of the robot.
        driver: Of the robot; used by this object alone.
        report: Gets every report at once; must not block.
        look: Returns what the robot sees, and where it is. When a segment fails, the planner is told, and the robot
            stands until the plan goes on another way. Without it, a segment that fails ends the goal.
        on_unconfirmed: Receives why a stop or a silence step failed, each time; must not block.
    """

    def __init__(
        self,
        model: RobotModel,
        driver: SkillDriver,
        report: Callable[[SegmentReport], None],
        look: Callable[[], Situation] | None = None,
        on_unconfirmed: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._look = look
        self._model = model
        self._driver = driver
        self._report_to = report
        self._on_unconfirmed = on_unconfirmed
        self._own_calls: deque[SkillCall] = deque()  # of reflex, cancel and silence: before any segment
        self._own_call: SkillCall | None = None  # that runs
        self._own_since_s = math.inf
        self._own_failure = ""
        self._again: SkillCall | None = None  # a vital call that failed, to be repeated
        self._again_s, self._pause_s = math.inf, AGAIN_S
        self._reset("", ExecutorState.IDLE, math.inf)  # silence counts from the first tick

    def _reset(self, request_id: str, state: ExecutorState, now_s: float, *, is_chat: bool = False) -> None:
        self._request_id = request_id
        self._state = state
        self._is_chat = is_chat
        self._read_until_s = now_s
        self._interpreter = Interpreter(self._model, self._driver)
        self._waiting: dict[int, Segment] = {}
        self._next_index = 0  # the segment that runs, or will run next
        self._blocks: list[bool] = []  # that are open there: whether their conditions were true
        self._opens_block = False  # the segment that runs
        self._awaits_replan = False  # one has failed: what comes before the replan is void
        self._started_s: float | None = None
        self._pace = 1.0  # how many times longer that segment is expected to take than by the robot model
        self._num_segments: int | None = None
        self._is_partial = False
        self._received_s = now_s
        self._num_silence_steps, self._next_step_s = 0, -math.inf
        if not self.is_unconfirmed:
            self._forget_failure()

    @property
    def state(self) -> ExecutorState:
        """How the goal stands."""
        return self._state

    @property
    def request_id(self) -> str:
        """The goal; empty before the first."""
        return self._request_id

    @property
    def next_missing_index(self) -> int:
        """The first segment that has not come; none before it is taken any more."""
        index = self._next_index
        while index in self._waiting or (index == self._next_index and self._started_s is not None):
            index += 1
        return index

    @property
    def calls(self) -> tuple[ExecutedCall, ...]:
        """All calls of the goal's segments so far; own calls (reflex, cancel, silence) are not among them."""
        return self._interpreter.calls

    @property
    def wants_replan(self) -> bool:
        """Whether the plan ended by asking for a new one."""
        return self._interpreter.wants_replan

    def begin(self, request_id: str, now_s: float, *, is_chat: bool = False) -> None:
        """Starts a new goal. What is left of the one before is halted and forgotten."""
        try:
            self._halt_segment(now_s, "superseded")
        finally:
            self._reset(request_id, ExecutorState.ACTIVE, now_s, is_chat=is_chat)

    def receive(self, now_s: float) -> None:
        """Notes a sign of life from the planner."""
        self._received_s = max(self._received_s, now_s)
        self._num_silence_steps, self._next_step_s = 0, -math.inf

    def add(self, request_id: str, segment: Segment, now_s: float) -> bool:
        """Takes a segment of a goal.

        Returns:
            False if the goal is not the current one or not active, or if the segment has come before or is too far
            ahead: then nothing has changed.
        """
        if not self._is_at(request_id):
            return False
        is_new = segment.index not in self._waiting and segment.index >= self.next_missing_index
        is_near = segment.index < self._next_index + MAX_AHEAD
        self.receive(now_s)
        if not is_new or not is_near:
            return False
        self._waiting[segment.index] = segment
        return True

    def _is_at(self, request_id: str) -> bool:
        return self._state is ExecutorState.ACTIVE and request_id == self._request_id

    @property
    def is_acting(self) -> bool:
        """Whether the robot acts on its own account: reflex, cancel, silence, the end of a partial plan."""
        return self._own_call is not None or bool(self._own_calls)

    @property
    def own_failure(self) -> str:
        """Why the robot's last calls on its own account failed; empty if they did not, or were confirmed later."""
        return self._own_failure

    @property
    def is_unconfirmed(self) -> bool:
        """Whether a stop or a silence step failed, and is to be repeated."""
        return self._again is not None

    def expect(self, request_id: str, num_segments: int, now_s: float, *, is_partial: bool = False) -> bool:
        """Notes that nothing follows the first ``num_segments``; where a partial plan ends, the stop skill holds.

        Returns:
            False if the goal is not the current one or not active: then nothing has changed.
        """
        if not self._is_at(request_id):
            return False
        self.receive(now_s)
        self._num_segments, self._is_partial = num_segments, is_partial
        return True

    def reflex(self, now_s: float, calls: Sequence[SkillCall] = (), reason: str = "reflex") -> None:
        """Halts at once and runs ``calls`` (the model's stop skill if empty); ends the goal, if there is one."""
        was_active = self._state is ExecutorState.ACTIVE
        was_running = self._started_s is not None
        self._end_goal(now_s, calls, reason)
        if was_active and not was_running:
            self._report(ReportStatus.FAILED, 0.0, SkillResult(SkillStatus.FAILED, reason=reason))

    def cancel(self, now_s: float, reason: str = "cancelled") -> None:
        """Halts at once, stops, and ends the goal."""
        if self._state is ExecutorState.ACTIVE:
            self._end_goal(now_s, (), reason)

    def stop(self, now_s: float, reason: str, calls: Sequence[SkillCall] = ()) -> None:
        """Halts at once whatever the robot does, a reflex too, and runs ``calls`` as ``reflex`` does; ends the goal.

        Silence counts from now on: what it called for is not taken up again at once against a person's will.
        """
        self.receive(now_s)
        self._end_goal(now_s, calls, reason)

    def tick(self, now_s: float) -> None:
        """Goes on with whatever is to be done at ``now_s``."""
        self._received_s = min(self._received_s, now_s)
        if self._is_busy_with_own_calls(now_s):
            return
        while self._state is ExecutorState.ACTIVE and self._run_segments(now_s):
            if self.is_acting:  # it stops where a segment failed
                return
        if self._started_s is None and not self.is_acting:
            self._mind_silence(now_s)

    def _run_segments(self, now_s: float) -> bool:
        """Starts or ends one segment; returns False if there is nothing more to do now."""
        if self._started_s is not None:
            result = self._read(now_s) if self._is_chat else self._go_on(now_s)
            if result.status is SkillStatus.RUNNING:
                return False
            self._segment_ended(result, now_s)
            return True
        if self._is_off_the_way():
            return False
        if self._num_segments is not None and self._next_index >= self._num_segments:
            self._state = ExecutorState.DONE
            if self._is_partial:
                self._own_calls.append(SkillCall(self._model.stop_skill))
                self._is_busy_with_own_calls(now_s)
        elif self._next_index in self._waiting:
            self._take_segment(self._waiting.pop(self._next_index), now_s)
            return True
        return False

    def _is_off_the_way(self) -> bool:
        """Skips what is void; returns whether the replan has still to come."""
        while self._awaits_replan and self._next_index in self._waiting:
            self._awaits_replan = not self._waiting.pop(self._next_index).is_replan
            self._next_index += 1
            if self._num_segments is not None and self._num_segments < self._next_index:
                self._num_segments = None  # said of the plan that failed
        return self._awaits_replan

    def _take_segment(self, segment: Segment, now_s: float) -> None:
        """Starts a segment, or skips it: in the block of a condition that was false, or behind the end of the plan."""
        if not self._interpreter.has_ended:
            if all(self._blocks):
                self._start_segment(segment, now_s)
                return
            if segment.block_edge is BlockEdge.OPENS:
                self._blocks.append(False)
            elif segment.block_edge is BlockEdge.CLOSES:
                self._blocks.pop()
        self._report(ReportStatus.SKIPPED)
        self._next_index += 1

    def _start_segment(self, segment: Segment, now_s: float) -> None:
        self._started_s = now_s
        self._report(ReportStatus.STARTED)
        if self._is_chat:
            self._read_until_s = now_s + segment.expected.p50_s
            return
        try:
            self._begin_part(segment, now_s)
        except PlanSyntaxError as error:
            self._segment_ended(SkillResult(SkillStatus.FAILED, reason=str(error)), now_s)

    def _begin_part(self, segment: Segment, now_s: float) -> None:
        """Has the interpreter begin with what a segment says, if text and edge agree.

        Raises:
            PlanSyntaxError: They do not, or the text is no part of a plan.
        """
        self._opens_block = segment.block_edge is BlockEdge.OPENS
        if segment.block_edge is BlockEdge.CLOSES:
            if segment.text != to_text(Closing()) or not self._blocks:
                raise PlanSyntaxError(0, f"{segment.text[:40]!r} closes no block")
            self._blocks.pop()
            self._interpreter.start((), now_s)
            return
        plan = parse(f"{segment.text}{to_text(Closing())}" if self._opens_block else segment.text)
        by_model_s = expected_duration(self._model, plan).p90_s
        self._pace = max(1.0, segment.expected.p90_s / by_model_s) if by_model_s > 0.0 else 1.0
        if not self._opens_block:
            self._interpreter.start(plan, now_s)
            return
        match plan:
            case (If(condition=condition, body=()),):
                self._interpreter.start_condition(condition, now_s)
            case _:
                raise PlanSyntaxError(0, f"{segment.text[:40]!r} opens no block")

    def _go_on(self, now_s: float) -> SkillResult:
        """Goes on with the segment that runs; halts a call that takes far too long."""
        result = self._interpreter.tick(now_s)
        if result.status is not SkillStatus.RUNNING or self._interpreter.running is None:
            return result
        call, since_s = self._interpreter.running
        if now_s - since_s < MOST_LATE_S:
            return result
        most_s = MOST_LATE_S + self._pace * expected_duration(self._model, call).p90_s
        if now_s - since_s < most_s:
            return result
        reason = f"{call.name}: it has not ended after {most_s:.0f} s"
        self._interpreter.halt(now_s, reason)
        return SkillResult(SkillStatus.FAILED, reason=reason)

    def _read(self, now_s: float) -> SkillResult:
        is_read = now_s >= self._read_until_s
        return SkillResult(SkillStatus.SUCCEEDED if is_read else SkillStatus.RUNNING)

    def _segment_ended(self, result: SkillResult, now_s: float) -> None:
        duration_s = 0.0 if self._started_s is None else now_s - self._started_s
        self._started_s = None
        self._received_s = max(self._received_s, now_s)  # silence counts from when the planner could have answered
        if result.status is SkillStatus.SUCCEEDED:
            self._report(ReportStatus.SUCCEEDED, duration_s, result)
            self._next_index += 1
            if self._opens_block:
                self._blocks.append(self._interpreter.is_condition_met)
                self._opens_block = False
            return
        self._blocks.clear()
        self._opens_block = False
        if self._look is None or self._is_chat or result.is_permanent:
            self._report(ReportStatus.FAILED, duration_s, result)
            self._end_goal(now_s, (), result.reason)
            return
        self._report(ReportStatus.FAILED, duration_s, result, self._look())
        self._interpreter.forgive()
        self._next_index, self._awaits_replan = self._next_index + 1, True
        self._own_calls.append(SkillCall(self._model.stop_skill))
        self._is_busy_with_own_calls(now_s)

    def _halt_segment(self, now_s: float, reason: str) -> None:
        """Halts and reports the segment at work, if there is one; it is reported even if the driver cannot halt."""
        if self._started_s is None:
            return
        duration_s, self._started_s = now_s - self._started_s, None
        try:
            if not self._is_chat:
                self._interpreter.halt(now_s, reason)
        finally:
            self._report(ReportStatus.FAILED, duration_s, SkillResult(SkillStatus.FAILED, reason=reason))

    def _end_goal(self, now_s: float, calls: Sequence[SkillCall], reason: str) -> None:
        """Ends the goal before it touches the driver, so that nothing of it runs whatever the driver does."""
        if self._state is ExecutorState.ACTIVE:
            self._state = ExecutorState.FAILED
        self._waiting.clear()
        self._repeat_silence_steps(now_s)
        self._own_calls = deque(calls or (SkillCall(self._model.stop_skill),))
        self._forget_failure()
        self._halt_segment(now_s, reason)
        if self._own_call is not None:
            self._own_call = None
            self._driver.halt(now_s)
        self._is_busy_with_own_calls(now_s)

    def _repeat_silence_steps(self, now_s: float) -> None:
        """Has the silence steps come again that are cut short now, before they have succeeded."""
        cut = {call.name for call in (self._own_call, self._again, *self._own_calls) if call is not None}
        for place, step in enumerate(self._model.silence[: self._num_silence_steps]):
            if step.skill in cut:
                self._num_silence_steps, self._next_step_s = place, now_s + MOST_AGAIN_S
                return

    def _mind_silence(self, now_s: float) -> None:
        steps = self._model.silence[self._num_silence_steps :]
        if steps and now_s - self._received_s >= steps[0].after_s and now_s >= self._next_step_s:
            self._num_silence_steps += 1
            self._own_calls.append(SkillCall(steps[0].skill))
            self._is_busy_with_own_calls(now_s)

    def _is_busy_with_own_calls(self, now_s: float) -> bool:
        self._follow_own_call(now_s)
        if self._again is not None and (self._takes_over or not self._is_vital(self._again)):
            self._forget_failure()  # a goal begins to move, or the planner is back
        is_free = self._started_s is None or self._is_chat
        if self._again is not None and not self.is_acting and is_free and now_s >= self._again_s:
            self._own_calls.append(self._again)
        while self._own_call is None and self._own_calls:
            self._driver.start(self._own_calls[0], now_s)  # where that fails, the call is still to be done
            self._own_call, self._own_since_s = self._own_calls.popleft(), now_s
            self._follow_own_call(now_s)
        return self._own_call is not None

    @property
    def _takes_over(self) -> bool:
        """Whether the first segment of a goal that moves is there, and has not begun."""
        is_moving = self._state is ExecutorState.ACTIVE and not self._is_chat
        return is_moving and self._next_index == 0 and 0 in self._waiting

    def _follow_own_call(self, now_s: float) -> None:
        """Goes on with an own call; once it has failed, says so, and insists on it if it is vital."""
        call = self._own_call
        if call is None:
            return
        result = self._driver.tick(now_s)
        if result.status is SkillStatus.RUNNING:
            if now_s < self._own_since_s + MOST_OWN_S:
                return
            self._driver.halt(now_s)
            result = SkillResult(SkillStatus.FAILED, reason=f"it has not ended after {MOST_OWN_S:g} s")
        self._own_call = None
        if result.status is SkillStatus.FAILED:
            self._own_failure = f"{call.name}: {result.reason}"
        if self._takes_over or not self._is_vital(call):
            return
        if result.status is SkillStatus.SUCCEEDED:
            if self._again is not None:
                self._forget_failure()
            return
        if result.is_permanent and call.name != self._model.stop_skill:
            return
        self._own_failure = f"{self._own_failure}; it is tried again until it succeeds"
        self._again, self._again_s = call, now_s + self._pause_s
        self._pause_s = min(2.0 * self._pause_s, MOST_AGAIN_S)
        self._on_unconfirmed(self._own_failure)

    def _forget_failure(self) -> None:
        self._own_failure, self._again, self._pause_s = "", None, AGAIN_S

    def _is_vital(self, call: SkillCall) -> bool:
        """Returns whether a call stops the robot, or is what the present silence of the planner calls for."""
        steps = self._model.silence[: self._num_silence_steps]
        return call.name in (self._model.stop_skill, *(step.skill for step in steps))

    def _report(
        self,
        status: ReportStatus,
        duration_s: float = 0.0,
        result: SkillResult | None = None,
        situation: Situation | None = None,
    ) -> None:
        is_silent = self._is_chat or status in (ReportStatus.STARTED, ReportStatus.SKIPPED)
        self._report_to(
            SegmentReport(
                request_id=self._request_id,
                index=self._next_index,
                status=status,
                duration_s=duration_s,
                value=result.value if result else None,
                reason=result.reason if result else "",
                situation=situation,
                is_permanent=result.is_permanent if result else False,
                enters_block=self._opens_block and self._interpreter.is_condition_met,
                said=() if is_silent else self._interpreter.said,
            )
        )
