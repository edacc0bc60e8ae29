# SPDX-License-Identifier: Apache-2.0
"""Protocols: what the upper layers require of a backend, a tokenizer and a clock."""

import sys
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from llm_planner.core.step import SchedulerOutput, StepOutput


class Clock(Protocol):
    """A monotonic clock. Only adapters read it; logic gets ``now_s`` as an argument."""

    def now_s(self) -> float:
        """Returns seconds since an arbitrary origin."""
        ...


class Tokenizer(Protocol):
    """Text to token ids and back, without special tokens unless asked."""

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Tokens that end a generation."""
        ...

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """Returns the ids of ``text``; special-token spellings in it stay plain text unless allowed."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """Returns the bytes that one token stands for (empty for special tokens)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendInfo:
    """What a backend can hold and do.

    Attributes:
        model: Name of the model that it runs.
        num_kv_blocks: Blocks of the KV cache on the accelerator.
        block_size: Tokens per block.
        max_model_len: Most tokens of a sequence, prompt and output together.
        can_offload: Whether suspended KV can move to host memory.
        num_host_blocks: Most blocks that may be there at a time.
        device: What it runs on, as an engine profile names it; empty if that means nothing.
        can_evict: Whether it can remove part of a sequence's KV (``SchedulerOutput.evict``).
        can_insert: Whether it can append tokens to the context of a sequence whose KV it holds
            (``SchedulerOutput.insert``).
        keeps_kv: Whether it accounts for its KV itself: it makes room among the suspended, or has a request wait.
        num_stages: Of a pipeline, over which it divides the layers; what is scheduled runs in as many parts, or more.
    """

    model: str
    num_kv_blocks: int
    block_size: int
    max_model_len: int
    can_offload: bool
    num_host_blocks: int = sys.maxsize
    device: str = ""
    can_evict: bool = False
    can_insert: bool = False
    keeps_kv: bool = False
    num_stages: int = 1


class Backend(Protocol):
    """Runs steps. Owns the weights and the KV cache; decides nothing."""

    @property
    def info(self) -> BackendInfo:
        """Limits of this backend."""
        ...

    def load_prefix(self, prefix_id: str, token_ids: Seq[int], adapter: str | None = None) -> int:
        """Prefills a static prompt prefix once and pins its KV; returns how many tokens are shared from now on.

        Only sequences with the same adapter may share it. The count is a multiple of ``block_size`` and may be 0;
        loading the same prefix again is free.
        """
        ...

    def execute(self, scheduled: SchedulerOutput) -> StepOutput:
        """Runs one step and returns its tokens."""
        ...

    def close(self) -> None:
        """Frees everything; safe to call twice."""
        ...


@runtime_checkable
class InterruptibleBackend(Backend, Protocol):
    """A backend that can give up a step that has begun."""

    def interrupt_by(self, is_pressing: Callable[[float], bool]) -> None:
        """Has ``is_pressing`` asked from time to time while a step runs, with the share of it that is done, 0 to 1.

        If it returns true, the step is given up: no token is computed, everything else that it asks for is done
        (``StepOutput.is_given_up``).
        """
        ...
