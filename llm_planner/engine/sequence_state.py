# SPDX-License-Identifier: Apache-2.0
"""What the engine remembers of one generation."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from llm_planner.core.step import SamplingParams
from llm_planner.engine.drafting import Drafter
from llm_planner.engine.eviction.observation import Evictable
from llm_planner.engine.grammar import Matcher


@dataclass(slots=True, eq=False, kw_only=True)
class SequenceState:
    """A generation between its first step and its release.

    Attributes:
        token_ids: Prompt and output; the last output token, and those that the grammar forced behind it, have no KV
            yet.
        adapter: Which one computes all of its KV; None for the model alone.
        num_computed_tokens: Tokens that went through the model; the position of the next one.
        kv_len: Tokens whose KV is kept. Equals ``num_computed_tokens`` as long as nothing is evicted; positions never
            go back when KV is removed, which is why these are two counters.
        blocks: Block table: shared prefix blocks first (never written), then own ones. Empty while offloaded, but for
            the shared ones.
        num_shared_blocks: How many of ``blocks`` belong to the prefix store.
        host_kv: Copy of the own blocks while offloaded.
        evictable: What may be evicted; None if nothing may, or once it was.
        drafter: Guesses what comes next; None where nothing is drafted.
        draft: Its guess: tokens that may follow ``token_ids``.
    """

    request_id: str
    token_ids: list[int]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    grammar: str | None = None
    matcher: Matcher | None = None
    adapter: str | None = None
    num_computed_tokens: int = 0
    kv_len: int = 0
    blocks: list[int] = field(default_factory=list)
    num_shared_blocks: int = 0
    host_kv: torch.Tensor | None = None
    evictable: Evictable | None = None
    drafter: Drafter | None = None
    draft: tuple[int, ...] = ()
    is_finished: bool = False
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.sampling.seed)

    def restart(self, token_ids: Iterable[int], matcher: Matcher | None, drafter: Drafter | None) -> None:
        """Makes ``token_ids``, which begin with those that are computed, the prompt of what it writes from now on.

        KV that was to be evicted stays: what is evicted counts on the prompt that it had.
        """
        self.token_ids = list(token_ids)
        self.matcher, self.drafter, self.draft = matcher, drafter, ()
        self.is_finished, self.evictable = False, None
        self.rng = random.Random(self.sampling.seed)

    @property
    def num_uncomputed_tokens(self) -> int:
        """Rest of the prompt; while decoding 1, and the forced tokens."""
        return len(self.token_ids) - self.num_computed_tokens

    def advance(self, num_tokens: int) -> None:
        """Counts tokens that were computed and whose KV is kept."""
        self.num_computed_tokens += num_tokens
        self.kv_len += num_tokens

    def append(self, token_id: int, eos_token_ids: frozenset[int] = frozenset()) -> None:
        """Adds an output token that the grammar has accepted; the end of the text, or of the grammar, finishes it."""
        self.token_ids.append(token_id)
        self.is_finished = token_id in eos_token_ids or (self.matcher is not None and self.matcher.is_complete)

    def catch_up(self, output_token_ids: Iterable[int]) -> bool:
        """Brings grammar and random numbers to where they were before it was preempted; False if that cannot be."""
        for token_id in output_token_ids:
            if self.matcher is not None and not self.matcher.try_accept(token_id):
                return False
            if self.sampling.temperature > 0:
                self.rng.random()
        return True

    def take_forced(self) -> int | None:
        """Returns the token that the grammar forces, if it forces one, and moves grammar and random numbers on."""
        forced = None if self.matcher is None else self.matcher.forced_token()
        if self.matcher is None or forced is None or not self.matcher.try_accept(forced):
            return None
        if self.sampling.temperature > 0:
            self.rng.random()  # every token has its number, so that ``catch_up`` needs only count
        return forced

    @property
    def own_blocks(self) -> list[int]:
        """Blocks that only this sequence holds."""
        return self.blocks[self.num_shared_blocks :]

    @property
    def is_offloaded(self) -> bool:
        """True if the own blocks are in host memory."""
        return self.host_kv is not None
