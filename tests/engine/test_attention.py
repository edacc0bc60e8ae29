# SPDX-License-Identifier: Apache-2.0
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import CausalBias
from torch.nn.functional import scaled_dot_product_attention

from llm_planner.core.step import SchedulerOutput
from llm_planner.engine import attention, decode_attention, model
from llm_planner.engine.attention import PrefillAttention, causal_mask
from llm_planner.engine.backend import TorchBackend
from llm_planner.engine.decode_attention import DecodeAttention, DecodeRow, split_rows
from llm_planner.engine.kv_cache import KVCache
from llm_planner.engine.model_config import read_model_config
from llm_planner.engine.model_runner import Chunk
from tests.engine import builders

pytestmark = pytest.mark.usefixtures("computed_by")

BLOCK_SIZE = 4


@pytest.fixture(scope="module")
def config(llama_dir):
    return read_model_config(llama_dir)


def make_cache(config, num_blocks=64):
    cache = KVCache(
        config, num_blocks=num_blocks, block_size=BLOCK_SIZE, dtype=torch.float32, device=torch.device("cpu")
    )
    cache.clear(list(range(num_blocks)))  # as the backend does with every block that it hands out
    return cache


def with_window(config, window):
    return replace(config, windows=(None, window))


def attend_plainly(queries, keys, values, window=None):
    """Softmax attention of the last queries over keys and values (num_tokens, num_heads, head_dim), written out."""
    group = queries.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    num_new, num_all = len(queries), len(keys)
    scores = torch.einsum("qhd,khd->hqk", queries, keys) / math.sqrt(queries.shape[-1])
    distance = torch.arange(num_all - num_new, num_all)[:, None] - torch.arange(num_all)
    is_seen = (distance >= 0) & (distance < (window or num_all))
    weights = scores.masked_fill(~is_seen, -math.inf).softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, values).flatten(1)


def random_heads(generator, config, num_tokens):
    def draw(num_heads):
        return torch.randn(num_tokens, num_heads, config.head_dim, generator=generator)

    return draw(config.num_heads), draw(config.num_kv_heads), draw(config.num_kv_heads)


WINDOWS = st.one_of(st.none(), st.integers(1, 40))


@given(kv_len=st.integers(0, 30), num_tokens=st.integers(1, 20), window=WINDOWS, seed=st.integers(0, 99))
def test_a_chunk_over_scattered_blocks_equals_plain_attention(config, kv_len, num_tokens, window, seed):
    generator = torch.Generator().manual_seed(seed)
    cache, end = make_cache(with_window(config, window)), kv_len + num_tokens
    table = torch.randperm(64, generator=generator).tolist()[: end // BLOCK_SIZE + 1]
    heads = random_heads(generator, config, end)
    for start, stop in ((0, kv_len), (kv_len, end)):
        if start < stop:
            chunk = PrefillAttention(cache, table, start, stop - start)(1, *(part[start:stop] for part in heads))
            torch.testing.assert_close(
                chunk, attend_plainly(heads[0][start:stop], *(part[:stop] for part in heads[1:]), window)
            )


@pytest.mark.parametrize(("num_tokens", "num_keys"), [(1, 2), (5, 9), (7, 64)])
def test_the_mask_of_a_gpu_is_that_of_a_cpu(num_tokens, num_keys):
    on_cpu, on_gpu = (causal_mask(num_tokens, num_keys, torch.device(name)) for name in ("cpu", "meta"))
    assert isinstance(on_gpu, CausalBias)
    generator = torch.Generator().manual_seed(0)
    queries, keys, values = (torch.randn(1, 4, n, 16, generator=generator) for n in (num_tokens, num_keys, num_keys))
    assert torch.equal(
        scaled_dot_product_attention(queries, keys, values, attn_mask=on_cpu),
        scaled_dot_product_attention(queries, keys, values, attn_mask=on_gpu),
    )


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("window", [None, 11])
@pytest.mark.parametrize("kv_len", [0, 14])
def test_a_chunk_is_attended_alike_in_the_forms_for_a_gpu(config, shares, window, kv_len, monkeypatch):
    heads = random_heads(torch.Generator().manual_seed(3), config, kv_len + 9)

    def attend():
        cache = make_cache(with_window(config, window))
        if kv_len:
            PrefillAttention(cache, range(8), 0, kv_len)(1, *(part[:kv_len] for part in heads))
        return PrefillAttention(cache, range(8), kv_len, 9)(1, *(part[kv_len:] for part in heads))

    expected = attend()
    monkeypatch.setattr(attention, "causal_mask", lambda n, num_keys, _: causal_mask(n, num_keys, torch.device("meta")))
    monkeypatch.setattr(attention, "shares_heads", lambda _, *, is_causal: shares and is_causal)
    torch.testing.assert_close(attend(), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("window", [None, 20])
def test_on_cuda_no_prompt_takes_the_kernel_that_computes_all_scores(tmp_path, dtype, window):
    path = builders.save_model(tmp_path / "model", "mistral", sliding_window=window)
    backend = TorchBackend(path, num_kv_blocks=16, device="cuda", dtype=dtype)
    prompt = builders.sequence()
    steps = [builders.start(prompt), SchedulerOutput(num_scheduled_tokens={"a": 27})]
    steps[0] = replace(steps[0], num_scheduled_tokens={"a": len(builders.PROMPT) - 27})
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]):
        assert not any(backend.execute(step).failed for step in steps)


@pytest.mark.gpu
def test_on_cuda_a_forward_pass_waits_for_nothing(llama_dir):
    backend = TorchBackend(llama_dir, num_kv_blocks=16, device="cuda")
    backend.execute(builders.start(builders.sequence("a"), builders.sequence("b", builders.PROMPT[:40])))
    chunks = [Chunk(backend._states[name], 1) for name in "ab"]
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.inference_mode():
            backend._runner._decode(chunks)
            backend._runner.prefill_blocks(builders.PROMPT, range(8, 16))
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_what_a_decode_step_needs_on_the_device_are_two_copies(llama_dir, monkeypatch):
    backend = TorchBackend(llama_dir, num_kv_blocks=64)
    names = ("a", "b", "c")
    backend.execute(
        builders.start(
            *(builders.sequence(name, builders.PROMPT[: 20 + 7 * index]) for index, name in enumerate(names))
        )
    )
    copies, upload = [], model.upload
    for module in (model, decode_attention):
        monkeypatch.setattr(module, "upload", lambda *given: copies.append(given) or upload(*given))
    assert not backend.execute(builders.decode(*names)).failed
    assert len(copies) == 2


@given(
    sequences=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), min_size=1, max_size=8),
    is_prefix_scattered=st.booleans(),
    limits=st.tuples(st.integers(1, 40), st.integers(1, 4)),
    window=WINDOWS,
    seed=st.integers(0, 99),
)
def test_a_decode_batch_equals_plain_attention_row_by_row(config, sequences, is_prefix_scattered, limits, window, seed):
    cache = make_cache(with_window(config, window), 128)
    cache.max_gathered_blocks, cache.min_shared_blocks = limits
    generator = torch.Generator().manual_seed(seed)
    free = torch.randperm(125, generator=generator).tolist()
    prefix = [free.pop() for _ in range(3)] if is_prefix_scattered else [125, 126, 127]
    prefix_heads = random_heads(generator, config, 3 * BLOCK_SIZE)
    PrefillAttention(cache, prefix, 0, 3 * BLOCK_SIZE)(1, *prefix_heads)
    batch = []
    for num_shared, num_own in sequences:  # blocks of the prefix, tokens behind it
        kv_len = num_shared * BLOCK_SIZE + num_own
        table = prefix[:num_shared] + [free.pop() for _ in range(num_own // BLOCK_SIZE + 1)]
        own = random_heads(generator, config, num_own)
        if num_own:
            PrefillAttention(cache, table, num_shared * BLOCK_SIZE, num_own)(1, *own)
        past = [
            torch.cat((shared[: num_shared * BLOCK_SIZE], mine))
            for shared, mine in zip(prefix_heads[1:], own[1:], strict=True)
        ]
        batch.append((DecodeRow(table, num_shared, kv_len), past))
    batch.sort(key=lambda entry: entry[0].order)
    queries, keys, values = random_heads(generator, config, len(batch))
    attended = DecodeAttention(cache, [row for row, _ in batch])(1, queries, keys, values)
    for row, (_, past) in enumerate(batch):
        new = slice(row, row + 1)
        all_keys, all_values = (torch.cat((kv, kv_new[new])) for kv, kv_new in zip(past, (keys, values), strict=True))
        expected = attend_plainly(queries[new], all_keys, all_values, window)
        torch.testing.assert_close(attended[new], expected)


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50)), min_size=1),
    limit=st.integers(0, 60),
)
def test_groups_cover_all_rows_with_one_prefix_each_within_the_limit(config, rows, limit):
    cache = make_cache(config)
    cache.max_gathered_blocks = limit
    rows = sorted((DecodeRow([7] * 20, n, n * BLOCK_SIZE + kv_len) for n, kv_len in rows), key=lambda row: row.order)
    groups = split_rows(rows, cache)
    assert [row for group in groups for row in rows[group]] == rows
    for group in groups:
        part = rows[group]
        widest = part[-1].kv_len // BLOCK_SIZE + 1 - part[-1].num_shared_blocks
        assert len({row.num_shared_blocks for row in part}) == 1
        assert len(part) == 1 or len(part) * widest <= limit
