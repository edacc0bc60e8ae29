# SPDX-License-Identifier: Apache-2.0
"""vLLM over a pipeline of workers: its own scheduler and ours in turn, in one run."""

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from llm_planner.backends.vllm.backend import VllmBackend
from llm_planner.backends.vllm.micro_batches import MicroBatches
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner.scheduling.pipeline.pacers import BALANCED, BOTH, TOKEN_BUDGET, make_pacer
from llm_planner_lab.bench.turns import rotated
from llm_planner_lab.bench.vllm_drive import Drive
from llm_planner_lab.bench.vllm_stock import stock

BASELINE = "stock"
NUM_TURNS = 5
TIMEOUT_STEPS = 20_000


class PipelineRun:
    """Runs the same generations under one scheduler after the other, turn by turn, so that a disturbance hits all.

    Args:
        backend: With several stages, and room for all generations.
        num_requests: That run together.
        num_tokens: Which each of them writes.
        max_num_batched_tokens: Of a micro-batch.
        on_progress: Receives what is going on, and which share of it is done.
    """

    def __init__(
        self,
        backend: VllmBackend,
        *,
        num_requests: int,
        num_tokens: int,
        max_num_batched_tokens: int,
        on_progress: Callable[[str, float], None] = lambda _what, _share: None,
    ) -> None:
        self._backend = backend
        self._num_requests = num_requests
        self._num_tokens = num_tokens
        self._max_num_batched_tokens = max_num_batched_tokens
        self._on_progress = on_progress
        self._clock = MonotonicClock()

    def run(self) -> dict[str, Any]:
        """Returns medians per scheduler, and how their throughput compares with vLLM's own."""
        stages = self._backend.info.num_stages
        times = self._backend.pipeline_times
        assert times is not None  # it has several stages
        names = (BASELINE, TOKEN_BUDGET, BOTH, BALANCED)
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
        for turn in range(NUM_TURNS + 1):  # the first one warms up
            for name in rotated(names, turn):
                self._on_progress(f"pipeline: {name}", turn / (NUM_TURNS + 1))
                with self._divided_by(name, stages, times):
                    figures = self._once(name, turn)
                if turn:
                    runs[name].append(figures)
        return {
            "num_stages": stages,
            "num_requests": self._num_requests,
            "num_tokens": self._num_tokens,
            "num_turns": NUM_TURNS,
            "stage_ms": {"base": 1e3 * times.compute_base_s, "per_token": 1e3 * times.compute_per_token_s},
            "link_ms": {"base": 1e3 * times.link_latency_s, "per_token": 1e3 * times.link_per_token_s},
            "schedulers": _summary(runs),
        }

    def _divided_by(self, name: str, stages: int, times: PipelineTimes) -> AbstractContextManager[None]:
        if name == BASELINE:
            return stock(self._backend, "fcfs", self._num_requests)
        self._backend.divide(MicroBatches(make_pacer(name, stages, self._max_num_batched_tokens, times)))
        return nullcontext()

    def _once(self, name: str, turn: int) -> dict[str, float]:
        """Runs all generations to their ends, prompts included."""
        num_slots = None if name == BASELINE else self._num_requests
        prompts = random.Random(f"{turn} {name}")  # of its own: none is found in the prefix cache
        drive = Drive(self._backend, prompts, num_slots, grammar=None)
        for i in range(self._num_requests):
            drive.add(f"r{i}", self._num_tokens)
        scheduler = self._backend.engine.scheduler
        num_calls, num_empty = scheduler.num_calls, scheduler.num_empty_calls
        start_s = self._clock.now_s()
        for _ in range(TIMEOUT_STEPS):
            drive.step()
            if drive.is_done:
                break
        else:
            raise PlannerError(ErrorCode.ENGINE_FAILED, f"the pipeline did not come to an end ({name})")
        took_s = self._clock.now_s() - start_s
        drive.end()
        num_calls = scheduler.num_calls - num_calls
        return {
            "completion_s": took_s,
            "tokens": drive.num_tokens,
            "tokens_per_s": drive.num_tokens / took_s,
            "calls": num_calls,
            "empty_call_share": (scheduler.num_empty_calls - num_empty) / max(1, num_calls),
        }


def _summary(runs: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """Returns medians over turns and the fastest turn, which other programs disturbed least, with vLLM's own."""
    summary = {}
    for name, turns in runs.items():
        summary[name] = {key: statistics.median(one[key] for one in turns) for key in turns[0]}
        summary[name]["fastest_tokens_per_s"] = max(one["tokens_per_s"] for one in turns)
    stock = summary[BASELINE]
    for figures in summary.values():
        figures["throughput_ratio"] = figures["tokens_per_s"] / stock["tokens_per_s"]
        figures["fastest_ratio"] = figures["fastest_tokens_per_s"] / stock["fastest_tokens_per_s"]
    return summary
