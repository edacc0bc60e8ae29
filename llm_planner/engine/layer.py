# SPDX-License-Identifier: Apache-2.0
"""The weights of a decoder layer, by name."""

from dataclasses import dataclass

import torch

from llm_planner.engine.linear import Linear


@dataclass(frozen=True, slots=True)
class FeedForward:
    """Weights of the feed-forward part of a layer, or of one expert."""

    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Weights of one decoder layer; ``qk_norm`` is (num_heads + num_kv_heads, head_dim).

    A layer without a router has one feed-forward part, else one for each expert.
    A ``*_norm`` is applied to what goes into attention or the feed-forward part, a ``*_post_norm`` to what comes out.
    """

    attention_norm: torch.Tensor
    qkv: Linear
    qk_norm: torch.Tensor | None
    output: Linear
    attention_post_norm: torch.Tensor | None
    mlp_norm: torch.Tensor
    router: Linear | None
    feed_forwards: tuple[FeedForward, ...]
    mlp_post_norm: torch.Tensor | None
