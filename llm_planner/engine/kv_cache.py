# SPDX-License-Identifier: Apache-2.0
"""Keys and values of all sequences, in blocks."""

import math

import torch

from llm_planner.engine.hardware import upload
from llm_planner.engine.kernels import Kernels, PagedRows, can_attend, load_kernels
from llm_planner.engine.model_config import ModelConfig

# KV of one layer that is gathered at a time: on a CPU what stays in the cache, on a GPU what keeps it busy.
_GATHERED_BYTES = {"cpu": 1 << 21, "cuda": 1 << 28}
_MIN_SHARED_TOKENS = 256  # from this length on a shared prefix is attended once for all


class KVCache:
    """The pool.

    ``pool`` is (num_layers, 2, num_blocks, block_size, num_kv_heads, head_dim); index 0 of the second axis holds keys
    (already rotated), 1 values. Token ``t`` of a sequence lies at ``blocks[t // block_size], t % block_size``. One
    block table serves all layers. Blocks hold anything until they are cleared or written.

    Attributes:
        config: Of the model whose KV it holds.
        kernels: What reads and writes KV where it lies; None where torch does.
        max_gathered_blocks: How much a group of decoding sequences gathers at a time.
        min_shared_blocks: How long a prefix must be to be attended once for all sequences that share it.
    """

    def __init__(
        self, config: ModelConfig, *, num_blocks: int, block_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.config = config
        self.block_size = block_size
        self.num_blocks = num_blocks
        shape = (config.num_layers, 2, num_blocks, block_size, config.num_kv_heads, config.head_dim)
        gathered_bytes = _GATHERED_BYTES[device.type]
        self.max_gathered_blocks = gathered_bytes * config.num_layers // self.block_bytes(config, block_size, dtype)
        self.min_shared_blocks = -(-_MIN_SHARED_TOKENS // block_size)
        self.pool = torch.empty(shape, dtype=dtype, device=device)  # untouched: a host commits pages as they are used
        self.kernels: Kernels | None = None
        if can_attend(config.head_dim, config.attention_softcap):
            self.kernels = load_kernels(device, dtype)
        self._layers = list(self.pool)  # views are taken once: at batch size 1 slicing costs as much as copying
        self._scratch = self.pool.new_empty(0)
        self._slots = [tuple(layer.flatten(1, 2)) for layer in self._layers]

    @staticmethod
    def block_bytes(config: ModelConfig, block_size: int, dtype: torch.dtype) -> int:
        """Returns the memory of one block over all layers."""
        return 2 * config.num_layers * block_size * config.num_kv_heads * config.head_dim * dtype.itemsize

    def pools(self, layer: int) -> torch.Tensor:
        """Returns keys and values of a layer (2, num_blocks, block_size, num_kv_heads, head_dim)."""
        return self._layers[layer]

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Stores keys and values, each (num_tokens, num_kv_heads, head_dim), at ``slots`` (num_tokens,)."""
        if self.kernels is not None:
            self.kernels.write(self._layers[layer], slots, keys, values)
            return
        key_slots, value_slots = self._slots[layer]
        key_slots.index_copy_(0, slots, keys)
        value_slots.index_copy_(0, slots, values)

    def gather(self, layer: int, blocks: torch.Tensor, num_seqs: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns keys and values, each (num_seqs, num_kv_heads, blocks_per_seq * block_size, head_dim).

        They are overwritten by the next call.

        Args:
            layer: Which layer.
            blocks: (num_seqs * blocks_per_seq,), the block tables one after the other.
            num_seqs: How many tables.
        """
        rows = self._scratch_for(len(blocks))
        torch.index_select(self._layers[layer], 1, blocks, out=rows)
        keys, values = rows.view(2, num_seqs, -1, *rows.shape[-2:]).transpose(2, 3).unbind(0)
        return keys, values

    def attend(self, layer: int, queries: torch.Tensor, rows: PagedRows) -> torch.Tensor:
        """Returns what ``Kernels.attend`` makes of a layer; only where there are kernels."""
        assert self.kernels is not None
        return self.kernels.attend(queries, self._layers[layer], rows, self.config.attention_scale)

    def read_keys(self, layer: int, blocks: torch.Tensor) -> torch.Tensor:
        """Returns the keys of one table (num_kv_heads, len(blocks) * block_size, head_dim); see ``gather``."""
        rows = self._scratch_for(len(blocks))[0]
        torch.index_select(self._layers[layer][0], 0, blocks, out=rows)
        return rows.flatten(0, 1).transpose(0, 1)

    def move(self, layer: int, sources: torch.Tensor, targets: torch.Tensor) -> None:
        """Copies keys and values to ``targets`` (num_tokens,), each head from its own slots.

        Args:
            layer: Which layer.
            sources: (num_kv_heads, num_tokens), slots; all are read before any is written.
            targets: Slots.
        """
        pool, num_kv_heads = self._layers[layer], sources.shape[0]
        heads = torch.arange(num_kv_heads, device=sources.device)
        rows = (sources.t() * num_kv_heads + heads).flatten()
        moved = pool.flatten(1, 3).index_select(1, rows).unflatten(1, (-1, num_kv_heads))
        pool.flatten(1, 2).index_copy_(1, targets, moved)

    def read_shared(self, layer: int, blocks: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns keys and values, each (num_kv_heads, len(blocks) * block_size, head_dim); not to be written.

        Blocks that follow each other, as those of a prefix mostly do, are not even copied.
        """
        first, last = blocks[0], blocks[-1]
        if blocks == list(range(first, last + 1)):
            rows = self._layers[layer][:, first : last + 1]
        else:
            rows = self._layers[layer].index_select(1, self._index(blocks))
        keys, values = rows.flatten(1, 2).transpose(1, 2).unbind(0)
        return keys, values

    def _scratch_for(self, num_blocks: int) -> torch.Tensor:
        """Returns a buffer (2, num_blocks, block_size, num_kv_heads, head_dim) that all layers and steps share.

        A fresh one for each layer costs a page fault per page on a CPU: more than the copy itself.
        """
        shape = (2, num_blocks, *self.pool.shape[3:])
        size = math.prod(shape)
        if self._scratch.numel() < size:
            self._scratch = self.pool.new_empty(size)
        return self._scratch[:size].view(shape)

    def clear(self, blocks: list[int]) -> None:
        """Zeroes blocks, so that the unused tail of a block holds nothing of its former owner (NaN above all)."""
        self.pool.index_fill_(2, self._index(blocks), 0)

    def to_host(self, blocks: list[int]) -> torch.Tensor:
        """Returns a copy of ``blocks`` in host memory.

        If the pool is on a GPU, the copy is pinned, and there once the GPU has done all that it was given.
        """
        rows = self.pool.index_select(2, self._index(blocks))
        return torch.empty(rows.shape, dtype=rows.dtype, pin_memory=rows.is_cuda).copy_(rows, non_blocking=True)

    def from_host(self, copy: torch.Tensor, blocks: list[int]) -> None:
        """Writes a copy made by ``to_host`` into ``blocks``."""
        self.pool.index_copy_(2, self._index(blocks), copy.to(self.pool.device, non_blocking=True))

    def _index(self, blocks: list[int]) -> torch.Tensor:
        return upload(self.pool.device, blocks)[0]
