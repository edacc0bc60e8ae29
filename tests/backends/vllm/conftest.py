# SPDX-License-Identifier: Apache-2.0
"""One vLLM for all tests of this folder: its start takes as long as all of them together."""

import pytest

from tests.engine.builders import save_model

NUM_BLOCKS = 64


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("vllm"), head_dim=32)  # vLLM's kernels for CPUs take no smaller ones


@pytest.fixture(scope="session")
def running_backend(model_dir):
    from llm_planner.backends.vllm.backend import open_backend
    from llm_planner.backends.vllm.engine import EngineSettings

    settings = EngineSettings(model_dir=model_dir, dtype="float32", num_kv_blocks=NUM_BLOCKS, num_threads=1)
    backend = open_backend(settings)
    yield backend
    backend.close()


@pytest.fixture
def backend(running_backend):
    """A running vLLM, which every test must leave as it found it."""
    yield running_backend
    scheduler = running_backend._scheduler
    left = list(scheduler.requests)
    running_backend.engine.core.abort_requests(left)  # so that one failure is not the next test's too
    assert not left
    assert scheduler.num_free_blocks == NUM_BLOCKS
