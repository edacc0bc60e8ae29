# SPDX-License-Identifier: Apache-2.0
"""Plain-integer accounting of KV blocks: what every generation holds, and what is reserved for it."""

from dataclasses import dataclass


@dataclass(slots=True)
class _Account:
    """Blocks of one generation; the shared prefix is not among them.

    Attributes:
        shared_blocks: Leading blocks that belong to a pinned prefix.
        allocated_blocks: Private blocks that hold its KV, on the accelerator or, if offloaded, in host memory.
        reserved_blocks: Private blocks that are reserved for it; counts where it exceeds ``allocated_blocks``.
    """

    shared_blocks: int
    allocated_blocks: int = 0
    reserved_blocks: int = 0
    is_offloaded: bool = False

    @property
    def claimed_blocks(self) -> int:
        return 0 if self.is_offloaded else max(self.allocated_blocks, self.reserved_blocks)


class KVLedger:
    """Counts KV blocks exactly as the engine's block manager does, without touching memory.

    A generation with ``kv_len`` tokens in the cache holds ``ceil(kv_len / block_size)`` blocks, of which the first
    ``num_cached_tokens / block_size`` are shared by reference with its prefix.
    """

    def __init__(self, num_kv_blocks: int, block_size: int) -> None:
        self.num_kv_blocks = num_kv_blocks
        self.block_size = block_size
        self._prefix_blocks: dict[str, int] = {}
        self._num_pinned = 0
        self._accounts: dict[str, _Account] = {}
        self._num_allocated = 0
        self._num_claimed = 0
        self._num_offloaded = 0

    @property
    def capacity_blocks(self) -> int:
        """Blocks that generations can share among them: all but the pinned prefixes."""
        return self.num_kv_blocks - self._num_pinned

    @property
    def pinned_blocks(self) -> int:
        """Blocks of prefixes that no generation holds and that are not free."""
        return self._num_pinned

    @property
    def free_blocks(self) -> int:
        """Blocks that no generation holds: equals ``StepOutput.free_kv_blocks`` after every step."""
        return self.capacity_blocks - self._num_allocated

    @property
    def available_blocks(self) -> int:
        """Blocks that are neither held nor reserved; negative if a prefix was pinned over a reservation."""
        return self.capacity_blocks - self._num_claimed

    @property
    def offloaded_blocks(self) -> int:
        """Blocks in host memory."""
        return self._num_offloaded

    def blocks_for(self, kv_len: int) -> int:
        """Returns how many blocks ``kv_len`` tokens fill, shared ones included."""
        return -(-kv_len // self.block_size)

    def pin_prefix(self, prefix_id: str, num_tokens: int) -> None:
        """Accounts for a prefix of ``num_tokens`` (a multiple of the block size); again is free."""
        self._prefix_blocks[prefix_id] = self.blocks_for(num_tokens)
        self._num_pinned = sum(self._prefix_blocks.values())

    def private_blocks(self, request_id: str) -> int:
        """Returns how many private blocks hold its KV on the accelerator."""
        account = self._accounts.get(request_id)
        return 0 if account is None or account.is_offloaded else account.allocated_blocks

    def claimed_blocks(self, request_id: str) -> int:
        """Returns how many private blocks on the accelerator it holds or has reserved."""
        account = self._accounts.get(request_id)
        return 0 if account is None else account.claimed_blocks

    def open(self, request_id: str, kv_len: int, num_cached_tokens: int) -> None:
        """Reserves the blocks for ``kv_len`` tokens, of which the first ``num_cached_tokens`` are shared."""
        shared = num_cached_tokens // self.block_size
        self._accounts[request_id] = _Account(shared)
        self._change(request_id, reserved=self.blocks_for(kv_len) - shared)

    def missing_blocks(self, request_id: str, kv_len: int) -> int:
        """Returns how many blocks ``kv_len`` tokens take on the accelerator beyond what it holds or has reserved."""
        account = self._accounts[request_id]
        return max(0, self.blocks_for(kv_len) - account.shared_blocks - account.claimed_blocks)

    def room_tokens(self, request_id: str, kv_len: int) -> int:
        """Returns how many more than ``kv_len`` tokens fit into its own blocks and those that are not reserved."""
        account = self._accounts[request_id]
        num_blocks = account.shared_blocks + account.claimed_blocks + max(0, self.available_blocks)
        return num_blocks * self.block_size - kv_len

    def grow(self, request_id: str, kv_len: int) -> None:
        """Books the blocks for ``kv_len`` tokens; the caller has seen to it that they are there.

        Fewer than before if drafts were rejected: what they took is free again.
        """
        account = self._accounts[request_id]
        needed = self.blocks_for(kv_len) - account.shared_blocks
        if needed != account.allocated_blocks:
            self._change(request_id, allocated=needed)

    def evict(self, request_id: str, kv_len: int, reserved_kv_len: int) -> None:
        """Frees what is beyond ``kv_len`` tokens, and reserves no more than ``reserved_kv_len`` from now on."""
        shared = self._accounts[request_id].shared_blocks
        allocated, reserved = self.blocks_for(kv_len) - shared, self.blocks_for(reserved_kv_len) - shared
        self._change(request_id, allocated=allocated, reserved=reserved)

    def offload(self, request_id: str) -> None:
        """Moves its private blocks to host memory: they become free on the accelerator."""
        self._change(request_id, is_offloaded=True)

    def restore(self, request_id: str) -> None:
        """Takes its private blocks back to the accelerator."""
        self._change(request_id, is_offloaded=False)

    def close(self, request_id: str) -> None:
        """Frees all that it holds; unknown ids are ignored."""
        if request_id in self._accounts:
            self._change(request_id, allocated=0, reserved=0, is_offloaded=False)
            del self._accounts[request_id]

    def _change(
        self,
        request_id: str,
        allocated: int | None = None,
        reserved: int | None = None,
        is_offloaded: bool | None = None,
    ) -> None:
        """Changes one account; the only place that touches the totals."""
        account = self._accounts[request_id]
        self._count(account, -1)
        account.allocated_blocks = account.allocated_blocks if allocated is None else allocated
        account.reserved_blocks = account.reserved_blocks if reserved is None else reserved
        account.is_offloaded = account.is_offloaded if is_offloaded is None else is_offloaded
        self._count(account, 1)

    def _count(self, account: _Account, sign: int) -> None:
        self._num_claimed += sign * account.claimed_blocks
        if account.is_offloaded:
            self._num_offloaded += sign * account.allocated_blocks
        else:
            self._num_allocated += sign * account.allocated_blocks

    def check_integrity(self) -> None:
        """Asserts that the totals equal a recount from the accounts and that nothing is overdrawn."""
        on_device = [a for a in self._accounts.values() if not a.is_offloaded]
        assert self._num_allocated == sum(a.allocated_blocks for a in on_device)
        assert self._num_claimed == sum(a.claimed_blocks for a in on_device)
        assert self._num_offloaded == sum(a.allocated_blocks for a in self._accounts.values() if a.is_offloaded)
        assert all(a.allocated_blocks >= 0 and a.shared_blocks >= 0 for a in self._accounts.values())
        assert 0 <= self.free_blocks <= self.num_kv_blocks
