# SPDX-License-Identifier: Apache-2.0
"""vLLM over several workers with a share of the layers each: how it starts, how fast it is, what divides the work."""

import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from llm_planner.backends.vllm.micro_batches import MicroBatches
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import Backend, Clock
from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner.core.step import SchedulerOutput, Sequence
from llm_planner.prediction.pipeline_fit import LinkSample, StageSample, fit_pipeline_times
from llm_planner.scheduling.pipeline.pacers import make_pacer

if TYPE_CHECKING:
    from vllm.v1.engine.core import EngineCore

    from llm_planner.backends.vllm.backend import VllmBackend
    from llm_planner.backends.vllm.engine import EngineSettings

BATCHES_PER_STAGE = 2
"""Most micro-batches in flight, for each stage: the paper's ``max_num_micro_batch``, as the pacers have it."""
MEASURED_TOKENS = (16, 64, 256)
"""Sizes of the micro-batches that the times are fitted to."""
REPEATS = 5
STREAMED = 6
"""Micro-batches that follow each other, so that every stage is busy."""


def ready_pipeline(core: "EngineCore") -> None:
    """Makes the workers of a pipeline ready, and room for more micro-batches in flight than there are stages.

    Without graphs to capture, vLLM never makes the buffer in which a stage takes what the one before it sends.
    """
    core.model_executor.collective_rpc(_make_buffers)
    stages = core.vllm_config.parallel_config.pipeline_parallel_size
    core.batch_queue_size = max(core.batch_queue_size, BATCHES_PER_STAGE * stages)
    core.batch_queue = deque(maxlen=core.batch_queue_size)


def _make_buffers(worker: Any) -> None:
    worker.model_runner._dummy_run(1)  # noqa: SLF001


def divide_work(backend: "VllmBackend", settings: "EngineSettings") -> None:
    """Puts the configured pacer between our scheduler and vLLM's."""
    times = measure_times(backend, settings.pipeline_stages, partial(compute_s, backend.engine.core))
    pacer = make_pacer(settings.micro_batches, settings.pipeline_stages, settings.max_num_batched_tokens, times)
    backend.divide(MicroBatches(pacer))
    backend.pipeline_times = times


def compute_s(core: "EngineCore", stage: int, num_tokens: int) -> float:
    """Returns the seconds that one stage computes for a micro-batch, by itself: nothing is received or sent."""
    return max(core.model_executor.collective_rpc(_compute_s, args=(stage, num_tokens)))


def _compute_s(worker: Any, stage: int, num_tokens: int) -> float:
    """Runs in every worker; those of other stages wait."""
    import torch
    from vllm.distributed import get_pp_group

    if get_pp_group().rank_in_group != stage:
        return 0.0
    clock, seconds = MonotonicClock(), []
    for _ in range(1 + REPEATS):
        began_s = clock.now_s()
        worker.model_runner._dummy_run(num_tokens)  # noqa: SLF001
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        seconds.append(clock.now_s() - began_s)
    return min(seconds[1:])


def measure_times(
    backend: Backend,
    num_stages: int,
    compute_s: Callable[[int, int], float],
    clock: Clock | None = None,
) -> PipelineTimes:
    """Returns how long a stage and a link take for a micro-batch: measured here and now, in seconds.

    One micro-batch alone takes the way through all stages and links; many of them follow each other at the pace of the
    slowest part, which may be a stage or a link. So what a stage computes is measured by itself. What it takes besides,
    for every micro-batch alike (its host), shows in the pace of single tokens, which no link holds up. What is left of
    the way is the links'. Deviation: what tokens in caches cost is not told apart.

    Args:
        backend: With several stages, just started: a pacer would divide what is measured, and prompts that were seen
            before are found in the prefix cache.
        num_stages: >= 2.
        compute_s: Returns what a stage computes by itself for a number of tokens.
        clock: Tells the time.
    """
    clock, rng = clock or MonotonicClock(), random.Random(0)
    stages: list[StageSample] = []
    links: list[LinkSample] = []
    host_s = 0.0
    for num_tokens in (1, *(n for n in MEASURED_TOKENS if n < backend.info.max_model_len)):
        _stream_s(backend, 1, num_tokens, rng, clock)  # what only the first one needs
        through_s = min(_stream_s(backend, 1, num_tokens, rng, clock) for _ in range(REPEATS))
        many_s = min(_stream_s(backend, STREAMED, num_tokens, rng, clock) for _ in range(REPEATS))
        pace_s = max(1e-6, (many_s - through_s) / (STREAMED - 1))
        alone_s = [compute_s(stage, num_tokens) for stage in range(num_stages)]
        if num_tokens == 1:
            host_s = max(0.0, pace_s - max(alone_s))
            continue
        stages.append(StageSample(num_tokens, 0, max(1e-6, min(pace_s, max(alone_s) + host_s))))
        stages_s = sum(min(pace_s, seconds + host_s) for seconds in alone_s)
        links.append(LinkSample(num_tokens, max(1e-6, (through_s - stages_s) / (num_stages - 1))))
    return fit_pipeline_times(stages, links)


def _stream_s(backend: Backend, count: int, num_tokens: int, rng: random.Random, clock: Clock) -> float:
    """Returns the seconds in which ``count`` micro-batches of one prompt each come through."""
    names = [f"measured {i}" for i in range(count)]
    waiting = [
        Sequence(request_id=name, prompt_token_ids=tuple(rng.randrange(10, 200) for _ in range(num_tokens)))
        for name in names
    ]
    missing = set(names)
    start_s = clock.now_s()
    while missing:
        new = (waiting.pop(),) if waiting else ()
        named = [sequence.request_id for sequence in new] or sorted(missing)
        output = backend.execute(SchedulerOutput(new=new, num_scheduled_tokens=dict.fromkeys(named, num_tokens)))
        if output.failed:
            why = next(iter(output.failed.values()))
            raise PlannerError(ErrorCode.ENGINE_FAILED, f"the pipeline cannot be measured: {why}")
        missing -= {*output.token_ids, *output.finished}
    took_s = clock.now_s() - start_s
    backend.execute(SchedulerOutput(release=tuple(names)))
    return took_s
