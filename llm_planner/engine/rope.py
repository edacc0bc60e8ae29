# SPDX-License-Identifier: Apache-2.0
"""Rotary position embeddings (RoFormer, arXiv 2104.09864), with the frequency scaling of Llama 3.1."""

import math

import torch

from llm_planner.engine.model_config import ModelConfig, RopeScaling


class RotaryTable:
    """Cosine and sine of every position; the sine carries the sign of the rotated half, so that a roll rotates.

    Attributes:
        cos: (max_model_len, 1, head_dim)
        sin: (max_model_len, 1, head_dim), first half negated
    """

    def __init__(self, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> None:
        inverse = _inverse_frequencies(config)
        angles = torch.arange(config.max_model_len, dtype=torch.float32)[:, None] * inverse
        cos, sin = angles.cos(), angles.sin()
        self.cos = torch.cat((cos, cos), dim=-1)[:, None].to(device=device, dtype=dtype)
        self.sin = torch.cat((-sin, sin), dim=-1)[:, None].to(device=device, dtype=dtype)

    def at(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns cosine and sine, each (num_tokens, 1, head_dim), of ``positions`` (num_tokens,)."""
        return self.cos.index_select(0, positions), self.sin.index_select(0, positions)


def rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Returns ``heads`` (num_tokens, num_heads, head_dim) turned by their position."""
    return torch.addcmul(heads * cos, heads.roll(heads.shape[-1] // 2, dims=-1), sin)


def _inverse_frequencies(config: ModelConfig) -> torch.Tensor:
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    inverse = 1.0 / config.rope_theta**exponents
    return inverse if config.rope_scaling is None else _scale_llama3(inverse, config.rope_scaling)


def _scale_llama3(inverse: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    """Returns frequencies with long wavelengths divided by the factor, short ones kept, and a ramp between."""
    wavelengths = 2 * math.pi / inverse
    ramp = (scaling.original_max_len / wavelengths - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    smooth = (1 - ramp) * inverse / scaling.factor + ramp * inverse
    is_long = wavelengths > scaling.original_max_len / scaling.low_freq_factor
    is_short = wavelengths < scaling.original_max_len / scaling.high_freq_factor
    return torch.where(is_long, inverse / scaling.factor, torch.where(is_short, inverse, smooth))
