# SPDX-License-Identifier: Apache-2.0
"""Eviction methods: what of a prompt's KV is kept, by the scores of its tokens (``interface.EvictionMethod``)."""

import math

import torch
from torch.nn.functional import max_pool1d

from llm_planner.engine.eviction.interface import PromptKV

KERNEL_TOKENS = 7  # SnapKV's for LongBench, section 5.2


class SnapKV:
    """Li et al., arXiv 2404.14469: the last tokens of the prompt vote on the others with their attention.

    Scores a token by the attention that the observation window pays to it or to a neighbour.
    Votes are the attention weights of the window, summed over its queries (section 4.1), then max-pooled along the
    prompt, so that what surrounds an important token is kept with it (section 4.2).

    Deviation: with grouped queries, the votes of all query heads of a KV head are added up, since they share its cache.
    """

    needs_queries = True

    def scores(self, prompt: PromptKV) -> torch.Tensor:
        """See ``EvictionMethod``."""
        keys, queries = prompt.keys, prompt.queries
        if queries is None:
            raise ValueError("SnapKV needs the queries of the observation window")
        num_kv_heads, num_tokens, head_dim = keys.shape
        num_observed = queries.shape[1]
        grouped = queries.reshape(num_kv_heads, -1, head_dim) * head_dim**-0.5
        logits = (grouped @ keys.transpose(1, 2)).float().view(num_kv_heads, -1, num_observed, num_tokens)
        is_future = torch.ones(num_observed, num_observed, dtype=torch.bool, device=keys.device).triu(1)
        logits[..., num_tokens - num_observed :].masked_fill_(is_future, -math.inf)
        votes = logits.softmax(dim=-1).sum(dim=(1, 2))
        before_window = votes[:, : num_tokens - num_observed]
        pooled = max_pool1d(before_window, KERNEL_TOKENS, stride=1, padding=KERNEL_TOKENS // 2)
        return torch.cat((pooled, votes[:, num_tokens - num_observed :]), dim=-1)


class StreamingLLM:
    """Xiao et al., arXiv 2309.17453: the first tokens and the most recent ones.

    Scores a token by its position: the oldest leave. The sinks are protected for every method (``core.eviction``).

    Deviation: tokens keep their positions, where the paper renumbers those in the cache. It must, to go beyond the
    length that a model was trained for; we stay below it, and keys are stored turned by their position.
    """

    needs_queries = False

    def scores(self, prompt: PromptKV) -> torch.Tensor:
        """See ``EvictionMethod``."""
        num_kv_heads, num_tokens, _ = prompt.keys.shape
        positions = torch.arange(num_tokens, dtype=torch.float32, device=prompt.keys.device)
        return positions.expand(num_kv_heads, -1)


class KeyNorm:
    """Devoto et al., arXiv 2406.11430: keys of low norm are attended most, so they stay.

    Scores a token by the negative L2 norm of its key (section 3), which turning it by its position does not change.

    Deviation: every layer is evicted, where the paper spares the first two, so that one block table serves all layers.
    """

    needs_queries = False

    def scores(self, prompt: PromptKV) -> torch.Tensor:
        """See ``EvictionMethod``."""
        # In half precision equal tokens tie. In the first layer their norms differ by rounding alone, which depends on
        # the chunks that the prompt came in, and the choice must not.
        return -prompt.keys.float().norm(dim=-1).half()
