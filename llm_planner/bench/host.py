"""Measures what the planner's own process takes around the engine: the ``host`` part of an engine profile."""

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from llm_planner.assembly import build_loop
from llm_planner.bench.server import NO_STEP_S, build_fake_loop, measure_overhead, overhead_request
from llm_planner.core.config import PlannerConfig
from llm_planner.core.interfaces import Backend, BackendInfo
from llm_planner.core.request import PlanRequest
from llm_planner.core.step import SchedulerOutput, StepOutput
from llm_planner.prediction.fit import measured, nonnegative_fit
from llm_planner.prediction.profile import HostCost
from llm_planner.serving.events import SegmentReady
from llm_planner.serving.loop import PlannerLoop

POLICY = "tardiness"
"""Decisions of a policy that weighs utility against time cost more than those of the others."""
BATCH_SIZES = (1, 2, 4, 8, 16)
SCENE_SIZES = (0, 8, 32)
"""Objects in the scene: prompts of different lengths."""
NUM_STEPS = 40
"""Most steps of one batch that are measured."""


class _TimedBackend:
    """Passes on, and keeps the last step: its duration and how many sequences ran; and all lengths of prompts."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.duration_s = 0.0
        self.num_seqs = 0
        self.prompt_tokens: dict[str, int] = {}

    @property
    def info(self) -> BackendInfo:
        return self._backend.info

    def load_prefix(self, prefix_id: str, token_ids: Sequence[int]) -> int:
        return self._backend.load_prefix(prefix_id, token_ids)

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        output = self._backend.execute(scheduled)
        self.duration_s, self.num_seqs = output.duration_s, len(scheduled.num_scheduled_tokens)
        self.prompt_tokens |= {s.request_id: len(s.prompt_token_ids) for s in scheduled.new}
        return output

    def close(self) -> None:
        self._backend.close()


def measure_host(config: PlannerConfig, num_repeats: int) -> HostCost:
    """Returns the cost of preparing a request, of the loop around a step, and of the way between processes.

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
    )


def _loop_times_s(config: PlannerConfig, num_repeats: int) -> tuple[dict[int, float], dict[int, float]]:
    """Returns median seconds per prompt length for a submission, and per number of sequences around a step."""
    watched: list[_TimedBackend] = []

    def watch(backend: Backend) -> Backend:
        watched.append(_TimedBackend(backend))
        return watched[-1]

    scheduler = replace(config.scheduler, policy=POLICY, max_num_seqs=max(BATCH_SIZES))
    loop = build_loop(replace(config, scheduler=scheduler), do_clients_report=False, watch=watch)
    prepared_s: dict[str, float] = {}
    steps: dict[int, list[float]] = defaultdict(list)
    for number in range(num_repeats):
        for size in BATCH_SIZES:
            for index in range(size):
                request = _request(f"{number}/{size}/{index}", SCENE_SIZES[index % len(SCENE_SIZES)])
                began_s = time.perf_counter()
                loop.submit(request, began_s)
                prepared_s[request.request_id] = time.perf_counter() - began_s
            for num_seqs, around_s in _steps(loop, watched[0]):
                steps[num_seqs].append(around_s)
            for request_id in loop.request_ids:
                loop.cancel(request_id)
    loop.close()
    preparations: dict[int, list[float]] = defaultdict(list)
    for request_id, took_s in prepared_s.items():
        if request_id in watched[0].prompt_tokens:
            preparations[watched[0].prompt_tokens[request_id]].append(took_s)
    return _medians(preparations), _medians(steps)


def _steps(loop: PlannerLoop, watched: _TimedBackend) -> Iterator[tuple[int, float]]:
    """Yields, until all robots are at work, how many sequences ran in a step and the seconds around it."""
    for _ in range(NUM_STEPS):
        watched.num_seqs = 0
        began_s = time.perf_counter()
        loop.step(began_s)
        ended_s = time.perf_counter()
        if watched.num_seqs:
            yield watched.num_seqs, ended_s - began_s - watched.duration_s
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


def _answer_s(loop: PlannerLoop, number: int) -> float:
    request = overhead_request(f"r{number}")
    began_s = time.perf_counter()
    events = loop.submit(request, began_s)
    while not any(isinstance(event, SegmentReady) for event in events):
        events = loop.step(time.perf_counter())
    took_s = time.perf_counter() - began_s
    loop.cancel(request.request_id)
    return took_s
