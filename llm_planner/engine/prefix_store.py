# SPDX-License-Identifier: Apache-2.0
"""Static prompt prefixes: prefilled once, pinned, shared by reference (full blocks only, never written again)."""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_planner.engine.block_manager import BlockManager


@dataclass(frozen=True, slots=True)
class Prefix:
    """Tokens whose KV is in ``blocks``; as many as fill them exactly. Each adapter has other KV of the same tokens."""

    token_ids: tuple[int, ...]
    blocks: list[int]
    adapter: str | None = None


class PrefixStore:
    """Prefixes by name; the store is one holder of their blocks, each sequence that starts with one another."""

    def __init__(self, block_manager: BlockManager, block_size: int) -> None:
        self._block_manager = block_manager
        self._block_size = block_size
        self._prefixes: dict[str, Prefix] = {}

    def get(self, prefix_id: str) -> Prefix | None:
        """Returns a loaded prefix, or None."""
        return self._prefixes.get(prefix_id)

    def reserve(self, token_ids: Sequence[int], adapter: str | None = None) -> Prefix | None:
        """Returns the part of ``token_ids`` that fills whole blocks, with blocks for it, or None if it does not fit."""
        num_blocks = len(token_ids) // self._block_size
        blocks = self._block_manager.allocate(num_blocks)
        return None if blocks is None else Prefix(tuple(token_ids[: num_blocks * self._block_size]), blocks, adapter)

    def add(self, prefix_id: str, prefix: Prefix) -> None:
        """Pins a reserved prefix whose KV has been computed."""
        self._prefixes[prefix_id] = prefix

    def discard(self, prefix: Prefix) -> None:
        """Frees what was reserved for a prefix whose KV could not be computed."""
        self._block_manager.free(prefix.blocks)

    def share(self, prefix: Prefix, num_tokens: int) -> list[int]:
        """Returns the blocks of the first ``num_tokens`` (whole blocks) of a prefix, with one holder more."""
        blocks = prefix.blocks[: num_tokens // self._block_size]
        self._block_manager.share(blocks)
        return list(blocks)

    def holders(self) -> list[list[int]]:
        """Returns the blocks that each prefix holds."""
        return [prefix.blocks for prefix in self._prefixes.values()]
