# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench overhead``: what it costs to generate a plan in segments instead of at once, on a real engine.

The same plans, one at a time, through the planner's own loop: under a policy that delivers whole plans, and under one
that suspends a generation at every segment boundary and resumes it before the robot is idle (TimelyLLM, section 7.5.1;
by task, as in its Table 4). Robots carry segments out in virtual time, so that only the time of the planner
counts: engine, scheduler, parser. While they move, an engine cools: before it goes on, it really is left idle.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llm_planner.assembly import build_loop
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Backend
from llm_planner.core.request import PlanRequest, PlanResult, Urgency
from llm_planner.core.segment import ReportStatus, SegmentReport
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.serving.events import Event, Finished, PlanComplete, SegmentReady
from llm_planner.serving.loop import PlannerLoop
from llm_planner_lab.bench.idle import COLD_S
from llm_planner_lab.bench.step_log import WatchedBackend
from llm_planner_lab.bench.timely.metrics import quantile
from llm_planner_lab.checkout import commit
from llm_planner_lab.simulation.tasks import TASKS

WHOLE, SEGMENTED = "fcfs", "fcfs_segment"
PUBLISHED = {
    1: (13.7, 3.0),
    2: (24.1, 2.6),
    3: (19.9, 5.6),
    4: (19.9, 2.8),
    5: (16.0, 3.2),
    6: (13.1, 3.7),
    7: (14.4, 4.1),
    8: (14.8, 4.2),
}
"""Table 4 of TimelyLLM: by number of the task, milliseconds and per cent."""


@dataclass(frozen=True, slots=True)
class Generated:
    """One plan: how it ended, and how long the planner was at work on it."""

    result: PlanResult
    wall_s: float
    cpu_s: float


class Stopwatch:
    """Drives one loop with one request at a time; only the time inside of the loop's calls counts.

    Args:
        loop: Of the planner.
        sleep: Waits before a plan goes on, as long as its robot has kept the engine idle, or until it is cold.
    """

    def __init__(self, loop: PlannerLoop, sleep: Callable[[float], None]) -> None:
        self._loop, self._sleep = loop, sleep
        self._now_s = 0.0
        self._wall_s = self._cpu_s = 0.0
        self._idle_s = 0.0  # since the last step
        self._is_complete = False
        self._reports: list[tuple[float, SegmentReport]] = []
        self._busy_until_s = 0.0

    def generate(self, request: PlanRequest) -> Generated:
        """Returns what came of a request whose robot executes and reports without delay of any network."""
        self._wall_s = self._cpu_s = self._idle_s = 0.0
        self._busy_until_s, self._is_complete = self._now_s, False
        result = self._timed(self._loop.submit, request)
        while result is None:
            wakeup_s = self._loop.next_wakeup_s(self._now_s)
            if self._reports and (wakeup_s is None or self._reports[0][0] <= wakeup_s):
                time_s, report = self._reports.pop(0)
                self._pass_until(time_s)
                result = self._timed(self._loop.report, report)
            elif wakeup_s is not None:
                self._pass_until(wakeup_s)
                if self._idle_s and not self._is_complete:
                    self._sleep(min(self._idle_s, COLD_S))
                self._idle_s = 0.0
                result = self._timed(self._loop.step)
            else:
                raise PlannerError(ErrorCode.ENGINE_FAILED, f"the planner never answered {request.instruction!r}")
        self._reports.clear()
        return Generated(result, self._wall_s, self._cpu_s)

    def _pass_until(self, time_s: float) -> None:
        self._idle_s += max(0.0, time_s - self._now_s)
        self._now_s = max(self._now_s, time_s)

    def _timed(self, call: Callable[..., list[Event]], *arguments: object) -> PlanResult | None:
        """Makes a call, which gets the time as its last argument; returns the result of the request if it came."""
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        events = call(*arguments, self._now_s)
        self._cpu_s += time.process_time() - cpu_s
        took_s = time.perf_counter() - wall_s
        self._wall_s += took_s
        self._now_s += took_s
        return self._take(events)

    def _take(self, events: Sequence[Event]) -> PlanResult | None:
        """Lets the robot carry out what came; returns the result if it came too."""
        for event in events:
            self._is_complete |= isinstance(event, PlanComplete)
            if isinstance(event, SegmentReady):
                expected_s = event.segment.expected.p50_s
                started_s = max(self._now_s, self._busy_until_s)
                self._busy_until_s = started_s + expected_s
                started = SegmentReport(
                    request_id=event.request_id, index=event.segment.index, status=ReportStatus.STARTED
                )
                ended = replace(started, status=ReportStatus.SUCCEEDED, duration_s=expected_s)
                self._reports += [(started_s, started), (self._busy_until_s, ended)]
        return next((event.result for event in events if isinstance(event, Finished)), None)


def run_overhead(
    config: PlannerConfig,
    num_repeats: int,
    tasks: Mapping[str, Sequence[PlanRequest]],
    on_progress: Callable[[str, float], None] = lambda _what, _share: None,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Returns the JSON document: seconds for all plans, whole and segmented, and the overhead in every repeat.

    Both ways take turns, and which one begins changes from repeat to repeat, so that a drift of the machine favours
    neither. A first repeat warms up and does not count. No plan is left out because the model was not sure of it, and
    no segment waits for the rest of its plan: while it did, nothing would be suspended.

    Args:
        config: Of the planner; its policy is replaced.
        num_repeats: How often every plan is generated, each way.
        tasks: By name, the requests of each.
        on_progress: Is told what is done, and which share of it.
        sleep: Waits.
    """
    config = replace(config, min_confidence=0.0, waits_for_plan_s=0.0)
    devices: list[str] = []
    steps: Counter[str] = Counter()
    watches = {policy: Stopwatch(_loop(config, policy, devices, steps), sleep) for policy in (WHOLE, SEGMENTED)}
    steps.clear()  # of the warm-up
    requests = [(task, request) for task, ways in tasks.items() for request in ways]
    repeats: list[dict[str, list[Generated]]] = []
    for number in range(num_repeats + 1):
        repeats.append({WHOLE: [], SEGMENTED: []})
        for _, request in requests:
            for policy in (WHOLE, SEGMENTED) if number % 2 else (SEGMENTED, WHOLE):
                again = replace(request, request_id=f"{request.request_id}/{number}")
                repeats[-1][policy].append(watches[policy].generate(again))
        on_progress("whole and segmented plans", (number + 1) / (num_repeats + 1))
    counted = repeats[1:]
    same = [index for index in range(len(requests)) if _is_same(counted, index)]
    if not same:
        raise PlannerError(ErrorCode.INVALID_CONFIG, "no plan came out well and the same both ways: ask another model")
    return {
        "model": config.engine.model,
        "device": devices[0],
        "commit": commit(),
        "policies": {"whole": WHOLE, "segmented": SEGMENTED},
        "num_repeats": num_repeats,
        "idle_s": COLD_S,
        "num_left_out": len(requests) - len(same),
        "num_steps": {policy: steps[policy] / (num_repeats + 1) for policy in (WHOLE, SEGMENTED)},
        **_compared(counted, same),
        "tasks": {
            task: _compared(counted, of_task)
            for task in tasks
            if (of_task := [index for index in same if requests[index][0] == task])
        },
    }


def _compared(repeats: Sequence[dict[str, list[Generated]]], plans: Sequence[int]) -> dict[str, Any]:
    """Returns what some of the plans took, whole and in segments, and by how much longer the latter was."""
    results = [repeats[0][SEGMENTED][index].result for index in plans]
    totals = {
        clock: {policy: [_total_s(repeat[policy], plans, clock) for repeat in repeats] for policy in (WHOLE, SEGMENTED)}
        for clock in ("wall_s", "cpu_s")
    }
    return {
        "num_plans": len(plans),
        "num_segments": sum(len(result.segments) for result in results),
        "num_suspensions": sum(result.metrics.num_suspensions for result in results),
        "num_tokens": sum(result.metrics.num_output_tokens for result in results),
        "total_s": {policy: statistics.median(taken) for policy, taken in totals["wall_s"].items()},
        "overhead_s": _spread([s - w for w, s in zip(*totals["wall_s"].values(), strict=True)]),
        "overhead": {
            clock: _spread([s / w - 1.0 for w, s in zip(*both.values(), strict=True)]) for clock, both in totals.items()
        },
    }


def table2_requests() -> dict[str, list[PlanRequest]]:
    """Returns one request for each way of asking for each task of Table 2 that asks for a plan, by "number title"."""
    return {
        f"{task.number} {task.title}": [
            PlanRequest(
                request_id=f"t{task.number}.{index}",
                robot_id=f"t{task.number}.{index}",
                robot_model=task.robot_model,
                instruction=variant.instruction,
                scene=variant.scene,
            )
            for index, variant in enumerate(task.variants)
        ]
        for task in TASKS.values()
        if task.urgency is not Urgency.CHAT
    }


def _loop(config: PlannerConfig, policy: str, devices: list[str], steps: Counter[str]) -> PlannerLoop:
    """Returns a loop under a policy, without a network; notes what its engine runs on, and counts its steps."""

    def count(_: SchedulerOutput, output: StepOutput) -> None:
        steps[policy] += bool(output.token_ids)

    def look(backend: Backend) -> Backend:
        devices.append(backend.info.device)
        return WatchedBackend(backend, count)

    scheduler = replace(config.scheduler, policy=policy, network_latency_s=0.0)
    return build_loop(replace(config, scheduler=scheduler), watch=look)


def _is_same(repeats: Sequence[dict[str, list[Generated]]], index: int) -> bool:
    """Returns whether a plan came out well, and the same both ways: else the times cannot be compared."""
    results = [repeat[policy][index].result for repeat in repeats for policy in repeat]
    return all(r.error_code is ErrorCode.NONE and r.plan == results[0].plan for r in results)


def _total_s(generated: Sequence[Generated], plans: Sequence[int], clock: str) -> float:
    return sum(float(getattr(generated[index], clock)) for index in plans)


def _spread(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {"median": statistics.median(ordered)} | {f"p{p}": quantile(ordered, p / 100) for p in (10, 90)}
