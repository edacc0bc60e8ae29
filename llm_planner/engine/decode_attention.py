# SPDX-License-Identifier: Apache-2.0
"""Attention over the paged cache for rows of one token each: of many sequences, or behind each other in one."""

import math
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple, Protocol

import torch

from llm_planner.engine.attention import attend, reaches, slot_of, soft_cap
from llm_planner.engine.hardware import upload
from llm_planner.engine.kernels import PagedRows, Pages
from llm_planner.engine.kv_cache import KVCache


class DecodeRow(NamedTuple):
    """One sequence of a decode batch: its block table, how much of it is a shared prefix, and its KV length.

    ``num_hidden`` tokens of the first block lie before its window.
    """

    blocks: Sequence[int]
    num_shared_blocks: int
    kv_len: int
    num_hidden: int = 0

    @property
    def order(self) -> tuple[int, int, int]:
        """Sort key that makes neighbours of the sequences that share a prefix, the shortest first."""
        return (self.blocks[0] if self.num_shared_blocks else -1, self.num_shared_blocks, self.kv_len)

    def within(self, window: int | None, block_size: int) -> "DecodeRow":
        """Returns what a layer with this window sees of it: the blocks from the first in the window on."""
        if window is None or self.kv_len < window:
            return self
        start = self.kv_len + 1 - window
        first = start // block_size
        return DecodeRow(self.blocks[first:], 0, self.kv_len - first * block_size, start - first * block_size)


class DecodeAttention:
    """Implements ``Attention`` in groups of neighbouring rows that are alike.

    With kernels that is one group, whose blocks are read where they lie. Without, little is padded in a group, a long
    shared prefix is read once, and what is gathered stays in the processor's cache until it is attended.

    Args:
        cache: Holds the blocks.
        rows: In ascending ``order``.
    """

    def __init__(self, cache: KVCache, rows: Sequence[DecodeRow]) -> None:
        self._cache = cache
        self._reaches = reaches(cache, max(row.kv_len for row in rows) + 1)
        self._groups = {
            reach: _make_groups(cache, [row.within(reach, cache.block_size) for row in rows])
            for reach in set(self._reaches)
        }
        slots = [slot_of(row.blocks, row.kv_len, cache.block_size) for row in rows]
        groups = [group for parts in self._groups.values() for _, group in parts]
        self._slots, *on_device = upload(
            cache.pool.device, slots, *(table for group in groups for table in group.tables)
        )
        tables = iter(on_device)
        for group in groups:
            group.place(*islice(tables, len(group.tables)))

    def __call__(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """See ``Attention``."""
        self._cache.write(layer, self._slots, keys, values)
        # The query heads of one KV head are laid out as its queries, so no key is copied for them.
        grouped = queries.unflatten(1, (keys.shape[1], -1))
        attended = [group.attend(layer, grouped[part]) for part, group in self._groups[self._reaches[layer]]]
        return (torch.cat(attended) if len(attended) > 1 else attended[0]).flatten(1)

    def pages(self, layer: int) -> Pages | None:
        """Returns where a layer writes keys and values, and what its rows read; None where it copies what it reads."""
        _, group = self._groups[self._reaches[layer]][0]
        if not isinstance(group, _PagedGroup):
            return None
        return Pages(self._slots, self._cache.pools(layer), group.rows)


def split_rows(rows: Sequence[DecodeRow], cache: KVCache) -> list[slice]:
    """Returns slices of ``rows``: one prefix each, and no more to gather than the cache allows at a time."""
    groups, start, widest = [], 0, 0
    for end in range(1, len(rows) + 1):
        widest = max(widest, _width(rows[end - 1], cache.block_size))
        is_last = end == len(rows)
        if is_last or rows[end].order[:2] != rows[start].order[:2]:
            is_full = True
        else:
            width = max(widest, _width(rows[end], cache.block_size))
            is_full = (end + 1 - start) * width > cache.max_gathered_blocks
        if is_full:
            groups.append(slice(start, end))
            start, widest = end, 0
    return groups


def _width(row: DecodeRow, block_size: int) -> int:
    """Returns how many blocks of its own a row reads, the new token included."""
    return row.kv_len // block_size + 1 - row.num_shared_blocks


class _Group(Protocol):
    @property
    def tables(self) -> Sequence[Sequence[int]]:
        """What ``place`` takes, brought to the device together with the tables of all groups."""
        ...

    def place(self, *tables: torch.Tensor) -> None:
        """Takes the tables, now on the device."""
        ...

    def attend(self, layer: int, queries: torch.Tensor) -> torch.Tensor:
        """Returns the attended values of ``queries``, both (num_rows, num_kv_heads, group_size, head_dim)."""
        ...


def _make_groups(cache: KVCache, rows: Sequence[DecodeRow]) -> list[tuple[slice, _Group]]:
    if cache.kernels is not None:
        return [(slice(None), _PagedGroup(cache, rows))]
    return [(part, _make_group(cache, rows[part])) for part in split_rows(rows, cache)]


def _make_group(cache: KVCache, rows: Sequence[DecodeRow]) -> _Group:
    # Where it pays, as measured: several rows, and a long prefix, at least as long as what follows.
    if len(rows) > 1 and rows[0].num_shared_blocks >= max(cache.min_shared_blocks, _width(rows[-1], cache.block_size)):
        return _SharedGroup(cache, rows)
    return _PaddedGroup(cache, [row._replace(num_shared_blocks=0) for row in rows])


class _PagedGroup:
    """Rows that a kernel attends where their blocks lie; neighbours of the same sequence have one table."""

    def __init__(self, cache: KVCache, rows: Sequence[DecodeRow]) -> None:
        self._cache = cache
        table: list[int] = []
        offsets: list[int] = []
        for index, row in enumerate(rows):
            if index and row.blocks is rows[index - 1].blocks:
                offsets.append(offsets[-1])
                continue
            offsets.append(len(table))
            table += row.blocks
        starts, ends = [row.num_hidden for row in rows], [row.kv_len + 1 for row in rows]
        self.tables: Sequence[Sequence[int]] = (table, offsets, starts, ends)

    def place(self, *tables: torch.Tensor) -> None:
        self.rows = PagedRows(*tables)

    def attend(self, layer: int, queries: torch.Tensor) -> torch.Tensor:
        return self._cache.attend(layer, queries, self.rows)


class _PaddedGroup:
    """Rows of their own; shorter block tables are padded with the row's own first block."""

    def __init__(self, cache: KVCache, rows: Sequence[DecodeRow]) -> None:
        block_size = cache.block_size
        self._cache = cache
        skipped = rows[0].num_shared_blocks
        width = max(_width(row, block_size) for row in rows)
        tables = [row.blocks[skipped : skipped + width] for row in rows]
        padded = [block for table in tables for block in [*table, *[table[0]] * (width - len(table))]]
        lengths = [row.kv_len + 1 - skipped * block_size for row in rows]
        hidden = [row.num_hidden for row in rows]
        self.longest = max(lengths)
        is_masked = min(lengths) < self.longest or any(hidden)
        self.tables: Sequence[Sequence[int]] = (padded, hidden, lengths) if is_masked else (padded,)
        self.mask: torch.Tensor | None = None
        self._num_rows = len(rows)

    def place(self, *tables: torch.Tensor) -> None:
        """Takes the block tables and, unless all rows see all keys, from which key on and up to which each one does."""
        self._blocks, *limits = tables
        if limits:
            starts, ends = limits
            index = torch.arange(self.longest, device=ends.device)
            is_hidden = (index < starts[:, None]) | (index >= ends[:, None])
            mask = torch.zeros(is_hidden.shape, dtype=self._cache.pool.dtype, device=ends.device)
            self.mask = mask.masked_fill_(is_hidden, -math.inf)[:, None, None, :]

    def gather(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns keys and values, each (num_rows, num_kv_heads, longest, head_dim)."""
        keys, values = self._cache.gather(layer, self._blocks, self._num_rows)
        return keys[:, :, : self.longest], values[:, :, : self.longest]

    def attend(self, layer: int, queries: torch.Tensor) -> torch.Tensor:
        keys, values = self.gather(layer)
        return attend(queries, keys, values, self.mask, self._cache.config)


class _SharedGroup:
    """Rows that begin with the same blocks: one matrix product for all of them, a padded one for what follows.

    The two parts meet in one softmax, in float32, so the result is that of attention over both.
    """

    def __init__(self, cache: KVCache, rows: Sequence[DecodeRow]) -> None:
        self._cache = cache
        self._shared = list(rows[0].blocks[: rows[0].num_shared_blocks])
        self._own = _PaddedGroup(cache, rows)
        self.tables = self._own.tables

    def place(self, *tables: torch.Tensor) -> None:
        self._own.place(*tables)

    def attend(self, layer: int, queries: torch.Tensor) -> torch.Tensor:
        num_rows, num_kv_heads, group_size, head_dim = queries.shape
        config = self._cache.config
        queries = queries * config.attention_scale
        shared_keys, shared_values = self._cache.read_shared(layer, self._shared)
        own_keys, own_values = self._own.gather(layer)
        own_scores = soft_cap(queries @ own_keys.transpose(2, 3), config.attention_softcap)
        if self._own.mask is not None:
            own_scores += self._own.mask
        # From here on (num_kv_heads, num_rows * group_size, ...): all rows are one matrix per KV head.
        shared_scores = queries.transpose(0, 1).reshape(num_kv_heads, -1, head_dim).bmm(shared_keys.transpose(1, 2))
        shared_scores = soft_cap(shared_scores, config.attention_softcap)
        scores = torch.cat((shared_scores, own_scores.transpose(0, 1).flatten(1, 2)), dim=-1)
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(queries.dtype)
        num_shared = shared_scores.shape[-1]
        attended = weights[..., :num_shared].bmm(shared_values).view(num_kv_heads, num_rows, group_size, head_dim)
        own_weights = weights[..., num_shared:].unflatten(1, (num_rows, group_size)).transpose(0, 1)
        return attended.transpose(0, 1) + own_weights @ own_values
