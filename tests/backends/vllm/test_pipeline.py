# SPDX-License-Identifier: Apache-2.0
"""vLLM over two workers with half of the layers each: the same tokens, however the work is divided."""

from functools import partial

import pytest

pytest.importorskip("vllm")

from llm_planner.backends.vllm.micro_batches import MicroBatches
from llm_planner.backends.vllm.pipeline import compute_s, measure_times
from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner.core.step import SchedulerOutput
from llm_planner.scheduling.pipeline.pacers import PACERS, make_pacer
from tests.backends.vllm.conftest import NUM_BLOCKS
from tests.backends.vllm.test_identity import GRAMMAR, Driver, interrupted, make_sequences, uninterrupted

TIMES = PipelineTimes(compute_base_s=0.001, compute_per_token_s=0.001)


@pytest.fixture(scope="session")  # closing it takes from every other vLLM in this process what joins its workers
def running_pipeline(model_dir):
    from llm_planner.backends.vllm.backend import open_backend
    from llm_planner.backends.vllm.engine import EngineSettings

    settings = EngineSettings(
        model_dir=model_dir, dtype="float32", num_kv_blocks=NUM_BLOCKS, num_threads=1, pipeline_stages=2
    )
    backend = open_backend(settings)
    yield backend
    backend.close()


@pytest.fixture
def pipeline(running_pipeline):
    """Two workers, which every test must leave as it found them."""
    yield running_pipeline
    drain(running_pipeline)
    assert not running_pipeline._scheduler.requests
    assert running_pipeline._scheduler.num_free_blocks == NUM_BLOCKS


def drain(pipeline):
    """Takes back what is still in flight of requests that have ended."""
    while pipeline._scheduler.num_in_flight:
        pipeline.execute(SchedulerOutput(num_scheduled_tokens={"absent": 1}))


@pytest.fixture(scope="module")
def expected(running_backend):
    """What one worker says, one request at a time."""
    return uninterrupted(running_backend, make_sequences(8, GRAMMAR))


def divide(pipeline, name):
    pipeline.divide(MicroBatches(make_pacer(name, 2, 256, TIMES)))


@pytest.mark.parametrize("name", sorted(PACERS))
def test_suspended_at_random(pipeline, expected, name):
    divide(pipeline, name)
    tokens, num_pauses = interrupted(pipeline, make_sequences(8, GRAMMAR), seed=1)
    assert tokens == expected
    assert num_pauses > 20


def test_little_memory(pipeline, expected):
    divide(pipeline, "balanced")
    num_given_up = pipeline._scheduler.num_given_up
    pool = pipeline._scheduler.kv_cache_manager.block_pool
    taken = pool.get_new_blocks(NUM_BLOCKS - 20)
    tokens, _ = interrupted(pipeline, make_sequences(8, GRAMMAR), seed=7)
    pool.free_blocks(taken)
    assert tokens == expected
    assert pipeline._scheduler.num_given_up > num_given_up


def run_together(pipeline):
    """Runs all at once; returns their tokens, and the most steps that were in flight."""
    driver, most = Driver(pipeline, make_sequences(8)), 0
    while driver.unfinished:
        driver.step(driver.unfinished)
        most = max(most, pipeline._scheduler.num_in_flight)
    driver.step([])
    drain(pipeline)
    return driver.tokens, most


def test_our_share_leaves_something_for_the_next_micro_batch(pipeline):
    divide(pipeline, "static")
    num_empty = pipeline._scheduler.num_empty_calls
    tokens, _ = run_together(pipeline)
    divide(pipeline, "balanced")
    again, most = run_together(pipeline)
    assert again == tokens
    assert most >= 2
    assert pipeline._scheduler.num_empty_calls == num_empty  # vLLM is not asked when no request could run


def test_times_are_measured(pipeline):
    times = measure_times(pipeline, 2, partial(compute_s, pipeline.engine.core))
    assert times.computation_s(16) > 0
    assert times.computation_s(256) >= times.computation_s(16)
