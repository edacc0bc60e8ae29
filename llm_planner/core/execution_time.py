# SPDX-License-Identifier: Apache-2.0
"""How long the engine takes: the protocols that a budget solver uses."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

MOST_DECODED_TOKENS = 16
"""A step computes more tokens of one sequence only if they are of a prompt; a few may be forced by the grammar."""

WorkChunk = tuple[int, int]
"""Tokens of one sequence that one step computes, and tokens in its cache before."""


class DecodeLine(NamedTuple):
    """``q_s + p_s K`` seconds for a decode step with ``K`` tokens in the caches of its batch; Eq. (4b) of TimeBill."""

    q_s: float
    p_s: float


class CoBatch(NamedTuple):
    """Other sequences that decode in the same steps: how many, and the tokens in their caches."""

    num_seqs: int = 0
    kv_tokens: int = 0


ALONE = CoBatch()


class ExecutionTime(Protocol):
    """Estimates of what steps take: the ETE of TimeBill, section 4.2, for a sequence and those that decode with it."""

    def prefill_s(self, num_tokens: int, kv_len: int, chunk_tokens: int, co_batch: CoBatch = ALONE) -> float:
        """Returns the seconds until ``num_tokens`` >= 1 of a prompt are computed and the first token is out.

        Args:
            num_tokens: Tokens that must be computed: not those that are cached.
            kv_len: Cached tokens before them.
            chunk_tokens: Most prompt tokens of one step, >= 1.
            co_batch: Co-batched decoding sequences.
        """
        ...

    def decode_line(self, num_seqs: int) -> DecodeLine:
        """Returns what one decode step of ``num_seqs`` >= 1 sequences takes; both numbers >= 0, ``q_s`` above."""
        ...

    def evict_s(self, num_tokens: int) -> float:
        """Returns what an eviction from a cache of ``num_tokens`` adds to the step in which it happens; >= 0."""
        ...

    def restore_s(self, num_tokens: int) -> float:
        """Returns what bringing offloaded KV of ``num_tokens`` back adds to the step in which it happens; >= 0."""
        ...


class EngineTimes(Protocol):
    """An estimator that learns while the engine runs."""

    @property
    def expected(self) -> ExecutionTime:
        """Estimates that are too high as often as too low."""
        ...

    @property
    def cautious(self) -> ExecutionTime:
        """Estimates that are rarely too low."""
        ...

    @property
    def is_known(self) -> bool:
        """Whether they may be relied on to refuse a request."""
        ...

    @property
    def drift(self) -> float | None:
        """Measured over profiled time of recent decode steps; None without a profile."""
        ...

    @property
    def source(self) -> str:
        """Where the estimates come from, for people: a profile and when it was measured, or the steps."""
        ...

    def observe(self, chunks: Sequence[WorkChunk], duration_s: float) -> None:
        """Learns from a step that did nothing but compute ``chunks``."""
        ...

    def rest(self, idle_s: float) -> None:
        """Notes that for ``idle_s`` no step told anything of the engine."""
        ...
