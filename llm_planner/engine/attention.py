"""Attention over the paged cache: one sequence with many new tokens, or many sequences with one each."""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention

from llm_planner.engine.kv_cache import KVCache


class Attention(Protocol):
    """One step's view of the cache; built once per forward, used by every layer."""

    def __call__(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Stores the new keys and values and returns the attended values (num_tokens, num_heads * head_dim).

        Args:
            layer: Which layer of the cache.
            queries: (num_tokens, num_heads, head_dim)
            keys: (num_tokens, num_kv_heads, head_dim)
            values: As ``keys``.
        """
        ...


def slot_of(blocks: Sequence[int], index: int, block_size: int) -> int:
    """Returns where token ``index`` of a sequence lies in the flattened pool."""
    return blocks[index // block_size] * block_size + index % block_size


class PrefillAttention:
    """New tokens ``kv_len .. kv_len + num_tokens`` of one sequence, causal among themselves."""

    def __init__(self, cache: KVCache, blocks: Sequence[int], kv_len: int, num_tokens: int) -> None:
        device, end = cache.pool.device, kv_len + num_tokens
        self._cache = cache
        self._slots = torch.tensor(
            [slot_of(blocks, i, cache.block_size) for i in range(kv_len, end)], dtype=torch.long, device=device
        )
        self._end = end
        self._blocks = self._mask = None
        if kv_len:
            self._blocks = torch.tensor(blocks[: -(-end // cache.block_size)], dtype=torch.long, device=device)
            self._mask = torch.ones(num_tokens, end, dtype=torch.bool, device=device).tril(kv_len)

    def __call__(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """See ``Attention``."""
        self._cache.write(layer, self._slots, keys, values)
        if self._blocks is None:
            all_keys, all_values = keys.transpose(0, 1)[None], values.transpose(0, 1)[None]
        else:
            gathered = self._cache.gather(layer, self._blocks, 1)
            all_keys, all_values = (kv[:, :, : self._end] for kv in gathered)
        attended = scaled_dot_product_attention(
            queries.transpose(0, 1)[None],
            all_keys,
            all_values,
            attn_mask=self._mask,
            is_causal=self._mask is None,
            enable_gqa=True,
        )
        return attended[0].transpose(0, 1).flatten(1)


class DecodeAttention:
    """One new token of each sequence, in groups of neighbours that are padded to their longest.

    Sorted by length, little is padded and a group's blocks stay in the processor's cache from gathering to attending.

    Args:
        cache: Holds the blocks.
        tables: Block tables, in ascending order of ``kv_lens``.
        kv_lens: Tokens that each sequence has in the cache, without the new one.
    """

    def __init__(self, cache: KVCache, tables: Sequence[Sequence[int]], kv_lens: Sequence[int]) -> None:
        self._cache = cache
        self._slots = torch.tensor(
            [slot_of(blocks, kv_len, cache.block_size) for blocks, kv_len in zip(tables, kv_lens, strict=True)],
            dtype=torch.long,
            device=cache.pool.device,
        )
        widths = [-(-(kv_len + 1) // cache.block_size) for kv_len in kv_lens]
        self._groups = [
            _Group(cache, rows, tables[rows], kv_lens[rows]) for rows in _split(widths, cache.max_gathered_blocks)
        ]

    def __call__(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """See ``Attention``."""
        self._cache.write(layer, self._slots, keys, values)
        # The query heads of one KV head are laid out as its queries, so no key is copied for them.
        grouped = queries.reshape(*keys.shape[:2], -1, keys.shape[2])
        attended = [group.attend(self._cache, layer, grouped) for group in self._groups]
        return torch.cat(attended) if len(attended) > 1 else attended[0]


class _Group:
    """Neighbouring rows of a decode batch; shorter block tables are padded with the sequence's own first block."""

    def __init__(self, cache: KVCache, rows: slice, tables: Sequence[Sequence[int]], kv_lens: Sequence[int]) -> None:
        device = cache.pool.device
        self._rows = rows
        self._longest = kv_lens[-1] + 1
        width = -(-self._longest // cache.block_size)
        padded = [block for blocks in tables for block in [*blocks[:width], *[blocks[0]] * (width - len(blocks))]]
        self._blocks = torch.tensor(padded, dtype=torch.long, device=device)
        self._mask = None
        if kv_lens[0] < kv_lens[-1]:
            is_padding = torch.arange(self._longest, device=device) > torch.tensor(kv_lens, device=device)[:, None]
            mask = torch.zeros(is_padding.shape, dtype=cache.pool.dtype, device=device)
            self._mask = mask.masked_fill_(is_padding, -math.inf)[:, None, None, :]

    def attend(self, cache: KVCache, layer: int, queries: torch.Tensor) -> torch.Tensor:
        """Returns attended values (num_rows, num_heads * head_dim) of this group's rows of ``queries``."""
        mine = queries[self._rows]
        keys, values = cache.gather(layer, self._blocks, len(mine))
        attended = scaled_dot_product_attention(
            mine, keys[:, :, : self._longest], values[:, :, : self._longest], attn_mask=self._mask
        )
        return attended.reshape(len(mine), -1)


def _split(widths: Sequence[int], limit: int) -> list[slice]:
    """Returns slices of ascending ``widths`` whose length times widest is within ``limit``, or of one row."""
    groups, start = [], 0
    for end in range(1, len(widths) + 1):
        if end == len(widths) or (end + 1 - start) * widths[end] > limit:
            groups.append(slice(start, end))
            start = end
    return groups
