# SPDX-License-Identifier: Apache-2.0
"""SnapKV (Li et al., arXiv 2404.14469): the last tokens of the prompt vote on the others with their attention."""

import math

import torch
from torch.nn.functional import max_pool1d

from llm_planner.engine.eviction.interface import PromptKV

KERNEL_TOKENS = 7  # the paper's for LongBench, section 5.2


class SnapKV:
    """Scores a token by the attention that the observation window pays to it or to a neighbour.

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
