# SPDX-License-Identifier: Apache-2.0
"""The benchmark of vLLM over two workers."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner_lab.bench import vllm_pipeline
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


def test_schedulers_take_turns_and_the_first_turn_warms_up(monkeypatch):
    ran = []

    def once(_run, name, turn):
        ran.append(name)
        return {"tokens_per_s": 10.0 if turn else 1e9}

    monkeypatch.setattr(vllm_pipeline, "NUM_TURNS", 2)
    monkeypatch.setattr(PipelineRun, "_divided_by", lambda *_: nullcontext())
    monkeypatch.setattr(PipelineRun, "_once", once)
    times = PipelineTimes(compute_base_s=0.1, compute_per_token_s=0.1)
    backend = SimpleNamespace(info=SimpleNamespace(num_stages=2), pipeline_times=times)
    document = PipelineRun(backend, num_requests=1, num_tokens=1, max_num_batched_tokens=1).run()
    assert ran[0::4] == ["stock", "token_budget", "both"]
    assert all(set(ran[at : at + 4]) == set(document["schedulers"]) for at in (0, 4, 8))
    assert {one["fastest_tokens_per_s"] for one in document["schedulers"].values()} == {10.0}
