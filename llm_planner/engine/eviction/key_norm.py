# SPDX-License-Identifier: Apache-2.0
"""Eviction by key norm (Devoto et al., arXiv 2406.11430): keys of low norm are attended most, so they stay."""

import torch

from llm_planner.engine.eviction.interface import PromptKV


class KeyNorm:
    """Scores a token by the negative L2 norm of its key (section 3), which turning it by its position does not change.

    Deviation: every layer is evicted, where the paper spares the first two, so that one block table serves all layers.
    """

    needs_queries = False

    def scores(self, prompt: PromptKV) -> torch.Tensor:
        """See ``EvictionMethod``."""
        # In half precision equal tokens tie. In the first layer their norms differ by rounding alone, which depends on
        # the chunks that the prompt came in, and the choice must not.
        return -prompt.keys.float().norm(dim=-1).half()
