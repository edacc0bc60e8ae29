# SPDX-License-Identifier: Apache-2.0
"""The ledger of an engine that keeps its KV itself: nothing is reserved, and the engine says what is free."""

import sys

from llm_planner.scheduling.kv_ledger import KVLedger


class EngineLedger(KVLedger):
    """Books what generations hold, for people, and admits everything.

    vLLM shares blocks among requests by their content, makes room by itself, and has a request wait if there is none:
    a reservation made here could only be wrong.
    """

    def __init__(self, num_kv_blocks: int, block_size: int) -> None:
        super().__init__(num_kv_blocks, block_size)
        self._num_free = num_kv_blocks

    @property
    def free_blocks(self) -> int:
        """Blocks that no request holds, as the engine said after its last step."""
        return self._num_free

    @property
    def pinned_blocks(self) -> int:
        """None: what requests share is theirs, or is free until it is overwritten."""
        return 0

    @property
    def available_blocks(self) -> int:
        """More than any request asks for."""
        return sys.maxsize

    def note_free(self, num_blocks: int) -> None:
        """Takes the engine's word for what is free."""
        self._num_free = num_blocks

    def check_integrity(self) -> None:
        """Asserts what can be known: the engine has not more free blocks than it has."""
        assert 0 <= self._num_free <= self.num_kv_blocks
