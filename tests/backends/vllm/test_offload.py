# SPDX-License-Identifier: Apache-2.0
"""Suspended requests give up their KV, and vLLM's own connector brings it back from host memory."""

import pytest

pytest.importorskip("vllm")

from vllm.engine.arg_utils import EngineArgs
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec

from llm_planner.backends.vllm.backend import open_backend
from llm_planner.backends.vllm.engine import EngineSettings, _offload_arguments
from tests.backends.vllm.host_tier import host_tier, num_loads
from tests.backends.vllm.test_identity import GRAMMAR, Driver, interrupted, make_sequences, uninterrupted

NUM_BLOCKS = 64


@pytest.fixture(scope="session")  # closing it takes from every other vLLM in this process what joins its workers
def running_offloading(model_dir):
    # Its worker has a process of its own: what offloads there is one for all engines of the process.
    further = {"kv_transfer_config": host_tier(1 << 26), "distributed_executor_backend": "mp"}
    settings = EngineSettings(
        model_dir=model_dir, dtype="float32", num_kv_blocks=NUM_BLOCKS, num_threads=1, further=further
    )
    backend = open_backend(settings)
    yield backend
    backend.close()


@pytest.fixture
def offloading(running_offloading):
    """A running vLLM, which every test must leave as it found it."""
    yield running_offloading
    scheduler = running_offloading._scheduler
    left = list(scheduler.requests)
    running_offloading.engine.core.abort_requests(left)
    assert not left
    assert scheduler.num_free_blocks == NUM_BLOCKS


def count_loads(backend):
    return sum(backend.engine.core.model_executor.collective_rpc(num_loads))


def forget_cache(scheduler, num_taken=0):
    """Has the cache forget what no request holds; returns blocks that stay taken, and are to be freed."""
    pool = scheduler.kv_cache_manager.block_pool
    blocks = pool.get_new_blocks(scheduler.num_free_blocks)
    pool.free_blocks(blocks[num_taken:])
    return blocks[:num_taken]


def test_vllm_itself_offloads_from_gpus_only():
    """If this fails, vLLM can do more than ``engine._offload_arguments`` knows."""
    spec = object.__new__(CPUOffloadingSpec)
    spec._worker = None
    with pytest.raises(Exception, match="only supported on CUDA-alike and XPU GPUs"):
        spec.get_worker(None)


def test_vllm_takes_what_it_is_given_on_a_gpu(model_dir):
    size = {"kv_offloading_size": 0.5}
    arguments = EngineArgs(model=str(model_dir), **size, **_offload_arguments(size, is_cpu=False))
    config = arguments.create_engine_config().kv_transfer_config
    assert config.kv_connector == host_tier(0)["kv_connector"]
    assert config.kv_connector_extra_config == {"cpu_bytes_to_use": 1 << 29, "offload_prompt_only": False}


def test_kv_that_was_given_up_is_loaded_and_not_computed_again(offloading):
    (one,) = make_sequences(4)[3:]
    expected = uninterrupted(offloading, [one])
    scheduler, driver = offloading._scheduler, Driver(offloading, [one])
    while len(driver.tokens["s3"]) < 20:
        driver.step(["s3"])
    num_known = len(one.prompt_token_ids) + 19
    scheduler.give_up_kv(next(iter(scheduler.running)))
    driver.step([], suspended=["s3"])
    forget_cache(scheduler)
    num_before, computed = count_loads(offloading), 0
    while len(driver.tokens["s3"]) == 20:
        driver.step(["s3"])
        computed += sum(scheduler.scheduled.values())
    assert count_loads(offloading) == num_before + 1
    assert computed <= num_known % scheduler.block_size + 1
    while driver.unfinished:
        driver.step(["s3"])
    driver.step([])
    assert driver.tokens == expected


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_suspended_at_random_with_little_memory(offloading, seed):
    sequences = make_sequences(8, GRAMMAR)
    expected = uninterrupted(offloading, sequences)
    scheduler = offloading._scheduler
    given_up = scheduler.num_given_up
    taken = forget_cache(scheduler, num_taken=44)
    num_before = count_loads(offloading)
    tokens, _ = interrupted(offloading, sequences, seed)
    scheduler.kv_cache_manager.block_pool.free_blocks(taken)
    assert tokens == expected
    assert scheduler.num_given_up > given_up
    assert count_loads(offloading) > num_before
