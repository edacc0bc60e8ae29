# SPDX-License-Identifier: Apache-2.0
"""One robot and one planner in virtual time: the loop, the executor and a kinematic robot, whatever fails."""

from dataclasses import dataclass, field, replace

from llm_planner.core.interfaces import Backend, Clock
from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.core.segment import ReportStatus, SegmentReport, Situation
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.robots.executor import ExecutorState, SegmentExecutor
from llm_planner.robots.interpreter import ExecutedCall
from llm_planner.robots.perception import visible
from llm_planner.serving.events import Event, Finished, SegmentReady
from llm_planner.serving.loop import PlannerLoop
from llm_planner.sim.kinematics import KinematicDriver

NETWORK_S = 0.008
POLL_S = 0.25
MOST_S = 3600.0


class CountingBackend:
    """A backend that counts how many tokens go through the model, and how long its steps take.

    Args:
        backend: Runs the steps.
        clock: Times them in the backend's place; None to believe what it says.
    """

    def __init__(self, backend: Backend, clock: Clock | None = None) -> None:
        self._backend, self._clock = backend, clock
        self.info, self.load_prefix, self.close = backend.info, backend.load_prefix, backend.close
        self.num_tokens, self.busy_s = 0, 0.0

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        """Runs one step and returns its tokens."""
        start_s = self._clock.now_s() if self._clock else 0.0
        output = self._backend.execute(scheduled)
        if self._clock:
            output = replace(output, duration_s=self._clock.now_s() - start_s)
        self.num_tokens += sum(scheduled.num_scheduled_tokens.values())
        self.busy_s += output.duration_s
        return output


@dataclass(slots=True, kw_only=True)
class Attempt:
    """What became of one request.

    Attributes:
        result: How it ended.
        failed_at_s: When segments failed.
        num_tokens_then: How many tokens had been computed by then.
        went_on_at_s: Per failure, when the next segment to be carried out reached the robot; None for never.
        num_tokens_on: How many tokens had been computed by then.
    """

    result: PlanResult | None = None
    failed_at_s: list[float] = field(default_factory=list)
    num_tokens_then: list[int] = field(default_factory=list)
    went_on_at_s: list[float | None] = field(default_factory=list)
    num_tokens_on: list[int] = field(default_factory=list)

    def fail(self, now_s: float, num_tokens: int) -> None:
        """Notes that a segment failed."""
        self.failed_at_s.append(now_s)
        self.num_tokens_then.append(num_tokens)
        self.went_on_at_s.append(None)
        self.num_tokens_on.append(num_tokens)

    def go_on(self, now_s: float, num_tokens: int) -> None:
        """Notes that another segment has come."""
        if self.went_on_at_s and self.went_on_at_s[-1] is None:
            self.went_on_at_s[-1], self.num_tokens_on[-1] = now_s, num_tokens


class Field:
    """A robot that carries out what a planner's loop sends it. Steps take the time that the backend states.

    Args:
        loop: Of the planner; its robots report.
        backend: The loop's.
        driver: Of the robot.
    """

    def __init__(self, loop: PlannerLoop, backend: CountingBackend, driver: KinematicDriver) -> None:
        self.now_s = 0.0
        self._loop = loop
        self._backend = backend
        self._driver = driver
        self._reports: list[SegmentReport] = []
        self._executor = SegmentExecutor(driver.model, driver, self._reports.append, self.look)

    def look(self) -> Situation:
        """Returns what the robot sees, and where it is."""
        state, objects = self._driver.state, self._driver.world.objects.values()
        views = visible(self._driver.model.camera, state.pose, objects, self.now_s)
        return Situation(scene=", ".join(view.object.name for view in views), pose=state.pose)

    def carry_out(self, request: PlanRequest, since: tuple[float, int] | None = None) -> Attempt:
        """Returns what became of a request, once it has ended.

        Args:
            request: Of the robot.
            since: When a segment of an attempt before has failed, and how many tokens had been computed by then.
        """
        attempt = Attempt()
        if since is not None:
            attempt.fail(*since)
            self.now_s += NETWORK_S
        self._executor.begin(request.request_id, self.now_s)
        self._take(self._loop.submit(request, self.now_s), attempt)
        end_s = self.now_s + MOST_S
        while attempt.result is None and self.now_s < end_s:
            self._executor.receive(self.now_s)
            self._executor.tick(self.now_s)
            while self._reports:
                self._tell(self._reports.pop(0), attempt)
            wakeup_s = self._loop.next_wakeup_s(self.now_s)
            if wakeup_s is not None and wakeup_s <= self.now_s:
                busy_s, events = self._backend.busy_s, self._loop.step(self.now_s)
                self.now_s += self._backend.busy_s - busy_s
                self._take(events, attempt)
                continue
            times_s = [t for t in (wakeup_s, self._driver.end_s) if t is not None and t > self.now_s]
            self.now_s = min([*times_s, self.now_s + POLL_S])
        self._executor.cancel(self.now_s)
        return attempt

    def come_to_rest(self) -> None:
        """Lets the robot end what it does by itself."""
        while self._executor.is_acting:
            self.now_s = self._driver.end_s or self.now_s + POLL_S
            self._executor.tick(self.now_s)

    def _tell(self, report: SegmentReport, attempt: Attempt) -> None:
        if report.status is ReportStatus.FAILED:
            attempt.fail(self.now_s, self._backend.num_tokens)
        self.now_s += NETWORK_S
        self._take(self._loop.report(report, self.now_s), attempt)

    def _take(self, events: list[Event], attempt: Attempt) -> None:
        for event in events:
            if isinstance(event, SegmentReady):
                self._receive(event, attempt)
            elif isinstance(event, Finished):
                attempt.result = event.result
                if self._executor.state is ExecutorState.ACTIVE and not event.result.error_code:
                    self._executor.expect(event.result.request_id, len(event.result.segments), self.now_s)
                    self._executor.tick(self.now_s)

    def _receive(self, event: SegmentReady, attempt: Attempt) -> None:
        self._executor.add(event.request_id, event.segment, self.now_s)
        if not event.segment.is_replan:
            attempt.go_on(self.now_s, self._backend.num_tokens)

    @property
    def calls(self) -> tuple[ExecutedCall, ...]:
        """All calls of the latest request."""
        return self._executor.calls
