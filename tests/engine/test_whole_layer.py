# SPDX-License-Identifier: Apache-2.0
"""Layers that are computed in one call are, number for number, what the kernels compute one by one."""

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_planner.core.step import SchedulerOutput
from llm_planner.engine.attention import PrefillAttention
from llm_planner.engine.backend import TorchBackend
from llm_planner.engine.checkpoint import Checkpoint
from llm_planner.engine.decode_attention import DecodeAttention, DecodeRow
from llm_planner.engine.kernels import library_path
from llm_planner.engine.kv_cache import KVCache
from llm_planner.engine.model import Model, Wanted
from llm_planner.engine.model_config import read_model_config
from tests.engine.builders import PROMPT, WHOLE, counted_whole_layers, generate, save_adapter, save_model, sequence

pytestmark = pytest.mark.skipif(library_path() is None, reason="kernels were not compiled here (make setup)")

CPU, BLOCK_SIZE, NUM_LAYERS = torch.device("cpu"), 4, 2


@pytest.fixture(scope="module", params=[None, 10], ids=["all tokens", "a window"])
def model(request, tmp_path_factory):
    path = save_model(tmp_path_factory.mktemp("model"), "mistral", seed=2, sliding_window=request.param, **WHOLE)
    config = read_model_config(path)
    model = Model(config, Checkpoint(path, config), torch.float32, CPU)
    model._whole_layers._most_rows = min(model._whole_layers._most_rows, 30)  # that some steps have more
    return model


def computed(model, pool, attention, token_ids, positions, wanted):
    """Returns hidden states, and what is in the cache after them."""
    cache = KVCache(model.config, num_blocks=pool.shape[2], block_size=BLOCK_SIZE, dtype=torch.float32, device=CPU)
    cache.pool.copy_(pool)
    return model.forward(token_ids, positions, attention(cache), (), wanted), cache.pool


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(0, 40), min_size=1, max_size=34), seed=st.integers(0, 999), data=st.data())
def test_numbers_are_the_same(model, lengths, seed, data):
    generator = torch.Generator().manual_seed(seed)
    lengths.sort()
    num_blocks = [length // BLOCK_SIZE + 1 for length in lengths]
    free = torch.randperm(sum(num_blocks), generator=generator).tolist()
    rows = [DecodeRow([free.pop() for _ in range(n)], 0, length) for n, length in zip(num_blocks, lengths, strict=True)]
    shape = (NUM_LAYERS, 2, sum(num_blocks), BLOCK_SIZE, model.config.num_kv_heads, model.config.head_dim)
    pool = torch.randn(shape, generator=generator)
    token_ids = torch.randint(model.config.vocab_size, (len(rows),), generator=generator).tolist()
    places = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True))
    wanted = data.draw(st.sampled_from([None, Wanted(slice(0, 1)), Wanted(torch.tensor(places, dtype=torch.int64))]))
    step = model, pool, lambda cache: DecodeAttention(cache, rows), token_ids, lengths, wanted
    with counted_whole_layers() as counted:
        whole = computed(*step)
    is_few = len(rows) <= model._whole_layers._most_rows
    assert counted["whole"] == (NUM_LAYERS - (wanted is not None) if is_few else 0)
    with counted_whole_layers(never=True):
        in_steps = computed(*step)
    assert all(torch.equal(*pair) for pair in zip(whole, in_steps, strict=True))


def test_a_prompt_that_gathers_what_it_reads_is_computed_step_by_step(model):
    def attention(cache):
        return PrefillAttention(cache, [3, 1, 2], 0, 10)

    pool = torch.zeros(NUM_LAYERS, 2, 4, BLOCK_SIZE, model.config.num_kv_heads, model.config.head_dim)
    with counted_whole_layers() as counted:
        computed(model, pool, attention, range(10), range(10), None)
    assert counted == {"in steps": NUM_LAYERS}


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("llama", {"intermediate_size": 128}),  # weights that are none of bfloat16
        ("llama", {"dtype": torch.bfloat16}),  # no whole number of panels
        ("llama", WHOLE | {"attention_bias": True}),
        ("llama", WHOLE | {"mlp_bias": True}),
        ("llama", WHOLE | {"hidden_act": "gelu_pytorch_tanh"}),
        ("qwen2", WHOLE),  # biases
        ("qwen3", WHOLE),  # norms of heads
        ("qwen3_moe", WHOLE | {"moe_intermediate_size": 64}),
        ("gemma2", WHOLE | {"hidden_act": "silu", "hidden_activation": "silu", "attn_logit_softcapping": None}),
    ],
)
def test_other_models_have_no_whole_layers(family, settings, tmp_path):
    path = save_model(tmp_path / "model", family, **settings)
    config = read_model_config(path)
    assert Model(config, Checkpoint(path, config), torch.float32, CPU)._whole_layers is None


def test_nor_has_bfloat16_or_torch_alone(tmp_path, monkeypatch):
    path = save_model(tmp_path / "model", **WHOLE)
    config = read_model_config(path)

    def whole_layers(dtype=torch.float32):
        return Model(config, Checkpoint(path, config), dtype, CPU)._whole_layers

    assert whole_layers() is not None
    assert whole_layers(torch.bfloat16) is None
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert whole_layers() is None


def test_rows_of_an_adapter_are_computed_step_by_step(tmp_path):
    path = save_model(tmp_path / "model", **WHOLE)
    adapter = save_adapter(Path(tmp_path, "adapter"), path)
    backend = TorchBackend(path, num_kv_blocks=32, adapters=[adapter])
    with counted_whole_layers() as counted:
        adapted = generate(backend, sequence(adapter=adapter), max_tokens=20)
        assert not counted
        assert generate(backend, sequence(), max_tokens=20) != adapted
    assert counted["whole"] > 0


def test_a_step_may_be_given_up_between_whole_layers(tmp_path):
    backend = TorchBackend(save_model(tmp_path / "model", **WHOLE), num_kv_blocks=32)
    backend.execute(SchedulerOutput(new=(sequence(),), num_scheduled_tokens={"a": len(PROMPT)}))
    shares = []
    backend.interrupt_by(lambda share: shares.append(share) or share > 0)
    step = SchedulerOutput(num_scheduled_tokens={"a": 1})
    with counted_whole_layers() as counted:
        assert backend.execute(step).is_given_up
    assert shares == [0, 1 / NUM_LAYERS]
    assert counted == {"whole": 1}
    backend.interrupt_by(lambda _: False)
    assert backend.execute(step).token_ids["a"]
