# SPDX-License-Identifier: Apache-2.0
"""Replays traces in real time: the planner's own server and engine, and robots that live by the clock."""

import heapq
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

from llm_planner.assembly import build_admission, build_loop
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.segment import ReportStatus, Segment, SegmentReport
from llm_planner.serving.child import ChildServer
from llm_planner.serving.child_link import Timeouts
from llm_planner.serving.events import Event, Finished, PlanComplete, SegmentReady
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.loop import PlannerLoop
from llm_planner.serving.replica import Factories
from llm_planner.serving.server import PlanServer
from llm_planner_lab.bench.live_stock import build_stock_loop
from llm_planner_lab.bench.step_log import LoggedBackend, read_log
from llm_planner_lab.bench.survey import segment_texts
from llm_planner_lab.simulation.records import RequestRecord, RunRecord, SegmentTimes
from llm_planner_lab.simulation.simulator import plan_request
from llm_planner_lab.simulation.trace import RequestStep, Trace, TraceRequest

LEAD_S = 0.5
"""Between the start of the clock and the first request."""
POLL_S = 0.2
START_TIMEOUT_S = 600.0


@dataclass(slots=True)
class _Robot:
    """One request: what its robot does and has done. ``texts`` are the segments that the trace expects."""

    row: TraceRequest
    texts: tuple[str, ...]
    record: RequestRecord
    idle_at_s: float
    is_done: bool = False


class LiveReplay:
    """Sends the requests of a trace when they are due, carries segments out, and reports; times count from its start.

    The network delay is added to what goes either way. Times of robots are computed, not waited for, so that a late
    wake-up of this process delays a message at most, and never counts as waiting of a robot. To the planner every
    request comes from a robot of its own: plans of a real model may last longer than the trace expected, and a robot
    may not have two goals.

    Args:
        trace: As the model plans it (``bench.survey``).
        bounds_s: By request id.
        network_latency_s: One way.
    """

    def __init__(self, trace: Trace, bounds_s: Mapping[str, float], network_latency_s: float) -> None:
        self._rows = trace.requests
        self._bounds_s = bounds_s
        self._network_s = network_latency_s
        self._clock = MonotonicClock()
        self._changed = threading.Condition()
        self._robots: dict[str, _Robot] = {}
        self._num_open = len(trace.requests)
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._counter = count()
        self.origin_s = 0.0
        self.num_surprises = 0  # segments that differ from those of the survey

    def run(self, server: PlanServer, on_progress: Callable[[float], None] = lambda _: None) -> list[RequestRecord]:
        """Returns what happened, once every plan is complete or has failed; what robots do then is known."""
        self.origin_s = self._clock.now_s() + LEAD_S
        for row in self._rows:
            self._at(row.time_s + self._network_s, partial(self._submit, server, row))
        while (action := self._next(on_progress)) is not None:
            action()
        return [robot.record for robot in self._robots.values()]

    def receive(self, server: PlanServer, event: Event) -> None:
        """Takes an event of the server, on the server's thread."""
        now_s = self.now_s
        with self._changed:
            robot = self._robots[event.request_id]
            match event:
                case SegmentReady(segment=segment):
                    self._execute(server, robot, segment, now_s)
                case PlanComplete():
                    self._close(robot)
                case Finished(result=result):
                    if self._num_open:  # later ones are of the server's end
                        robot.record.finished_s, robot.record.error_code = now_s, result.error_code
                        self._close(robot)
            self._changed.notify()

    @property
    def now_s(self) -> float:
        """Seconds since the start."""
        return self._clock.now_s() - self.origin_s

    def _at(self, time_s: float, action: Callable[[], object]) -> None:
        heapq.heappush(self._due, (time_s, next(self._counter), action))

    def _next(self, on_progress: Callable[[float], None]) -> Callable[[], object] | None:
        """Returns what is to be done, when it is; None at the end."""
        with self._changed:
            while self._num_open:
                now_s = self.now_s
                on_progress(now_s)
                due_s = self._due[0][0] if self._due else now_s + POLL_S
                if due_s <= now_s:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(min(POLL_S, due_s - now_s))
        return None

    def _submit(self, server: PlanServer, row: TraceRequest) -> None:
        due_s = row.time_s + self._network_s  # counts, not when this thread gets to it: no policy is spared a wait
        record = RequestRecord(
            request_id=row.request_id,
            robot_id=row.robot_id,
            task=row.task,
            urgency=row.urgency,
            time_utility=row.time_utility,
            arrival_s=due_s,
            bound_s=self._bounds_s[row.request_id],
        )
        texts = segment_texts(row)
        with self._changed:
            self._robots[row.request_id] = _Robot(row, texts, record, due_s)
        try:
            server.submit(replace(plan_request(row), robot_id=row.request_id))
        except PlannerError as error:
            with self._changed:
                record.finished_s, record.error_code = self.now_s, error.code
                self._close(self._robots[row.request_id])

    def _close(self, robot: _Robot) -> None:
        if not robot.is_done:
            robot.is_done = True
            self._num_open -= 1

    def _execute(self, server: PlanServer, robot: _Robot, segment: Segment, now_s: float) -> None:
        started_s = max(now_s + self._network_s, robot.idle_at_s)
        duration_s = self._duration_s(robot, segment)
        robot.idle_at_s = started_s + duration_s
        times = SegmentTimes(now_s, started_s, robot.idle_at_s, segment.generation_time_s)
        robot.record.segments.append(times)
        report = SegmentReport(request_id=robot.row.request_id, index=segment.index, status=ReportStatus.STARTED)
        ended = replace(report, status=ReportStatus.SUCCEEDED, duration_s=duration_s)
        self._at(started_s + self._network_s, lambda: server.report(report))
        self._at(robot.idle_at_s + self._network_s, lambda: server.report(ended))

    def _duration_s(self, robot: _Robot, segment: Segment) -> float:
        """Returns the duration that the trace has for this segment; the expected one for a segment it does not have."""
        if segment.index < len(robot.texts) and robot.texts[segment.index] == segment.text:
            return robot.row.durations_s[segment.index]
        self.num_surprises += 1
        return segment.expected.p50_s


@dataclass(frozen=True, slots=True)
class LiveRun:
    """What came of a run, and per request which steps of the engine brought it tokens."""

    record: RunRecord
    request_steps: Mapping[str, tuple[RequestStep, ...]]


def run_live(
    trace: Trace,
    bounds_s: Mapping[str, float],
    config: PlannerConfig,
    on_progress: Callable[[float], None] = lambda _: None,
    stock_policy: str = "",
) -> LiveRun:
    """Returns the run of a trace on the planner of ``config``, which lives in a process of its own as in the node.

    Args:
        trace: As the model plans it.
        bounds_s: By request id.
        config: Of the planner.
        on_progress: Receives the time since the start of the trace.
        stock_policy: If given, vLLM schedules by itself (``live_stock.STOCK_POLICIES``); urgent requests come first
            under its policy ``priority``.

    Raises:
        PlannerError: If the planner cannot start, or its engine fails.
    """
    config = replace(config, max_queued=max(config.max_queued, len(trace.requests)), urgent_share=0.0)
    replay = LiveReplay(trace, bounds_s, config.scheduler.network_latency_s)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "steps.json"
        factory: Callable[[], PlannerLoop] = partial(build_loop, config, watch=partial(LoggedBackend, path))
        if stock_policy:
            priorities = {row.request_id: -1 for row in trace.requests if row.urgency == "urgent"}
            factory = partial(build_stock_loop, config, path, stock_policy, priorities)
        server: ChildServer = ChildServer(
            [Factories(factory)],
            book=GoalBook(build_admission(config), lambda event: replay.receive(server, event)),
            clock=MonotonicClock(),
            timeouts=Timeouts(stop_timeout_s=20.0),
        )
        server.start()
        try:
            server.wait_ready(START_TIMEOUT_S)
            records = replay.run(server, on_progress)
            end_s = replay.now_s
        finally:
            server.close()
        if server.status.num_restarts or not path.is_file():
            raise PlannerError(ErrorCode.ENGINE_FAILED, "the engine was restarted during the run; run it again")
        steps, request_steps = read_log(path, replay.origin_s)
    record = RunRecord(
        requests=records,
        busy_s=sum(step.duration_s for step in steps),
        end_s=end_s,
        num_steps=len(steps),
        steps=steps,
    )
    return LiveRun(record, request_steps)
