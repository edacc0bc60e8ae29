# SPDX-License-Identifier: Apache-2.0
"""The planner's own loop and scheduler in virtual time, with a simulated engine and simulated robots."""

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import accumulate, chain, islice, pairwise, repeat

from llm_planner.core.config import PlannerConfig, SchedulerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest, Urgency
from llm_planner.core.segment import ReportStatus, Segment, SegmentReport, Situation
from llm_planner.language.prose import ProseUnit
from llm_planner.prediction.execution_time import ProfiledTimes
from llm_planner.prediction.profile import Chunk, EngineProfile
from llm_planner.scheduling.policies import decides_by_lengths, make_policy
from llm_planner.scheduling.scheduler import Scheduler
from llm_planner.serving.events import Event, Finished, SegmentReady
from llm_planner.serving.inbox import DeferredTime
from llm_planner.serving.loop import PlannerLoop
from llm_planner_lab.simulation.backend import KVReturn, SimulatedBackend
from llm_planner_lab.simulation.preparer import ScriptPreparer
from llm_planner_lab.simulation.profiled_steps import step_s
from llm_planner_lab.simulation.records import RequestRecord, RunRecord, SegmentTimes, StepTimes
from llm_planner_lab.simulation.script import Script, ScriptLibrary
from llm_planner_lab.simulation.trace import RequestStep, SegmentFailure, Trace, TraceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationConfig:
    """What is simulated.

    Attributes:
        profile: The engine.
        scheduler: Policy, limits and network delay; the same delay applies to the simulated network.
        reuses_prefixes: Whether the static part of a prompt is prefilled once or with every request.
        can_offload: Whether the engine can move KV to host memory.
        keeps_steps: Whether the record holds every step.
        max_replans: How often a plan may go on another way around a segment that failed.
        waits_for_plan_s: As of the planner. Nothing waits in TimelyLLM: the plans of a trace are understood.
    """

    profile: EngineProfile
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    reuses_prefixes: bool = True
    can_offload: bool = True
    keeps_steps: bool = False
    max_replans: int = PlannerConfig().max_replans
    waits_for_plan_s: float = 0.0


class _Kind(IntEnum):
    """What happens; at the same time, the smaller number first."""

    REPORT = 0
    ARRIVAL = 1
    SEGMENT = 2
    EXECUTED = 3


@dataclass(slots=True)
class _Robot:
    """Carries out the segments of one request in order."""

    record: RequestRecord
    row: TraceRequest
    idle_at_s: float = 0.0
    num_failures: int = 0
    num_earlier: int = 0  # segments that do not count in the plan: tried before, void, and replan markers
    awaits_replan: bool = False

    @property
    def next_failure(self) -> SegmentFailure | None:
        """What fails next."""
        return self.row.failures[self.num_failures] if self.num_failures < len(self.row.failures) else None

    def begin_replan(self, index: int) -> None:
        """Goes on behind segment ``index``, which says so, with the one that failed."""
        self.num_earlier = index + 1 - self.row.failures[self.num_failures - 1].segment
        self.awaits_replan = False


class Simulator:
    """Replays a trace in virtual time; the same trace and configuration give the same run, event for event.

    What happens while a step runs is handled when the step has ended, in the order of its own time, as the live server
    does; requests that are not urgent behind all else, with steps in between (``serving.inbox``). The loop's own time
    (``prediction.profile.HostCost``) passes on its one thread, as there.

    Args:
        trace: Requests and how long their robots take.
        config: Engine and scheduler.
        scripts: Compiles plans; shared between runs, it compiles each once.

    Attributes:
        kv_returns: By request, what was done during the generation of each delivered segment so that there was KV.
    """

    def __init__(self, trace: Trace, config: SimulationConfig, scripts: ScriptLibrary) -> None:
        self._network_s = config.scheduler.network_latency_s
        self._host = config.profile.host
        self._transport_s = config.profile.host.transport_s.value
        self._rows = {row.request_id: row for row in trace.requests}
        self._scripts = {row.request_id: _script(row, scripts) for row in trace.requests}
        _check_durations(trace, self._scripts)
        self.backend = SimulatedBackend(
            config.profile,
            lambda request_id: preparer.num_tokens(request_id),  # noqa: PLW0108 (made below)
            lambda request_id: preparer.steps(request_id),  # noqa: PLW0108 (made below)
            reuses_prefixes=config.reuses_prefixes,
            can_offload=config.can_offload,
        )
        policy = make_policy(config.scheduler.policy)
        self._prediction_s = _prediction_s(config)
        times = ProfiledTimes(config.profile)
        self.scheduler = Scheduler(config.scheduler, policy, self.backend.info, times)
        preparer = ScriptPreparer(self._scripts, self._rows, self.backend.load_prefix)
        self.loop = PlannerLoop(
            backend=self.backend,
            scheduler=self.scheduler,
            preparer=preparer,
            max_replans=config.max_replans,
            waits_for_plan_s=config.waits_for_plan_s,
        )
        self.loop.warm_up(plan_request(row) for row in _one_per_prefix(trace))
        self._bound_s = _Bound(config, self._scripts)
        self._robots: dict[str, _Robot] = {}
        self.kv_returns: dict[str, list[KVReturn]] = defaultdict(list)
        self._events: list[tuple[float, _Kind, int, object]] = []
        self._num_events = 0
        self._keeps_steps = config.keeps_steps
        self._stepped_s = math.inf  # since when it may cool
        self._deferred: deque[TraceRequest] = deque()  # behind all that is urgent, as in ``serving.inbox``
        self._deferred_time = DeferredTime()
        self._steps: list[StepTimes] = []
        for row in trace.requests:
            self._push(row.time_s + self._network_s + self._transport_s, _Kind.ARRIVAL, row)

    def run(self) -> RunRecord:
        """Returns what happened, once every goal has ended and every robot is idle."""
        now_s, num_idle_steps = 0.0, 0
        while True:
            now_s = self._handle_until(now_s)
            wakeup_s = self.loop.next_wakeup_s(now_s)
            event_s = self._events[0][0] if self._events else None
            is_due = wakeup_s is not None and wakeup_s <= now_s
            if self._deferred and not (is_due and self._deferred_time.is_up):
                now_s = self._open_deferred(now_s)
                num_idle_steps = 0
                continue
            if wakeup_s is None and event_s is None:
                break
            if wakeup_s is None or (event_s is not None and event_s <= wakeup_s):
                now_s = max(now_s, event_s or 0.0)
                num_idle_steps = 0
                continue
            busy_s = self.backend.busy_s
            self.backend.steps.idle(max(0.0, wakeup_s - self._stepped_s))
            events = self.loop.step(wakeup_s)
            duration_s = self.backend.busy_s - busy_s
            is_idle = wakeup_s == now_s and not (duration_s or events)
            num_idle_steps = num_idle_steps + 1 if is_idle else 0
            now_s = wakeup_s + duration_s
            if duration_s:
                now_s += self._host.around_step_s(self.backend.last_num_seqs)
                now_s += self._prediction_s * self.backend.num_new
            self._stepped_s = now_s
            self._deferred_time.stepped(now_s - wakeup_s)
            if self._keeps_steps and duration_s:
                prompt_tokens, decodes = self.backend.last_step
                self._steps.append(StepTimes(wakeup_s, duration_s, prompt_tokens, decodes))
            self._take(events, now_s)
            if num_idle_steps > 1000:
                raise RuntimeError(f"the loop spins at {now_s} s without getting on")
        return RunRecord(
            requests=tuple(robot.record for robot in self._robots.values()),
            busy_s=self.backend.busy_s,
            end_s=now_s,
            num_steps=self.backend.num_steps,
            steps=tuple(self._steps),
        )

    def _push(self, time_s: float, kind: _Kind, what: object) -> None:
        self._num_events += 1
        heapq.heappush(self._events, (time_s, kind, self._num_events, what))

    def _open_deferred(self, now_s: float) -> float:
        opened_s = self._arrive(self._deferred.popleft(), now_s)
        self._deferred_time.used(opened_s - now_s)
        return opened_s

    def _handle_until(self, now_s: float) -> float:
        """Handles what has happened until now, but for what may be deferred; returns when that is done."""
        while self._events and self._events[0][0] <= now_s:
            time_s, kind, _, what = heapq.heappop(self._events)
            if kind is _Kind.ARRIVAL and isinstance(what, TraceRequest):
                takes_time = self._host.preparation_s(1) > 0.0  # else nobody waits, and all keep their order
                if takes_time and what.urgency != "urgent":
                    self._deferred.append(what)
                else:
                    now_s = self._arrive(what, now_s)
            elif kind is _Kind.REPORT and isinstance(what, SegmentReport):
                events = self.loop.report(what, time_s - self._transport_s)
                has_replan = any(isinstance(event, SegmentReady) for event in events)
                self._take(events, now_s if has_replan else time_s)  # it goes out behind what the last step wrote
            elif kind is _Kind.SEGMENT and isinstance(what, SegmentReady):
                self._execute(what.request_id, what.segment, time_s)
        return now_s

    def _arrive(self, row: TraceRequest, now_s: float) -> float:
        """Makes a request ready; returns when that is done."""
        self.backend.steps.idle(max(0.0, now_s - self._stepped_s))
        now_s += self._host.preparation_s(row.num_static_tokens + row.num_dynamic_tokens)
        now_s += self._host.idle_s.value * self.backend.steps.cold
        self._stepped_s = now_s
        arrival_s = row.time_s + self._network_s
        record = RequestRecord(
            request_id=row.request_id,
            robot_id=row.robot_id,
            task=row.task,
            urgency=row.urgency,
            time_utility=row.time_utility,
            arrival_s=arrival_s,
            bound_s=self._bound_s(row),
        )
        self._robots[row.request_id] = _Robot(record, row, arrival_s)
        self._take(self.loop.submit(plan_request(row), arrival_s), now_s)
        return now_s

    def _take(self, events: list[Event], now_s: float) -> None:
        for event in events:
            if isinstance(event, SegmentReady):
                self._push(now_s + self._transport_s + self._network_s, _Kind.SEGMENT, event)
                self.kv_returns[event.request_id].append(self.backend.take_kv_return(event.request_id))
            elif isinstance(event, Finished):
                record = self._robots[event.request_id].record
                record.finished_s, record.error_code = now_s, event.result.error_code

    def _execute(self, request_id: str, segment: Segment, now_s: float) -> None:
        robot = self._robots[request_id]
        if segment.is_replan:
            robot.begin_replan(segment.index)
        if segment.is_replan or robot.awaits_replan:
            return  # what comes before the replan is void
        started_s = max(now_s, robot.idle_at_s)
        place, failure = segment.index - robot.num_earlier, robot.next_failure
        has_failed = failure is not None and failure.segment == place
        duration_s = failure.duration_s if failure is not None and has_failed else robot.row.durations_s[place]
        robot.idle_at_s = started_s + duration_s
        times = SegmentTimes(now_s - self._network_s, started_s, robot.idle_at_s, segment.generation_time_s)
        robot.record.segments.append(times)
        self._report(started_s, SegmentReport(request_id=request_id, index=segment.index, status=ReportStatus.STARTED))
        ended = SegmentReport(
            request_id=request_id, index=segment.index, status=ReportStatus.SUCCEEDED, duration_s=duration_s
        )
        if failure is not None and has_failed:
            robot.num_failures, robot.awaits_replan = robot.num_failures + 1, True
            situation = Situation(scene=robot.row.scene)
            ended = replace(ended, status=ReportStatus.FAILED, reason=failure.reason, situation=situation)
        self._report(robot.idle_at_s, ended)

    def _report(self, time_s: float, report: SegmentReport) -> None:
        self._push(time_s + self._network_s + self._transport_s, _Kind.REPORT, report)


def _script(row: TraceRequest, scripts: ScriptLibrary) -> Script:
    if row.urgency == "chat":
        return scripts.prose(row.plan, ProseUnit(row.chat_segments), row.segment_tokens)
    return scripts.script(row.robot_model, row.plan, row.segment_tokens, row.start_pose)


def _prediction_s(config: SimulationConfig) -> float:
    """Returns what predicting a length adds to a prompt's first step: nothing where no policy decides by lengths."""
    return config.profile.host.prediction_s.value if decides_by_lengths(config.scheduler.policy) else 0.0


def plan_request(row: TraceRequest) -> PlanRequest:
    """Returns what the robot of a trace's request asked of the planner."""
    return PlanRequest(
        request_id=row.request_id,
        robot_id=row.robot_id,
        robot_model=row.robot_model,
        instruction=row.instruction,
        scene=row.scene,
        urgency=Urgency[row.urgency.upper()],
        time_utility=row.time_utility,
        start_pose=row.start_pose,
    )


def _one_per_prefix(trace: Trace) -> list[TraceRequest]:
    return list({(row.robot_model, row.num_static_tokens): row for row in trace.requests}.values())


class _Bound:
    """The response time of a request that has the engine to itself."""

    def __init__(self, config: SimulationConfig, scripts: Mapping[str, Script]) -> None:
        self._config = config
        self._scripts = scripts
        self._known: dict[tuple[int, int, tuple[RequestStep, ...]], float] = {}

    def __call__(self, row: TraceRequest) -> float:
        profile, limits = self._config.profile, self._config.scheduler
        block_size = profile.block_size
        cached = row.num_static_tokens // block_size * block_size if self._config.reuses_prefixes else 0
        num_tokens = row.num_static_tokens + row.num_dynamic_tokens
        key = (cached, num_tokens, _steps_to(self._scripts[row.request_id].ends[0], row.steps))
        if key not in self._known:
            host = profile.host
            time_s = limits.network_latency_s + 2 * host.transport_s.value + host.preparation_s(num_tokens)
            time_s += _prediction_s(self._config)
            kv_len, around_s = cached, host.around_step_s(1)
            while kv_len < num_tokens:
                chunk = min(limits.max_num_batched_tokens, num_tokens - kv_len)
                time_s += profile.step_s([Chunk(chunk, kv_len)]) + around_s
                kv_len += chunk
            for number, (before, step) in enumerate(pairwise(key[2]), start=1):
                time_s += step_s(profile, [Chunk(step.num_rows, kv_len)]) * profile.first_ratio(number) + around_s
                kv_len += before.num_tokens
            self._known[key] = time_s
        return self._known[key]


def _steps_to(num_tokens: int, steps: Iterable[RequestStep]) -> tuple[RequestStep, ...]:
    """Returns the steps until ``num_tokens`` are written: as told, then one token each."""
    to_come = list(islice(chain(steps, repeat(RequestStep(1, 1))), num_tokens))
    before = accumulate((step.num_tokens for step in to_come), initial=0)
    return tuple(step for step, count in zip(to_come, before, strict=False) if count < num_tokens)


def _check_durations(trace: Trace, scripts: Mapping[str, Script]) -> None:
    for row in trace.requests:
        expected = len(scripts[row.request_id].segments)
        if len(row.durations_s) != expected:
            raise PlannerError(
                ErrorCode.INVALID_CONFIG,
                f"trace: {row.request_id} has {len(row.durations_s)} durations_s but its plan {expected} segments",
            )


def simulate(trace: Trace, config: SimulationConfig, scripts: ScriptLibrary) -> RunRecord:
    """Returns the run of ``trace`` under ``config``."""
    return Simulator(trace, config, scripts).run()
