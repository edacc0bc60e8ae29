import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.engine.attention import DecodeAttention, PrefillAttention, _split
from llm_planner.engine.kv_cache import KVCache
from llm_planner.engine.model_config import read_model_config

BLOCK_SIZE = 4


@pytest.fixture(scope="module")
def config(llama_dir):
    return read_model_config(llama_dir)


def make_cache(config, num_blocks=64):
    return KVCache(
        config, num_blocks=num_blocks, block_size=BLOCK_SIZE, dtype=torch.float32, device=torch.device("cpu")
    )


def attend_plainly(queries, keys, values):
    """Softmax attention of the last queries over keys and values (num_tokens, num_heads, head_dim), written out."""
    group = queries.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    num_new, num_all = len(queries), len(keys)
    scores = torch.einsum("qhd,khd->hqk", queries, keys) / math.sqrt(queries.shape[-1])
    future = torch.arange(num_all) > torch.arange(num_all - num_new, num_all)[:, None]
    weights = scores.masked_fill(future, -math.inf).softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, values).flatten(1)


def random_heads(generator, config, num_tokens):
    def draw(num_heads):
        return torch.randn(num_tokens, num_heads, config.head_dim, generator=generator)

    return draw(config.num_heads), draw(config.num_kv_heads), draw(config.num_kv_heads)


@given(kv_lens=st.lists(st.integers(0, 30), min_size=1, max_size=6), limit=st.integers(1, 40), seed=st.integers(0, 99))
def test_chunks_and_batches_over_scattered_blocks_equal_plain_attention(config, kv_lens, limit, seed):
    cache = make_cache(config)
    cache.max_gathered_blocks = limit
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(64, generator=generator).tolist()
    tables = [[order.pop() for _ in range(kv_len // BLOCK_SIZE + 1)] for kv_len in sorted(kv_lens)]
    past = [random_heads(generator, config, kv_len) for kv_len in sorted(kv_lens)]
    for table, heads in zip(tables, past, strict=True):
        half = len(heads[0]) // 2
        for start, end in ((0, half), (half, len(heads[0]))):
            if start < end:
                chunk = PrefillAttention(cache, table, start, end - start)(1, *(part[start:end] for part in heads))
                expected = attend_plainly(heads[0][start:end], heads[1][:end], heads[2][:end])
                torch.testing.assert_close(chunk, expected)
    queries, keys, values = random_heads(generator, config, len(tables))
    attended = DecodeAttention(cache, tables, sorted(kv_lens))(1, queries, keys, values)
    for row, heads in enumerate(past):
        all_keys, all_values = (
            torch.cat((old, new[row : row + 1])) for old, new in zip(heads[1:], (keys, values), strict=True)
        )
        torch.testing.assert_close(
            attended[row : row + 1], attend_plainly(queries[row : row + 1], all_keys, all_values)
        )


@given(widths=st.lists(st.integers(1, 20), min_size=1).map(sorted), limit=st.integers(0, 60))
def test_groups_cover_all_rows_within_the_limit(widths, limit):
    groups = _split(widths, limit)
    assert [row for group in groups for row in range(len(widths))[group]] == list(range(len(widths)))
    for group in groups:
        rows = widths[group]
        assert len(rows) == 1 or len(rows) * rows[-1] <= limit
