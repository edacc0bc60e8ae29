# SPDX-License-Identifier: Apache-2.0
"""Which KV blocks are free and how often the others are held: reference counts, no tensors."""

from collections import Counter
from collections.abc import Iterable, Sequence


class BlockManager:
    """Hands out blocks 0 .. num_blocks - 1. A block is free, or held by as many holders as its count says."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._free = list(range(num_blocks - 1, -1, -1))  # a stack: the lowest and warmest blocks come first
        self._ref_counts = [0] * num_blocks

    @property
    def num_free(self) -> int:
        """Blocks that no sequence holds."""
        return len(self._free)

    def allocate(self, count: int) -> list[int] | None:
        """Returns ``count`` blocks, each held once, or None if fewer are free (nothing is taken then)."""
        if count > len(self._free):
            return None
        blocks = [self._free.pop() for _ in range(count)]
        for block in blocks:
            self._ref_counts[block] = 1
        return blocks

    def share(self, blocks: Sequence[int]) -> None:
        """Adds one holder to each of ``blocks``, which must be held already."""
        for block in blocks:
            if self._ref_counts[block] < 1:
                raise ValueError(f"block {block} is free and cannot be shared")
            self._ref_counts[block] += 1

    def free(self, blocks: Sequence[int]) -> None:
        """Takes one holder from each of ``blocks``; the last one frees it."""
        for block in reversed(blocks):
            if self._ref_counts[block] < 1:
                raise ValueError(f"block {block} is freed more often than it is held")
            self._ref_counts[block] -= 1
            if self._ref_counts[block] == 0:
                self._free.append(block)

    def check_integrity(self, holders: Iterable[Sequence[int]]) -> None:
        """Checks that every block is free, or held by exactly as many ``holders`` as its count says.

        Raises:
            AssertionError: Naming the block that is lost, free twice, or miscounted.
        """
        held = Counter(block for holder in holders for block in holder)
        free = Counter(self._free)
        for block in range(self.num_blocks):
            counts = (free[block], self._ref_counts[block], held[block])
            if counts[1] != counts[2] or counts[0] != (counts[1] == 0):
                raise AssertionError(f"block {block}: free x{counts[0]}, ref count {counts[1]}, holders {counts[2]}")
