# SPDX-License-Identifier: Apache-2.0
"""Which requests of the roster go into the next micro-batch of a pipeline: a pacer's shares, on vLLM's requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_planner.scheduling.pipeline.pacer import Pacer, PipelineLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A request on the roster.

    Attributes:
        num_tokens: That could be computed now; 0 if all are in flight.
        kv_tokens: In its cache, steps in flight included.
        is_begun: Whether vLLM has admitted it.
        is_urgent: Whether it must not be held back.
    """

    request_id: str
    num_tokens: int
    kv_tokens: int = 0
    is_begun: bool = True
    is_urgent: bool = False

    @property
    def is_prompt(self) -> bool:
        """Whether it has a prompt to compute, or tokens to compute again."""
        return not self.is_begun or self.num_tokens > 1


class MicroBatches:
    """Divides the work of vLLM's pipeline, as a pacer of ours says: Algorithms 1 and 2 of the paper, or ours.

    Dynamic Micro-Batch and Token-Budget Scheduling for IoT-Scale Pipeline-Parallel LLM Inference, section 4.

    Args:
        pacer: Asked before each micro-batch; the simulator asks the same one.
    """

    def __init__(self, pacer: Pacer) -> None:
        self._pacer = pacer
        self._prompts: frozenset[str] = frozenset()

    def choose(self, candidates: Sequence[Candidate], num_in_flight: int) -> tuple[list[str], int]:
        """Returns the requests of the next micro-batch, most pressing first, and how many tokens it may hold.

        Args:
            candidates: In the order of service.
            num_in_flight: Micro-batches that have not come back.
        """
        self._prompts = frozenset(c.request_id for c in candidates if c.is_prompt)
        ready = [c for c in candidates if c.num_tokens]
        if not ready:
            return [], 0
        share = self._pacer.next(_load(candidates), num_in_flight)
        if num_in_flight >= share.num_in_flight or not share.token_budget:
            return [], 0
        pressing = sorted(ready, key=lambda c: not c.is_urgent)
        decodes = [c for c in pressing if not c.is_prompt][: share.num_decodes]
        new = [c for c in pressing if not c.is_begun][: share.num_prompts]
        begun = [c for c in pressing if c.is_prompt and c.is_begun]
        if new and new[0].is_urgent:  # vLLM takes those that it has admitted first
            begun = [c for c in begun if c.is_urgent]
        return [c.request_id for c in (*decodes, *begun, *new)], share.token_budget

    def scheduled(self, num_tokens: Mapping[str, int]) -> None:
        """Learns what vLLM put into the micro-batch."""
        if num_tokens:
            self._pacer.scheduled(sum(n for name, n in num_tokens.items() if name in self._prompts))


def _load(candidates: Sequence[Candidate]) -> PipelineLoad:
    decodes = [c for c in candidates if not c.is_prompt]
    waiting = [c.num_tokens for c in candidates if not c.is_begun]
    return PipelineLoad(
        num_decodes=len(decodes),
        num_ready=sum(c.num_tokens > 0 for c in decodes),
        kv_tokens=sum(c.kv_tokens for c in decodes),
        num_prefill_tokens=sum(c.num_tokens for c in candidates if c.is_begun and c.is_prompt),
        next_prompt_tokens=waiting[0] if waiting else 0,
        waiting_tokens=sum(waiting),
        num_urgent_ready=sum(c.is_urgent and c.num_tokens > 0 for c in decodes),
    )
