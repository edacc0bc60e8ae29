# SPDX-License-Identifier: Apache-2.0
"""What an eviction method is: a score for every token of a prompt, per layer and KV head. One method, one file."""

from dataclasses import dataclass
from typing import Protocol

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptKV:
    """What one layer knows of a prompt that is computed in full.

    Attributes:
        keys: (num_kv_heads, num_tokens, head_dim), turned by their positions; not to be written.
        queries: (num_heads, num_observed, head_dim) of the observation window, which ends with the prompt; None for a
            method that needs none.
    """

    keys: torch.Tensor
    queries: torch.Tensor | None = None


class EvictionMethod(Protocol):
    """Says what to keep. Which tokens are protected, and how many leave, is not its business."""

    @property
    def needs_queries(self) -> bool:
        """Whether the queries of the observation window must be remembered while the prompt is computed."""
        ...

    def scores(self, prompt: PromptKV) -> torch.Tensor:
        """Returns (num_kv_heads, num_tokens): among tokens that may leave, those with the lowest scores do.

        Of equal scores the later token leaves.
        """
        ...
