# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters on vLLM: tokens of the merged model, however requests of several adapters are mixed and suspended."""

from pathlib import Path

import pytest

pytest.importorskip("vllm")

from llm_planner.backends.vllm.backend import open_backend
from llm_planner.backends.vllm.engine import EngineSettings, start_engine
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.step import SchedulerOutput
from tests.backends.vllm.test_identity import GRAMMAR, interrupted, uninterrupted
from tests.engine.builders import PROMPT, save_adapter, sequence, start
from tests.engine.test_adapter import reference

NUM_BLOCKS = 64


@pytest.fixture(scope="module")
def adapters(model_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("adapters")
    return (
        save_adapter(directory / "x", model_dir, seed=1),
        save_adapter(directory / "y", model_dir, seed=2, rank=9, targets=("q_proj", "v_proj"), use_rslora=True),
    )


@pytest.fixture(scope="module", params=["off", "always"])
def backend(request, model_dir, adapters):
    settings = EngineSettings(
        model_dir=model_dir,
        dtype="float32",
        num_kv_blocks=NUM_BLOCKS,
        num_threads=1,
        adapters=adapters,
        lookahead=request.param,
    )
    backend = open_backend(settings)
    yield backend
    assert backend._scheduler.num_free_blocks == NUM_BLOCKS
    backend.close()


@pytest.fixture(scope="session")  # as of the other pipeline: closing it would disturb every other vLLM in this process
def pipeline(model_dir, tmp_path_factory):
    """Returns two workers with half of the layers each, and their adapters."""
    directory = tmp_path_factory.mktemp("pipeline")
    adapters = tuple(save_adapter(directory / str(rank), model_dir, seed=rank, rank=rank) for rank in (2, 3))
    settings = EngineSettings(
        model_dir=model_dir,
        dtype="float32",
        num_kv_blocks=NUM_BLOCKS,
        num_threads=1,
        adapters=adapters,
        pipeline_stages=2,
    )
    backend = open_backend(settings)
    yield backend, adapters
    backend.close()


def of(adapters, grammar=None):
    """Returns six requests, of each adapter and of none."""
    return [
        sequence(f"s{i}", prompt=(*PROMPT[i:], *PROMPT[: 7 * i]), adapter=adapter, grammar=grammar)
        for i, adapter in enumerate((*adapters, None) * 2)
    ]


def assert_merged(tokens, sequences, model_dir, backend):
    """Checks tokens against those of the model with the adapter's products added to its weights."""
    for s in sequences:
        expected, _ = reference(model_dir, s.adapter, s.prompt_token_ids)
        num = min(len(expected), len(tokens[s.request_id]))
        assert tokens[s.request_id][:num] == expected[:num]
        assert num == len(expected) or expected[num] in backend.tokenizer.eos_token_ids


def test_tokens_of_the_merged_models(backend, model_dir, adapters):
    sequences = of(adapters)
    assert_merged(uninterrupted(backend, sequences), sequences, model_dir, backend)


@pytest.mark.parametrize("grammar", [None, GRAMMAR])
def test_suspended_at_random_in_mixed_steps(backend, adapters, grammar):
    sequences = of(adapters, grammar)
    tokens, num_pauses = interrupted(backend, sequences, seed=3)
    assert tokens == uninterrupted(backend, sequences)
    assert num_pauses > 10


def test_in_a_pipeline(pipeline, model_dir):
    backend, adapters = pipeline
    sequences = of(adapters)
    tokens, num_pauses = interrupted(backend, sequences, seed=5)
    assert_merged(tokens, sequences, model_dir, backend)
    assert num_pauses > 10


def test_a_prefix_is_shared_by_requests_of_its_adapter_alone(backend, adapters):
    prefix = tuple(range(90, 160))

    def num_computed(adapter):
        one = sequence("a", prompt=(*prefix, 5, 6, 7), adapter=adapter)
        output = backend.execute(start(one))
        backend.execute(SchedulerOutput(release=("a",)))
        return output.step.num_scheduled_tokens["a"]

    assert backend.load_prefix("p", prefix, adapters[0]) == 64
    assert [num_computed(adapter) for adapter in (adapters[1], None)] == [73, 73]
    assert num_computed(adapters[0]) == 73 - 64


def test_an_adapter_that_is_not_loaded_fails_the_request_alone(backend, adapters):
    output = backend.execute(start(sequence("a", adapter="elsewhere"), sequence("b", adapter=adapters[0])))
    assert "adapter 'elsewhere' is not loaded" in output.failed["a"]
    assert output.token_ids["b"]
    backend.execute(SchedulerOutput(release=("a", "b")))


def test_broken_weights_end_the_start(model_dir, tmp_path):
    adapter = save_adapter(tmp_path / "adapter", model_dir)
    weights = Path(adapter) / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-50])
    settings = EngineSettings(model_dir=model_dir, dtype="float32", num_kv_blocks=8, num_threads=1, adapters=(adapter,))
    with pytest.raises(PlannerError, match=f"cannot load the adapter {adapter}") as caught:
        start_engine(settings)
    assert caught.value.code is ErrorCode.CHECKPOINT_INVALID
