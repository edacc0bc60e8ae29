# SPDX-License-Identifier: Apache-2.0
"""One micro-batch in the making, and made."""

from dataclasses import dataclass

from llm_planner.scheduling.pipeline.pacer import Share
from llm_planner_lab.simulation.pipeline.request import Sequence


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What goes through the stages together.

    Attributes:
        members: Sequences, each with the number of times it had been preempted when it joined, and whether this
            computes the last of its tokens: only then another one comes out.
        num_tokens: That are computed.
        kv_tokens: In the caches of the members before.
    """

    members: tuple[tuple[Sequence, int, bool], ...]
    num_tokens: int
    kv_tokens: int


class MicroBatchBuilder:
    """Counts what a share still has room for; lives for one micro-batch.

    Args:
        share: What it may hold.
    """

    def __init__(self, share: Share) -> None:
        self.budget = share.token_budget
        self._num_decodes_left = share.token_budget if share.num_decodes is None else share.num_decodes
        self._num_prompts_left = share.token_budget if share.num_prompts is None else share.num_prompts
        self._num_tokens = self._kv_tokens = 0
        self.num_prefill_tokens = 0
        self.parts: list[tuple[Sequence, int, bool]] = []
        self._held: set[int] = set()

    @property
    def has_room_for_decode(self) -> bool:
        """Whether one more sequence may decode in it."""
        return self.budget > 0 and self._num_decodes_left > 0

    @property
    def has_room_for_prompt(self) -> bool:
        """Whether one more prompt may begin in it."""
        return self.budget > 0 and self._num_prompts_left > 0

    def holds(self, sequence: Sequence) -> bool:
        """Returns whether it is in it already."""
        return sequence.request.request_id in self._held

    def add(self, sequence: Sequence, num_tokens: int, *, is_new: bool = False) -> None:
        """Adds the next ``num_tokens`` of a sequence, whose blocks are there."""
        if is_new or num_tokens > 1:
            self.num_prefill_tokens += num_tokens
        else:
            self._num_decodes_left -= 1
        self._num_prompts_left -= is_new
        self.budget -= num_tokens
        self._num_tokens += num_tokens
        self._kv_tokens += sequence.num_scheduled
        sequence.num_scheduled += num_tokens
        self.parts.append((sequence, sequence.num_preemptions, sequence.num_unscheduled == 0))
        self._held.add(sequence.request.request_id)

    def build(self) -> MicroBatch:
        """Returns it."""
        return MicroBatch(tuple(self.parts), self._num_tokens, self._kv_tokens)
