# SPDX-License-Identifier: Apache-2.0
"""Measures what the planner's own process takes around the engine: the ``host`` part of an engine profile."""

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from llm_planner.assembly import build_loop
from llm_planner.core.config import PlannerConfig
from llm_planner.core.request import PlanRequest
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.prediction.fit import measured, nonnegative_fit
from llm_planner.prediction.profile import HostCost
from llm_planner.serving.events import SegmentReady
from llm_planner.serving.loop import PlannerLoop
from llm_planner_lab.bench.server import NO_STEP_S, build_fake_loop, measure_overhead, overhead_request
from llm_planner_lab.bench.step_log import WatchedBackend

POLICY = "tardiness"
"""Decisions of a policy that weighs utility against time cost more than those of the others."""
BATCH_SIZES = (1, 2, 4, 8, 16)
SCENE_SIZES = (0, 8, 32)
"""Objects in the scene: prompts of different lengths."""
COLD_S = 0.3
"""An idle time behind which all is cold."""
LONG_S = 600.0
"""A time budget that asks for nothing but a prediction."""
NUM_STEPS = 40
"""Most steps of one batch that are measured."""


@dataclass(slots=True)
class _Watch:
    """What the last step was, and all lengths of prompts."""

    duration_s: float = 0.0
    num_seqs: int = 0
    prompt_tokens: dict[str, int] = field(default_factory=dict)

    def see(self, scheduled: SchedulerOutput, output: StepOutput) -> None:
        """Notes a step."""
        self.duration_s, self.num_seqs = output.duration_s, len(scheduled.num_scheduled_tokens)
        self.prompt_tokens |= {s.request_id: len(s.prompt_token_ids) for s in scheduled.new}


def measure_host(config: PlannerConfig, num_repeats: int) -> HostCost:
    """Returns the cost of preparing a request, of the loop around a step, of the way between processes, and of lengths.

    Args:
        config: Of the planner whose model and robots are used.
        num_repeats: How often each batch size and prompt length is measured.
    """
    preparations, steps = _loop_times_s(config, num_repeats)
    prepare_s, prepare_per_token_s = nonnegative_fit(
        [(1.0, float(tokens)) for tokens in preparations], list(preparations.values())
    )
    step_s, per_sequence_s = nonnegative_fit([(1.0, float(size)) for size in steps], list(steps.values()))
    return HostCost(
        prepare_s=measured(prepare_s),
        prepare_per_token_s=measured(prepare_per_token_s),
        step_s=measured(step_s),
        step_per_sequence_s=measured(per_sequence_s),
        transport_s=measured(_transport_s(20 * num_repeats)),
        prediction_s=measured(_prediction_s(config, num_repeats)),
        idle_s=measured(_idle_s(3 * num_repeats)),
    )


def _loop_times_s(config: PlannerConfig, num_repeats: int) -> tuple[dict[int, float], dict[int, float]]:
    """Returns median seconds per prompt length for a submission, and per number of sequences around a step."""
    watch = _Watch()
    scheduler = replace(config.scheduler, policy=POLICY, max_num_seqs=max(BATCH_SIZES))
    loop = build_loop(
        replace(config, scheduler=scheduler), do_clients_report=False, watch=lambda b: WatchedBackend(b, watch.see)
    )
    prepared_s: dict[str, float] = {}
    steps: dict[int, list[float]] = defaultdict(list)
    for number in range(num_repeats):
        for size in BATCH_SIZES:
            for index in range(size):
                request = _request(f"{number}/{size}/{index}", SCENE_SIZES[index % len(SCENE_SIZES)])
                began_s = time.perf_counter()
                loop.submit(request, began_s)
                prepared_s[request.request_id] = time.perf_counter() - began_s
            for num_seqs, around_s in _steps(loop, watch):
                steps[num_seqs].append(around_s)
            for request_id in loop.request_ids:
                loop.cancel(request_id)
    loop.close()
    preparations: dict[int, list[float]] = defaultdict(list)
    for request_id, took_s in prepared_s.items():
        if request_id in watch.prompt_tokens:
            preparations[watch.prompt_tokens[request_id]].append(took_s)
    return _medians(preparations), _medians(steps)


def _prediction_s(config: PlannerConfig, num_repeats: int) -> float:
    """Returns the seconds by which predicting its length prolongs a prompt's first step; with and without in turn."""
    watch = _Watch()
    loops = [
        build_loop(one, do_clients_report=False, watch=lambda b: WatchedBackend(b, watch.see))
        for one in (config, replace(config, length_predictor=""))
    ]
    first_s: list[list[float]] = [[], []]
    for number in range(3 * num_repeats):
        for loop, seen_s in zip(loops, first_s, strict=True):
            request = _request(str(number), SCENE_SIZES[number % len(SCENE_SIZES)])
            loop.submit(replace(request, time_budget_s=LONG_S), time.perf_counter())
            durations_s = [watch.duration_s for _ in _steps(loop, watch)]  # the whole plan: the prediction has ended
            loop.cancel(request.request_id)
            seen_s.extend(durations_s[:1])
    for loop in loops:
        loop.close()
    return max(0.0, statistics.median(first_s[0]) - statistics.median(first_s[1]))


def _steps(loop: PlannerLoop, watch: _Watch) -> Iterator[tuple[int, float]]:
    """Yields, until all robots are at work, how many sequences ran in a step and the seconds around it."""
    for _ in range(NUM_STEPS):
        watch.num_seqs = 0
        began_s = time.perf_counter()
        loop.step(began_s)
        ended_s = time.perf_counter()
        if watch.num_seqs:
            yield watch.num_seqs, ended_s - began_s - watch.duration_s
        wakeup_s = loop.next_wakeup_s(ended_s)
        if wakeup_s is None or wakeup_s > ended_s:
            return


def _medians(samples: dict[int, list[float]]) -> dict[int, float]:
    return {key: statistics.median(values) for key, values in samples.items() if len(values) >= 3}


def _request(request_id: str, num_objects: int) -> PlanRequest:
    scene = ", ".join(f"box_{index}" for index in range(num_objects))
    return PlanRequest(
        request_id=request_id, robot_id=request_id, robot_model="tello", instruction="find the cat", scene=scene
    )


def _transport_s(num_goals: int) -> float:
    """Returns the seconds one way: half of what a loop in a child process takes longer than one on this thread."""
    loop = build_fake_loop(NO_STEP_S)
    here_s = statistics.median(_answer_s(loop, number) for number in range(num_goals))
    loop.close()
    there_s = statistics.median(measure_overhead(num_goals))
    return max(0.0, there_s - here_s) / 2


def _idle_s(num_goals: int) -> float:
    """Returns the seconds that the way to a segment and back takes longer if nothing happened before."""
    idle_s, busy_s = (statistics.median(measure_overhead(num_goals, pause_s)) for pause_s in (COLD_S, 0.0))
    return max(0.0, idle_s - busy_s)


def _answer_s(loop: PlannerLoop, number: int) -> float:
    request = overhead_request(f"r{number}")
    began_s = time.perf_counter()
    events = loop.submit(request, began_s)
    while not any(isinstance(event, SegmentReady) for event in events):
        events = loop.step(time.perf_counter())
    took_s = time.perf_counter() - began_s
    loop.cancel(request.request_id)
    return took_s
