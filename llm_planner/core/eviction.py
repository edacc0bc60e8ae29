# SPDX-License-Identifier: Apache-2.0
"""KV eviction: which tokens of a prompt may lose their keys and values, and how many do.

The arithmetic that both sides share: the scheduler counts blocks and the backend moves tensors, and they must agree to
the token.
"""

import math
from dataclasses import dataclass

from llm_planner.core.step import Sequence

SINK_TOKENS = 4
"""First tokens of a prompt that are always kept: attention sinks (StreamingLLM, arXiv 2309.17453, section 3.1)."""
OBSERVATION_TOKENS = 32
"""Last tokens of a prompt: always kept; their queries vote on the others (SnapKV, arXiv 2404.14469, section 4)."""

_ROUNDING = 1e-6  # a ratio that came from a count of tokens gives that count again


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A decision to remove part of a generation's KV, once and for good.

    Attributes:
        after_tokens: Tokens that are computed with all KV: the prompt, or more if it was decided later. A generation
            that is preempted and computed again is evicted again at the same place, so it goes on as it was.
        num_removed_tokens: How many leave, from every layer and KV head; which ones may differ between them.
    """

    after_tokens: int
    num_removed_tokens: int


def observation_start(sequence: Sequence) -> int:
    """Returns where the observation window begins: it lies behind the shared prefix and ends with the prompt."""
    return max(sequence.num_cached_tokens, len(sequence.prompt_token_ids) - OBSERVATION_TOKENS)


def removable_spans(sequence: Sequence) -> tuple[tuple[int, int], ...]:
    """Returns half-open ranges of positions, ascending and apart, whose KV may be removed.

    They are ``sequence.evictable`` without the sinks, the observation window, and the shared prefix: what others hold
    too is never touched, and a private copy of what is left of it would take memory instead of giving some.
    """
    first = max(SINK_TOKENS, sequence.num_cached_tokens)
    spans: list[tuple[int, int]] = []
    for start, end in sorted(sequence.evictable):
        start, end = max(start, first), min(end, observation_start(sequence))  # noqa: PLW2901 - narrowed, same meaning
        if start < end:
            spans.append((start, end))
            first = end
    return tuple(spans)


def num_removable_tokens(sequence: Sequence) -> int:
    """Returns how many tokens may lose their KV at most."""
    return sum(end - start for start, end in removable_spans(sequence))


def num_removed_tokens(sequence: Sequence, eviction_ratio: float) -> int:
    """Returns how many tokens an eviction of ``eviction_ratio`` removes: that share of the prompt's KV, rounded down.

    It is never more than is removable; TimeBill (Eq. (11)) clips the ratio to ``alpha_max``, we clip the count.

    Args:
        sequence: Whose.
        eviction_ratio: Share of the prompt's KV that is removed, 0 to 1.

    Raises:
        ValueError: If the ratio is not in that range.
    """
    if not (math.isfinite(eviction_ratio) and 0.0 <= eviction_ratio <= 1.0):
        raise ValueError(f"eviction_ratio must be between 0 and 1, not {eviction_ratio}")
    asked = math.floor(eviction_ratio * len(sequence.prompt_token_ids) + _ROUNDING)
    return min(asked, num_removable_tokens(sequence))
