# SPDX-License-Identifier: Apache-2.0
"""The benchmark of vLLM over two workers."""

import pytest

pytest.importorskip("vllm")

from llm_planner_lab.bench.vllm_pipeline import PipelineRun
from tests.backends.vllm.test_pipeline import pipeline, running_pipeline

__all__ = ["pipeline", "running_pipeline"]  # fixtures


def test_the_benchmark_compares_vllm_with_our_pacers(pipeline):
    run = PipelineRun(pipeline, num_requests=4, num_tokens=6, max_num_batched_tokens=256)
    document = run.run()
    schedulers = document["schedulers"]
    assert set(schedulers) == {"stock", "token_budget", "both", "balanced"}
    assert schedulers["stock"]["throughput_ratio"] == 1.0
    assert schedulers["stock"]["empty_call_share"] > schedulers["balanced"]["empty_call_share"]
