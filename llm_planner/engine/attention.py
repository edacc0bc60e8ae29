# SPDX-License-Identifier: Apache-2.0
"""Attention over the paged cache: what a layer asks for, and the answer for one sequence with many new tokens."""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention

from llm_planner.engine.hardware import upload
from llm_planner.engine.kv_cache import KVCache
from llm_planner.engine.model_config import ModelConfig


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


def reaches(cache: KVCache, num_tokens: int) -> list[int | None]:
    """Returns the window of each layer, or None where it holds all ``num_tokens`` of a sequence."""
    return [None if window is None or window >= num_tokens else window for window in cache.config.windows]


def soft_cap(scores: torch.Tensor, cap: float | None) -> torch.Tensor:
    """Returns scores pressed into -cap .. cap (Gemma 2, arXiv 2408.00118, section 2), or as they are without one."""
    return scores if cap is None else (scores / cap).tanh() * cap


def attend(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None, config: ModelConfig
) -> torch.Tensor:
    """Returns the attended values of queries (num_seqs, num_kv_heads, num_queries, head_dim).

    Args:
        queries: Those of all query heads that share a KV head are its queries.
        keys: (num_seqs, num_kv_heads, num_keys, head_dim)
        values: As ``keys``.
        mask: Added to the scores (num_seqs, num_kv_heads, num_queries, num_keys).
        config: Scale and soft cap of the scores.
    """
    if config.attention_softcap is None:
        return scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=config.attention_scale)
    scores = soft_cap(queries @ keys.transpose(2, 3) * config.attention_scale, config.attention_softcap)
    if mask is not None:
        scores = scores + mask
    return scores.softmax(dim=-1, dtype=torch.float32).to(values.dtype) @ values


class PrefillAttention:
    """New tokens ``kv_len .. kv_len + num_tokens`` of one sequence, causal among themselves."""

    def __init__(self, cache: KVCache, blocks: Sequence[int], kv_len: int, num_tokens: int) -> None:
        end = kv_len + num_tokens
        self._cache = cache
        self._reaches = reaches(cache, end)
        self._views = {reach: _View(cache, kv_len, num_tokens, reach) for reach in set(self._reaches)}
        slots = [slot_of(blocks, i, cache.block_size) for i in range(kv_len, end)]
        last = -(-end // cache.block_size)
        tables = [blocks[view.first_block : last] if kv_len else () for view in self._views.values()]
        self._slots, *on_device = upload(cache.pool.device, slots, *tables)
        for view, table in zip(self._views.values(), on_device, strict=True):
            view.blocks = table

    def __call__(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """See ``Attention``."""
        self._cache.write(layer, self._slots, keys, values)
        config, view = self._cache.config, self._views[self._reaches[layer]]
        all_keys, all_values = view.read(layer, keys, values)
        if config.attention_softcap is not None:
            grouped = queries.unflatten(1, (-1, config.group_size)).permute(1, 2, 0, 3).flatten(1, 2)[None]
            attended = attend(grouped, all_keys, all_values, view.mask, config)
            return attended[0].unflatten(1, (config.group_size, -1)).permute(2, 0, 1, 3).flatten(1)
        attended = scaled_dot_product_attention(
            queries.transpose(0, 1)[None],
            all_keys,
            all_values,
            attn_mask=view.mask,
            is_causal=view.mask is None,
            scale=config.attention_scale,
            enable_gqa=not view.repeats_heads,
        )
        return attended[0].transpose(0, 1).flatten(1)


class PackedAttention:
    """Parts of a pass that attend by themselves: the new tokens of one lie behind those of the other.

    Args:
        parts: A prompt, or the decoding sequences.
        num_tokens: New ones of each.
    """

    def __init__(self, parts: Sequence[Attention], num_tokens: Sequence[int]) -> None:
        self._parts = parts
        self._num_tokens = list(num_tokens)

    def __call__(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """See ``Attention``."""
        rows = (tensor.split(self._num_tokens) for tensor in (queries, keys, values))
        return torch.cat([part(layer, *own) for part, *own in zip(self._parts, *rows, strict=True)])


def causal_mask(num_tokens: int, num_keys: int, device: torch.device) -> torch.Tensor:
    """Returns the mask (num_tokens, num_keys) by which the last keys are those of the tokens, true where one attends.

    On a GPU no tensor of that size, which no fused kernel takes together with shared heads, but torch's name for it.
    """
    if device.type == "cpu":
        return torch.ones(num_tokens, num_keys, dtype=torch.bool, device=device).tril(num_keys - num_tokens)
    from torch.nn.attention.bias import causal_lower_right  # loads the compiler of torch, which a CPU does not need

    return causal_lower_right(num_tokens, num_keys)


def shares_heads(cache: KVCache, *, is_causal: bool) -> bool:
    """Returns whether a fused kernel lets query heads share keys and values; else torch would compute all scores.

    On a GPU only flash attention does: of 16 bits, from compute capability 8.0 on, in causal order and nothing else.
    """
    device = cache.pool.device
    if device.type == "cpu":
        return True
    return is_causal and cache.pool.dtype.itemsize == 2 and torch.cuda.get_device_capability(device) >= (8, 0)


class _View:
    """What the layers of one reach see of a sequence: the blocks from the first one that is in any query's window on.

    Attributes:
        first_block: Its index.
        blocks: Block table from there on; empty if no keys but those of the new tokens are seen.
        mask: (num_tokens, num_keys), true where a query attends; None if causal order says it all. With a soft cap,
            what is added to the scores (group_size * num_tokens, num_keys).
        repeats_heads: Whether keys and values are those of query heads.
    """

    blocks: torch.Tensor

    def __init__(self, cache: KVCache, kv_len: int, num_tokens: int, reach: int | None) -> None:
        device, end = cache.pool.device, kv_len + num_tokens
        self.first_block = 0 if reach is None else max(0, kv_len + 1 - reach) // cache.block_size
        start = self.first_block * cache.block_size
        self._cache = cache
        self._num_keys = end - start
        is_capped = cache.config.attention_softcap is not None
        self.repeats_heads = not is_capped and not shares_heads(cache, is_causal=reach is None)
        self.mask: torch.Tensor | None = None
        if reach is None and not is_capped:
            self.mask = causal_mask(num_tokens, self._num_keys, device) if kv_len else None
            return
        is_seen = torch.ones(num_tokens, self._num_keys, dtype=torch.bool, device=device).tril(kv_len - start)
        self.mask = is_seen if reach is None else is_seen.triu(kv_len - start + 1 - reach)
        if is_capped:
            added = torch.zeros_like(self.mask, dtype=cache.pool.dtype).masked_fill_(~self.mask, -math.inf)
            self.mask = added.repeat(cache.config.group_size, 1)

    def read(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns keys and values, each (1, num_kv_heads, num_keys, head_dim), given those of the new tokens."""
        if len(self.blocks):
            all_keys, all_values = self._cache.gather(layer, self.blocks, 1)
            all_keys, all_values = all_keys[:, :, : self._num_keys], all_values[:, :, : self._num_keys]
        else:
            all_keys, all_values = keys.transpose(0, 1)[None], values.transpose(0, 1)[None]
        if not self.repeats_heads:
            return all_keys, all_values
        size = self._cache.config.group_size
        return all_keys.repeat_interleave(size, 1), all_values.repeat_interleave(size, 1)
