# SPDX-License-Identifier: Apache-2.0
"""KV blocks of a pipeline: the same number on every stage, taken back in the order in which they became free."""

from collections import deque
from dataclasses import dataclass

from llm_planner_lab.simulation.pipeline.request import Sequence


@dataclass(slots=True)
class _Freed:
    """Blocks that became free together, and whose beginning of a sequence they still hold."""

    owner: Sequence | None
    num_blocks: int


class KVPool:
    """Counts blocks, and remembers which free ones still hold the beginning of a preempted sequence.

    As vLLM's block pool with prefix caching: the block that became free first is taken first, of one sequence its last
    block first; a preempted sequence finds again the blocks that were not taken. Blocks are counted, not named.

    Args:
        num_blocks: Of every stage, >= 1.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = self.num_free = num_blocks
        self._free: deque[_Freed] = deque([_Freed(None, num_blocks)])

    def take(self, sequence: Sequence, num_blocks: int) -> None:
        """Gives ``num_blocks`` <= ``num_free`` to ``sequence``."""
        self.num_free -= num_blocks
        sequence.num_blocks += num_blocks
        while num_blocks > 0:
            oldest = self._free[0]
            taken = min(oldest.num_blocks, num_blocks)
            num_blocks -= taken
            oldest.num_blocks -= taken
            if oldest.owner is not None:
                oldest.owner.num_cached_blocks -= taken
            if oldest.num_blocks == 0:
                self._free.popleft()

    def free(self, sequence: Sequence, *, is_preempted: bool) -> None:
        """Takes all blocks of ``sequence`` back; if it was preempted, it may find some of them again."""
        if sequence.num_blocks == 0:
            return
        self.num_free += sequence.num_blocks
        self._free.append(_Freed(sequence if is_preempted else None, sequence.num_blocks))
        sequence.num_cached_blocks = sequence.num_blocks if is_preempted else 0
        sequence.num_blocks = 0

    def find_again(self, sequence: Sequence) -> int:
        """Gives a preempted sequence its first blocks back, as many as are left; returns how many."""
        found = sequence.num_cached_blocks
        if found:
            for index, freed in enumerate(self._free):
                if freed.owner is sequence:
                    del self._free[index]
                    break
            self.num_free -= found
            sequence.num_blocks, sequence.num_cached_blocks = found, 0
        return found
