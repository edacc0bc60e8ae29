# SPDX-License-Identifier: Apache-2.0
"""StreamingLLM (Xiao et al., arXiv 2309.17453): the first tokens and the most recent ones."""

import torch

from llm_planner.engine.eviction.interface import PromptKV


class StreamingLLM:
    """Scores a token by its position: the oldest leave. The sinks are protected for every method (``core.eviction``).

    Deviation: tokens keep their positions, where the paper renumbers those in the cache. It must, to go beyond the
    length that a model was trained for; we stay below it, and keys are stored turned by their position.
    """

    needs_queries = False

    def scores(self, prompt: PromptKV) -> torch.Tensor:
        """See ``EvictionMethod``."""
        num_kv_heads, num_tokens, _ = prompt.keys.shape
        positions = torch.arange(num_tokens, dtype=torch.float32, device=prompt.keys.device)
        return positions.expand(num_kv_heads, -1)
