# SPDX-License-Identifier: Apache-2.0
"""What a scheduler of a pipeline asks before it builds a micro-batch, and what answers."""

from dataclasses import dataclass, replace
from typing import Protocol

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner.scheduling.pipeline.micro_batch import paper_num_micro_batches
from llm_planner.scheduling.pipeline.token_budget import DynamicTokenBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineLoad:
    """What is there to do, as plain numbers. Any scheduler can count them: ours, the simulator's, vLLM's.

    Attributes:
        num_decodes: Sequences whose prompt is computed, those in flight included.
        num_ready: Of them, those whose next token may be computed now.
        kv_tokens: In the caches of all of them.
        num_prefill_tokens: Prompt tokens (and tokens to recompute) of admitted sequences that no micro-batch has yet.
        next_prompt_tokens: Of the first waiting request, if memory has room for it; else 0.
        waiting_tokens: Of all waiting requests that memory has room for, the first one included.
        num_urgent_ready: Sequences among ``num_ready`` that lose by being held back (``urgency.py``).
    """

    num_decodes: int = 0
    num_ready: int = 0
    kv_tokens: int = 0
    num_prefill_tokens: int = 0
    next_prompt_tokens: int = 0
    waiting_tokens: int = 0
    num_urgent_ready: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What the next micro-batch may hold.

    Attributes:
        num_in_flight: Most micro-batches in flight, this one included: at this number, none is built now.
        token_budget: Most tokens of this one; 0 if there is nothing for it.
        num_decodes: Most ready sequences it takes along; None if the budget alone limits them.
        num_prompts: Most prompts whose computation begins in it; None if the budget alone limits them.
    """

    num_in_flight: int
    token_budget: int
    num_decodes: int | None = None
    num_prompts: int | None = None


class Pacer(Protocol):
    """Divides work among micro-batches; asked before each one.

    A scheduler calls ``next``, builds a micro-batch within the share, most pressing sequences first and decodes before
    prompts, and says with ``scheduled`` what it holds. It need not call ``scheduled`` if it built none.
    """

    def next(self, load: PipelineLoad, num_in_flight: int) -> Share:
        """Returns the share of the next micro-batch while ``num_in_flight`` others are under way."""

    def scheduled(self, num_prefill_tokens: int) -> None:
        """Learns how many prompt tokens the micro-batch of the last share holds."""


class StaticPacer:
    """A fixed budget and as many micro-batches as stages: vLLM's way, which packs whatever is ready into the first.

    Args:
        num_stages: Micro-batches in flight, >= 1.
        max_num_batched_tokens: Of every micro-batch, >= 1.
    """

    def __init__(self, num_stages: int, max_num_batched_tokens: int) -> None:
        require_pipeline(num_stages, max_num_batched_tokens)
        self._share = Share(num_in_flight=num_stages, token_budget=max_num_batched_tokens)

    def next(self, load: PipelineLoad, num_in_flight: int) -> Share:
        """Returns the same share always."""
        return self._share

    def scheduled(self, num_prefill_tokens: int) -> None:
        """Learns nothing."""


class PaperPacer:
    """Algorithm 1, and with ``times`` Algorithm 2 too, as printed.

    What the paper leaves open, as read here: prompt tokens are announced to Algorithm 1 when no announced ones are
    left, one request at a time, because a micro-batch holds "at most one prefill chunk"; ``num_total_tokens`` of
    Algorithm 2 is one token per decoding sequence and what Algorithm 1 still owes.

    Args:
        num_stages: ``pp_size``, >= 1.
        max_num_batched_tokens: No budget exceeds it, >= 1.
        times: Computation and communication models; None for Algorithm 1 alone, with ``num_stages`` micro-batches.
        max_num_micro_batches: Most that Algorithm 2 may choose; by default twice as many as stages.
    """

    def __init__(
        self,
        num_stages: int,
        max_num_batched_tokens: int,
        times: PipelineTimes | None = None,
        max_num_micro_batches: int | None = None,
    ) -> None:
        require_pipeline(num_stages, max_num_batched_tokens)
        self._num_stages = num_stages
        self._max_num_batched_tokens = max_num_batched_tokens
        self._times = times
        self._max_num_micro_batches = max_num_micro_batches or 2 * num_stages
        self._budget = DynamicTokenBudget()
        self._prefill_share = 0

    def next(self, load: PipelineLoad, num_in_flight: int) -> Share:
        """Returns an equal share of one prompt and of all decodes."""
        known = load.num_prefill_tokens or load.next_prompt_tokens
        new = max(0, known - self._budget.num_owed_tokens)
        number = self._num_stages
        if self._times is not None:
            total = load.num_decodes + self._budget.num_owed_tokens + new
            number = paper_num_micro_batches(self._num_stages, self._max_num_micro_batches, self._times, total)
        if num_in_flight >= number:
            return Share(num_in_flight=number, token_budget=0)
        self._prefill_share = self._budget.next_prefill_share(number, new)
        tokens = self._prefill_share - (-load.num_decodes // number)
        return Share(num_in_flight=number, token_budget=min(tokens, self._max_num_batched_tokens), num_prompts=1)

    def scheduled(self, num_prefill_tokens: int) -> None:
        """Gives the unused part of the share to the next micro-batch."""
        self._budget.give_back(max(0, self._prefill_share - num_prefill_tokens))
        self._prefill_share = 0


class UrgentFirst:
    """A pacer whose balanced shares hold back no urgent sequence.

    Ours; the paper balances regardless of which requests wait. The scheduler takes urgent sequences first; the
    share is widened where it would not hold all that decode. An urgent prompt comes before any other, but its chunks
    are no larger: a micro-batch that is longer than the others holds up the urgent ones behind it too.

    Args:
        pacer: Whose shares are widened.
        max_num_batched_tokens: No budget exceeds it.
    """

    def __init__(self, pacer: Pacer, max_num_batched_tokens: int) -> None:
        self._pacer = pacer
        self._max_num_batched_tokens = max_num_batched_tokens

    def next(self, load: PipelineLoad, num_in_flight: int) -> Share:
        """Returns the pacer's share, with room for what is urgent."""
        share = self._pacer.next(load, num_in_flight)
        if num_in_flight >= share.num_in_flight:
            return share
        decodes = None if share.num_decodes is None else max(share.num_decodes, load.num_urgent_ready)
        budget = min(max(share.token_budget, load.num_urgent_ready), self._max_num_batched_tokens)
        return replace(share, token_budget=budget, num_decodes=decodes)

    def scheduled(self, num_prefill_tokens: int) -> None:
        """Tells the pacer."""
        self._pacer.scheduled(num_prefill_tokens)


def require_pipeline(num_stages: int, max_num_batched_tokens: int) -> None:
    """Raises unless there is a stage and a token for each micro-batch.

    Raises:
        PlannerError: INVALID_CONFIG.
    """
    if num_stages < 1:
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"a pipeline needs 1 stage or more, not {num_stages}")
    if max_num_batched_tokens < 1:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG,
            f"a token budget of {max_num_batched_tokens} schedules nothing: max_num_batched_tokens must be 1 or more",
        )
