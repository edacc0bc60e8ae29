# SPDX-License-Identifier: Apache-2.0
"""Dynamic Token-Budget Estimation: every micro-batch gets an equal share of the prompts."""

from collections import deque


class DynamicTokenBudget:
    """Algorithm 1 of Dynamic Micro-Batch and Token-Budget Scheduling, section 4.1.

    Deviation: as printed, a share that a micro-batch could not use is forgotten, and its tokens with it; here it is
    given to the next one (``give_back``). Where fewer micro-batches than before are asked for, the shares of those that
    no longer exist join what is distributed.
    """

    def __init__(self) -> None:
        self._shares: deque[int] = deque()
        self._left_over = 0

    @property
    def num_owed_tokens(self) -> int:
        """Prompt tokens that were announced and have not been given out."""
        return sum(self._shares) + self._left_over

    def next_prefill_share(self, num_micro_batches: int, num_new_prefill_tokens: int) -> int:
        """Returns the prompt tokens of the next micro-batch: lines 1 to 10 without the decodes."""
        shares = self._shares
        surplus = sum(shares.pop() for _ in range(len(shares) - num_micro_batches))
        while len(shares) < num_micro_batches:
            shares.append(0)
        if num_new_prefill_tokens + surplus > 0:
            base, rest = divmod(sum(shares) + num_new_prefill_tokens + surplus, num_micro_batches)
            for i in range(num_micro_batches):
                shares[i] = base + (i < rest)
        share = shares.popleft() + self._left_over
        self._left_over = 0
        return share

    def give_back(self, num_tokens: int) -> None:
        """Adds prompt tokens that a micro-batch was given and did not use to the next one's share."""
        self._left_over += num_tokens
