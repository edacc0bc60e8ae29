# SPDX-License-Identifier: Apache-2.0
"""``llm-planner bench vllm``: one vLLM with one worker, then one with a pipeline of them."""

import os
from dataclasses import replace
from typing import Any

from llm_planner.backends.vllm.backend import open_backend
from llm_planner.backends.vllm.contract import installed_version
from llm_planner.backends.vllm.engine import EngineSettings
from llm_planner_lab.bench.vllm_engine import Progress, VllmBench
from llm_planner_lab.bench.vllm_pipeline import PipelineRun
from llm_planner_lab.checkout import commit

PIPELINE_REQUESTS, PIPELINE_TOKENS = 32, 40


def run_vllm(
    settings: EngineSettings,
    *,
    num_slots: int,
    num_requests: int,
    num_stages: int,
    seed: int,
    on_progress: Progress = lambda _what, _share: None,
) -> dict[str, Any]:
    """Returns the figures of one worker and, with more than one stage, of a pipeline.

    Raises:
        PlannerError: If vLLM does not start, or breaks down.
    """
    busy = os.getloadavg()[0]
    backend = open_backend(settings)
    try:
        bench = VllmBench(backend, num_slots=num_slots, num_requests=num_requests, seed=seed, on_progress=on_progress)
        one_worker, info = bench.run(), backend.info
    finally:
        backend.close()
    document = {
        "model": info.model,
        "device": info.device,
        "vllm": installed_version(),
        "commit": commit(),
        "cores": os.cpu_count(),
        "load_before": busy,
        "one_worker": one_worker,
    }
    if num_stages > 1:
        on_progress(f"starting vLLM with {num_stages} workers", 0.0)
        document["pipeline"] = _pipeline(replace(settings, pipeline_stages=num_stages), on_progress)
    return document


def _pipeline(settings: EngineSettings, on_progress: Progress) -> dict[str, Any]:
    backend = open_backend(settings)
    try:
        return PipelineRun(
            backend,
            num_requests=PIPELINE_REQUESTS,
            num_tokens=PIPELINE_TOKENS,
            max_num_batched_tokens=settings.max_num_batched_tokens,
            on_progress=on_progress,
        ).run()
    finally:
        backend.close()
