# SPDX-License-Identifier: Apache-2.0
"""Asks a real model, once and alone, for every plan of a trace: what it writes, how long it is, how fast it comes."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from llm_planner.assembly import build_loop
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Backend, Clock
from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.language.parser import parse
from llm_planner.language.printer import to_text
from llm_planner.language.prose import ProseUnit, split_prose
from llm_planner.robots.library import RobotLibrary
from llm_planner.serving.events import Event, Finished, SegmentReady
from llm_planner.serving.loop import PlannerLoop
from llm_planner_lab.bench.step_log import WatchedBackend, request_steps
from llm_planner_lab.simulation.execution import sample_duration_s
from llm_planner_lab.simulation.simulator import plan_request
from llm_planner_lab.simulation.trace import RequestStep, Trace, TraceRequest

REPEATS = 3
"""How often each plan is asked for: the quickest answer is the bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of one request that had the planner to itself.

    Attributes:
        response_s: From its arrival in the loop to its first segment; infinite if there was none.
        steps: That brought tokens, or the end.
    """

    result: PlanResult
    response_s: float
    steps: tuple[RequestStep, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A trace as a model plans it.

    Attributes:
        trace: The requests that the model can plan, with its plans, their tokens, and how long robots take for them.
        bounds_s: By request id, the response time with the engine to itself, the network included.
        device: What the engine says that it runs on.
        num_unplanned: Requests that were left out because they have no plan, by the name of the error.
    """

    trace: Trace
    bounds_s: Mapping[str, float]
    device: str
    num_unplanned: Mapping[str, int]


def ask_alone(loop: PlannerLoop, request: PlanRequest, clock: Clock) -> Answer:
    """Returns how a loop that has nothing else to do answers one request; robots need not report."""
    arrival_s = clock.now_s()
    response_s = float("inf")
    for event in _events(loop, request, clock):
        if isinstance(event, SegmentReady):
            response_s = min(response_s, clock.now_s() - arrival_s)
        elif isinstance(event, Finished):
            return Answer(result=event.result, response_s=response_s)
    raise PlannerError(ErrorCode.ENGINE_FAILED, f"the planner never answered {request.instruction!r}")


def _events(loop: PlannerLoop, request: PlanRequest, clock: Clock) -> Iterator[Event]:
    yield from loop.submit(request, clock.now_s())
    while (wakeup_s := loop.next_wakeup_s(clock.now_s())) is not None:
        yield from loop.step(max(wakeup_s, clock.now_s()))


def survey(
    trace: Trace, config: PlannerConfig, robots: RobotLibrary, on_progress: Callable[[float], None] = lambda _: None
) -> Survey:
    """Returns the trace as the model of ``config`` plans it, each different request being asked ``REPEATS`` times."""
    streaming = replace(config, waits_for_plan_s=0.0, scheduler=replace(config.scheduler, policy="fcfs_stream"))
    steps: dict[str, list[RequestStep]] = defaultdict(list)

    def see(scheduled: SchedulerOutput, output: StepOutput) -> None:
        for request_id, step in request_steps(scheduled, output):
            steps[request_id].append(step)

    watched: list[WatchedBackend] = []

    def watch(backend: Backend) -> Backend:
        watched.append(WatchedBackend(backend, see))
        return watched[-1]

    loop, clock = build_loop(streaming, do_clients_report=False, watch=watch), MonotonicClock()
    rows = list({_question(row): row for row in trace.requests}.values())
    answers: dict[tuple[object, ...], Answer] = {}
    for number, row in enumerate(rows):
        requests = [replace(plan_request(row), request_id=f"{row.request_id}/{i}") for i in range(REPEATS)]
        best = min((ask_alone(loop, r, clock) for r in requests), key=lambda answer: answer.response_s)
        answers[_question(row)] = replace(best, steps=tuple(steps[best.result.request_id]))
        on_progress((number + 1) / len(rows))
    loop.close()
    planned = [row for row in trace.requests if answers[_question(row)].result.error_code is ErrorCode.NONE]
    codes = (answers[_question(row)].result.error_code for row in trace.requests)
    network_s = config.scheduler.network_latency_s
    return Survey(
        trace=replace(trace, requests=tuple(_as_planned(trace, r, answers[_question(r)], robots) for r in planned)),
        bounds_s={r.request_id: network_s + answers[_question(r)].response_s for r in planned},
        device=watched[0].info.device,
        num_unplanned=Counter(code.name for code in codes if code is not ErrorCode.NONE),
    )


def _question(row: TraceRequest) -> tuple[object, ...]:
    return (row.robot_model, row.instruction, row.scene, row.start_pose)


def _as_planned(trace: Trace, row: TraceRequest, answer: Answer, robots: RobotLibrary) -> TraceRequest:
    """Returns the request with the model's plan.

    A statement that the trace's own plan has in the same place takes the robot as long as the trace says; any other
    takes a sample of the robot model, the same one in every run of this trace.
    """
    segments, metrics = answer.result.segments, answer.result.metrics
    known = dict(zip(enumerate(segment_texts(row)), row.durations_s, strict=False))
    rng = random.Random(f"{trace.name}/{trace.about.get('seed', 0)}/{row.request_id}")
    model = robots.get(row.robot_model)
    if row.urgency == "chat":
        sampled_s = [segment.expected.p50_s for segment in segments]
    else:
        sampled_s = [sum(sample_duration_s(model, s, rng) for s in parse(segment.text)) for segment in segments]
    return replace(
        row.in_steps(answer.steps),
        plan=answer.result.plan,
        num_static_tokens=metrics.num_cached_tokens,
        num_dynamic_tokens=metrics.num_prompt_tokens - metrics.num_cached_tokens,
        durations_s=tuple(known.get((s.index, s.text), sampled_s[s.index]) for s in segments),
        segment_tokens=tuple(segment.num_tokens for segment in segments),
    )


def segment_texts(row: TraceRequest) -> tuple[str, ...]:
    """Returns the segments of a request's plan, as a planner sends them."""
    if row.urgency == "chat":
        return split_prose(row.plan, ProseUnit(row.chat_segments))
    return tuple(to_text(statement) for statement in parse(row.plan))
