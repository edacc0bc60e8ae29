# SPDX-License-Identifier: Apache-2.0
"""Attention over the paged cache: what a layer asks for, and the answer for one sequence with many new tokens."""

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
