# SPDX-License-Identifier: Apache-2.0
"""A model of a backend that counts KV blocks, for tests of the scheduler."""

import random
import sys
from collections.abc import Iterable

from llm_planner.core.step import SchedulerOutput

BLOCK_SIZE = 4
SHARED_TOKENS = 8
NUM_BLOCKS = 22  # the longest generation alone takes (8 + 36 + 4 + 24 + 7) / 4 = 20, 2 of them shared


class ModelBackend:
    """Counts KV block by block, the way an engine does, and refuses what no engine could do.

    A step yields one token, and by chance some that are forced; some are drafted, and by chance some of them accepted.
    By chance KV that is moved is lost.
    """

    def __init__(
        self,
        seed: int = 0,
        max_forced: int = 0,
        max_drafted: int = 0,
        num_host_blocks: int = sys.maxsize,
        lost_share: float = 0.0,
    ) -> None:
        self.rng = random.Random(seed)
        self.max_forced = max_forced
        self.max_drafted = max_drafted
        self.num_host_blocks = num_host_blocks
        self.lost_share = lost_share
        self.drafted: dict[str, int] = {}
        self.rejected: dict[str, int] = {}
        self.kv_len: dict[str, int] = {}
        self.shared: dict[str, int] = {}
        self.prompts: dict[str, int] = {}
        self.computed: dict[str, int] = {}
        self.to_compute: dict[str, int] = {}
        self.offloaded: set[str] = set()
        self.lost: set[str] = set()

    def free_blocks(self) -> int:
        return NUM_BLOCKS - SHARED_TOKENS // BLOCK_SIZE - self._private_blocks(self.kv_len.keys() - self.offloaded)

    def _private_blocks(self, request_ids: Iterable[str]) -> int:
        return sum(-(-self.kv_len[r] // BLOCK_SIZE) - self.shared[r] for r in request_ids)

    def execute(self, scheduled: SchedulerOutput, *, is_given_up: bool = False) -> dict[str, tuple[int, ...]]:
        self._apply(scheduled)
        self.rejected = {}
        if is_given_up:
            return {}
        running = {r: n for r, n in scheduled.num_scheduled_tokens.items() if r not in self.lost}
        for request_id, num_tokens in running.items():
            assert request_id not in self.offloaded
            left = self.to_compute[request_id] - self.computed[request_id]
            assert 1 <= num_tokens <= left + self.drafted[request_id]
            self.kv_len[request_id] += num_tokens
            self.rejected[request_id] = self.rng.randint(0, max(0, num_tokens - left))
        assert self.free_blocks() >= 0
        token_ids = {}
        for request_id, num_tokens in running.items():
            self.kv_len[request_id] -= self.rejected[request_id]
            self.computed[request_id] += num_tokens - self.rejected[request_id]
            num_accepted = self.computed[request_id] - self.to_compute[request_id]
            if num_accepted >= 0:
                num_new = num_accepted + 1 + self.rng.randint(0, self.max_forced)
                self.to_compute[request_id] += num_new
                self.drafted[request_id] = self.rng.randint(0, self.max_drafted)
                token_ids[request_id] = (self.to_compute[request_id],) * num_new
        return token_ids

    def _apply(self, scheduled: SchedulerOutput) -> None:
        for request_id in scheduled.release:
            self.kv_len.pop(request_id, None)
            self.offloaded.discard(request_id)
        for request_id in scheduled.offload:
            assert request_id in self.kv_len
            assert request_id not in self.offloaded
            self.offloaded.add(request_id)
        assert self._private_blocks(self.offloaded) <= self.num_host_blocks
        for request_id, num_removed in scheduled.evict.items():
            assert request_id in scheduled.num_scheduled_tokens
            assert self.computed[request_id] >= self.prompts[request_id]
            if request_id not in scheduled.restore:
                self.kv_len[request_id] -= num_removed
        for request_id in scheduled.restore:
            self.offloaded.remove(request_id)
            assert self.free_blocks() >= 0
            self.kv_len[request_id] -= scheduled.evict.get(request_id, 0)
        for sequence in scheduled.new:
            assert sequence.request_id not in self.kv_len
            self.kv_len[sequence.request_id] = self.computed[sequence.request_id] = sequence.num_cached_tokens
            self.prompts[sequence.request_id] = len(sequence.prompt_token_ids)
            self.shared[sequence.request_id] = sequence.num_cached_tokens // BLOCK_SIZE
            self.to_compute[sequence.request_id] = len(sequence.prompt_token_ids) + len(sequence.output_token_ids)
            self.drafted[sequence.request_id] = 0
        self._insert(scheduled)
        self.lost = {r for r in (*scheduled.offload, *scheduled.restore) if self.rng.random() < self.lost_share}
        for request_id in self.lost:
            del self.kv_len[request_id]
            self.offloaded.discard(request_id)

    def _insert(self, scheduled: SchedulerOutput) -> None:
        for request_id, inserted in scheduled.insert.items():
            assert request_id in scheduled.num_scheduled_tokens
            self.to_compute[request_id] += len(inserted)
            self.prompts[request_id] = self.to_compute[request_id]
            self.drafted[request_id] = 0
