# SPDX-License-Identifier: Apache-2.0
"""Ours, an alternative to Algorithms 1 and 2: shares from the models of computation and communication."""

from llm_planner.core.pipeline_times import PipelineTimes
from llm_planner.scheduling.pipeline.micro_batch import cycle_s, shortest_cycle
from llm_planner.scheduling.pipeline.pacer import PipelineLoad, Share, require_pipeline

PROMPT_STRETCH = 2.0
"""A cycle with prompts may last this many times as long as one without."""
LEAST_CHUNK = 16


class BalancedPacer:
    """As many micro-batches as make the shortest cycle, decodes in equal numbers, prompts where they add little delay.

    Algorithm 1 spreads a prompt over one cycle, however long that makes it, and Algorithm 2 minimizes a gap. Here the
    models say how long a cycle lasts. Prompt tokens fill what the slowest part of the pipeline would otherwise idle; if
    more wait, they may stretch the cycle, but no more than ``PROMPT_STRETCH`` times.

    Args:
        num_stages: >= 1.
        max_num_batched_tokens: No budget exceeds it, >= 1.
        times: Computation and communication models.
        max_num_micro_batches: By default twice as many as stages.
    """

    def __init__(
        self,
        num_stages: int,
        max_num_batched_tokens: int,
        times: PipelineTimes,
        max_num_micro_batches: int | None = None,
    ) -> None:
        require_pipeline(num_stages, max_num_batched_tokens)
        self._num_stages = num_stages
        self._max_num_batched_tokens = max_num_batched_tokens
        self._times = times
        self._max_num_micro_batches = max_num_micro_batches or 2 * num_stages
        self._seen: dict[tuple[int, int, bool], tuple[int, int]] = {}

    def next(self, load: PipelineLoad, num_in_flight: int) -> Share:
        """Returns an equal share of the decodes, and the prompt tokens that fit alongside them."""
        outstanding = load.num_prefill_tokens + load.waiting_tokens
        number, chunk = self._plan(load.num_decodes, load.kv_tokens, bool(outstanding))
        decodes = -(-load.num_decodes // number)
        prompt = min(outstanding, chunk)
        budget = min(decodes + prompt, self._max_num_batched_tokens)
        return Share(num_in_flight=number, token_budget=budget, num_decodes=decodes)

    def scheduled(self, num_prefill_tokens: int) -> None:
        """Learns nothing: every share is made from what is there."""

    def _plan(self, num_decodes: int, kv_tokens: int, has_prompts: bool) -> tuple[int, int]:
        """Returns the number of micro-batches and the prompt tokens of each; remembered for similar loads."""
        key = (num_decodes, kv_tokens >> 9, has_prompts)
        if key not in self._seen:
            if len(self._seen) > 10_000:
                self._seen.clear()
            self._seen[key] = self._planned(num_decodes, kv_tokens, has_prompts)
        return self._seen[key]

    def _planned(self, num_decodes: int, kv_tokens: int, has_prompts: bool) -> tuple[int, int]:
        stages, times = self._num_stages, self._times
        number = shortest_cycle(stages, self._max_num_micro_batches, times, num_decodes, kv_tokens)
        if not has_prompts:
            return number, 0
        number = max(number, min(stages + 1, self._max_num_micro_batches))
        decodes, share = num_decodes / number, kv_tokens / number
        most_s = PROMPT_STRETCH * cycle_s(stages, number, times, max(1.0, decodes), share)
        low, high = LEAST_CHUNK, self._max_num_batched_tokens
        while low < high:  # the largest chunk whose cycle is short enough
            middle = (low + high + 1) // 2
            if cycle_s(stages, number, times, decodes + middle, share) <= most_s:
                low = middle
            else:
                high = middle - 1
        return number, low
