# SPDX-License-Identifier: Apache-2.0
"""vLLM over several workers with a share of the layers each: how it starts, how fast it is, what divides the work."""

import random
from collections import deque
from typing import TYPE_CHECKING, Any

from llm_planner.backends.vllm.micro_batches import MicroBatches
from llm_planner.core.clock import MonotonicClock
from llm_planner.core.interfaces import Clock
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


def _make_buffers(worker: Any) -> None:  # noqa: ANN401 (vLLM's worker)
    worker.model_runner._dummy_run(1)  # noqa: SLF001


def divide_work(backend: "VllmBackend", settings: "EngineSettings") -> None:
    """Puts the configured pacer between our scheduler and vLLM's."""
    times = measure_times(backend, settings.pipeline_stages)
    pacer = make_pacer(settings.micro_batches, settings.pipeline_stages, settings.max_num_batched_tokens, times)
    backend.divide(MicroBatches(pacer))


def measure_times(backend: "VllmBackend", num_stages: int, clock: Clock | None = None) -> PipelineTimes:
    """Returns how long a stage and a link take for a micro-batch: measured here and now, in about a second.

    One micro-batch alone takes the way through all stages and links; many of them follow each other at the pace of the
    slowest part. Deviation: what tokens in caches cost is not told apart.
    """
    clock, rng = clock or MonotonicClock(), random.Random(0)
    stages: list[StageSample] = []
    links: list[LinkSample] = []
    for num_tokens in MEASURED_TOKENS:
        _stream_s(backend, 1, num_tokens, rng, clock)  # what only the first one needs
        through_s = min(_stream_s(backend, 1, num_tokens, rng, clock) for _ in range(REPEATS))
        many_s = min(_stream_s(backend, STREAMED, num_tokens, rng, clock) for _ in range(REPEATS))
        stage_s = max(1e-6, (many_s - through_s) / (STREAMED - 1))
        stages.append(StageSample(num_tokens, 0, stage_s))
        links.append(LinkSample(num_tokens, max(1e-6, (through_s - num_stages * stage_s) / (num_stages - 1))))
    return fit_pipeline_times(stages, links)


def _stream_s(backend: "VllmBackend", count: int, num_tokens: int, rng: random.Random, clock: Clock) -> float:
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
        missing -= {*output.token_ids, *output.finished}
    took_s = clock.now_s() - start_s
    backend.execute(SchedulerOutput(release=tuple(names)))
    return took_s
