# SPDX-License-Identifier: Apache-2.0
"""What the engine takes of the host's memory."""

import math
import os
from pathlib import Path

import pytest
import torch

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.step import SchedulerOutput
from llm_planner.engine import hardware
from llm_planner.engine.backend import TorchBackend
from llm_planner.engine.checkpoint import Checkpoint, weight_bytes
from llm_planner.engine.lookahead import measure_step_cost
from llm_planner.engine.model_config import read_model_config
from tests.engine.builders import PROMPT, decode, generate, sequence, start

CPU = torch.device("cpu")


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_blocks_take_memory_when_they_are_used(llama_dir):
    before = resident_bytes()
    backend = TorchBackend(llama_dir, num_kv_blocks=1 << 16, lookahead="auto")
    generate(backend, sequence(), max_tokens=3)
    pool = backend._runner.cache.pool
    assert pool.nbytes == 1 << 29
    assert resident_bytes() - before < pool.nbytes // 8


def test_what_lies_in_blocks_before_they_are_used_changes_nothing(llama_dir):
    def run(fill):
        backend = TorchBackend(llama_dir, num_kv_blocks=48)
        with torch.inference_mode():
            backend._runner.cache.pool.fill_(fill)
        cached = backend.load_prefix("p", PROMPT[:40])
        shared = {"prefix_id": "p", "num_cached_tokens": cached}
        tokens = {"a": [], "b": [], "c": []}
        steps = [
            start(sequence("a", **shared), sequence("b"), sequence("c", PROMPT[:50], **shared)),
            *[decode(*tokens)] * 8,
            SchedulerOutput(offload=("a", "b")),
            SchedulerOutput(restore=("b", "a")),
            *[decode(*tokens)] * 16,
        ]
        for step in steps:
            output = backend.execute(step)
            assert not output.failed
            for name, new in output.token_ids.items():
                tokens[name] += new
        backend.check_integrity()
        return tokens

    assert run(math.nan) == run(0.0)


def test_the_cost_of_a_step_is_measured_on_numbers(llama_dir):
    backend = TorchBackend(llama_dir, num_kv_blocks=64)
    with torch.inference_mode():
        backend._runner.cache.pool.fill_(math.nan)
        measure_step_cost(backend._runner)
    assert not backend._runner.cache.pool[:, :, 0].isnan().any()


def test_the_cache_has_room_for_the_sequences_that_are_allowed(monkeypatch):
    monkeypatch.setattr(hardware, "free_bytes", lambda device: 1 << 40)
    assert hardware.default_num_blocks(1024, 16, 4096, 16, CPU) == 4 * 16 * 256
    assert hardware.default_num_blocks(1024, 16, 4096, 1, CPU) == 4 * 256
    assert hardware.default_num_blocks(1024, 16, 4090, 2, CPU) == 8 * 256


def test_the_cache_takes_no_more_than_its_share_of_the_machine(monkeypatch):
    monkeypatch.setattr(hardware, "free_bytes", lambda device: 400 << 20)
    assert hardware.default_num_blocks(1 << 20, 16, 4096, 16, CPU) == 100
    with pytest.raises(PlannerError) as error:
        hardware.default_num_blocks(10 << 20, 16, 4096, 16, CPU)
    assert error.value.code is ErrorCode.OUT_OF_MEMORY


def test_weights_that_do_not_fit_are_refused_before_one_is_read(llama_dir, monkeypatch):
    stored = sum(path.stat().st_size for path in llama_dir.glob("*.safetensors"))
    config = read_model_config(llama_dir)
    needed = weight_bytes(config, torch.float32)
    assert 0.9 * stored < needed <= stored
    monkeypatch.setattr(hardware, "free_bytes", lambda device: needed - 1)
    monkeypatch.setattr(Checkpoint, "load", lambda *_: pytest.fail("read"))
    with pytest.raises(PlannerError, match=r"take 0\.0 GiB.* free; end other programs") as error:
        TorchBackend(llama_dir, num_kv_blocks=8, dtype="float32")
    assert error.value.code is ErrorCode.OUT_OF_MEMORY


def test_offloaded_kv_takes_no_more_than_its_share_of_what_the_cache_leaves(monkeypatch):
    pool = torch.empty(2, 2, 100, 16, 4, 32)
    block_bytes = pool.nbytes // 100
    monkeypatch.setattr(hardware, "free_bytes", lambda device: 500 * block_bytes)
    assert hardware.default_num_host_blocks(pool) == 100
    assert hardware.default_num_host_blocks(pool.to("meta")) == 125  # a cache elsewhere leaves all of it
    monkeypatch.setattr(hardware, "free_bytes", lambda device: 50 * block_bytes)
    assert hardware.default_num_host_blocks(pool) == 0


def test_replicas_divide_what_one_would_take_of_the_host(monkeypatch):
    pool = torch.empty(2, 2, 100, 16, 4, 32)
    block_bytes = pool.nbytes // 100
    monkeypatch.setattr(hardware, "free_bytes", lambda device: 1_200 * block_bytes)
    assert hardware.default_num_blocks(block_bytes, 16, 4096, 16, CPU, num_engines=3) == 100
    assert hardware.default_num_host_blocks(pool, num_engines=3) == 75  # a twelfth of 900


def test_a_planner_without_a_size_takes_it_from_the_sequences_that_decode_together(llama_dir):
    assert TorchBackend(llama_dir, max_num_seqs=3).info.num_kv_blocks == 4 * 3 * 512 // 16
