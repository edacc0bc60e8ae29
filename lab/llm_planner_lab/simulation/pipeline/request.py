# SPDX-License-Identifier: Apache-2.0
"""What is asked of a simulated pipeline, and what becomes of it."""

from dataclasses import dataclass, field

from llm_planner.core.time_utility import NORMAL, TimeUtility


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRequest:
    """One request of a workload.

    Attributes:
        request_id: Unique within its workload.
        arrival_s: When it comes.
        num_prompt_tokens: >= 1.
        num_output_tokens: It ends after this many, >= 1.
        max_output_tokens: What a scheduler may know of that beforehand; by default the exact number, as in a benchmark
            that ignores the end-of-sequence token.
        time_utility: What its tokens are worth as time goes by.
    """

    request_id: int
    arrival_s: float = 0.0
    num_prompt_tokens: int
    num_output_tokens: int
    max_output_tokens: int = 0
    time_utility: TimeUtility = NORMAL

    def __post_init__(self) -> None:
        if min(self.num_prompt_tokens, self.num_output_tokens) < 1:
            raise ValueError(f"request {self.request_id}: prompt and output need 1 token or more")


@dataclass(slots=True, eq=False)
class Sequence:
    """A request under way; only the scheduler changes it.

    Attributes:
        request: What was asked.
        most_tokens: Of prompt and output, as far as a scheduler knows.
        num_tokens: Of the prompt, and those that came out.
        num_scheduled: Of them, those that a micro-batch computes or has computed.
        num_blocks: KV blocks that it holds.
        num_cached_blocks: Of those that it held before it was preempted, the first ones that were not taken yet.
        num_preemptions: How often it lost its KV; what micro-batches of before bring is not its own any more.
        token_times_s: When its tokens came out.
    """

    request: PipelineRequest
    most_tokens: int = field(init=False)
    num_tokens: int = field(init=False)
    num_scheduled: int = 0
    num_blocks: int = 0
    num_cached_blocks: int = 0
    num_preemptions: int = 0
    token_times_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        request = self.request
        self.num_tokens = request.num_prompt_tokens
        self.most_tokens = request.num_prompt_tokens + (request.max_output_tokens or request.num_output_tokens)

    @property
    def num_unscheduled(self) -> int:
        """Tokens that no micro-batch has yet: 0 while the last one is in flight, 1 if it decodes."""
        return self.num_tokens - self.num_scheduled

    @property
    def waits_since_s(self) -> float:
        """When it came, or its last token did."""
        return self.token_times_s[-1] if self.token_times_s else self.request.arrival_s

    @property
    def num_output_tokens(self) -> int:
        """Tokens that came out."""
        return self.num_tokens - self.request.num_prompt_tokens
