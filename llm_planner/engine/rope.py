# SPDX-License-Identifier: Apache-2.0
"""Rotary position embeddings (RoFormer, arXiv 2104.09864), with divided frequencies or the scaling of Llama 3.1."""

import math
from collections.abc import Sequence

import torch

from llm_planner.engine.model_config import ModelConfig, RopeScaling

_FEWEST_ROWS = 1024


class RotaryTable:
    """Cosine and sine of every position; the sine carries the sign of the rotated half, so that a roll rotates.

    It grows with the positions that are asked for: for 128 k of them and heads of 128 it takes 134 MB in float32.

    Attributes:
        cos: (num_rows, 1, head_dim), at most ``max_model_len`` rows.
        sin: As ``cos``, first half negated.
    """

    def __init__(self, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> None:
        self._inverse = _inverse_frequencies(config)
        self._amplitude = config.rope_amplitude
        self._max_rows = config.max_model_len
        self.cos = self.sin = torch.empty(0, 1, config.head_dim, dtype=dtype, device=device)

    def at(self, positions: Sequence[int], index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns cosine and sine, each (num_tokens, 1, head_dim).

        Args:
            positions: Below ``max_model_len``.
            index: The same on the device (num_tokens,).
        """
        num_rows = max(positions) + 1
        if num_rows > len(self.cos):
            self._grow(min(self._max_rows, max(num_rows, 2 * len(self.cos), _FEWEST_ROWS)))
        return self.cos.index_select(0, index), self.sin.index_select(0, index)

    def _grow(self, num_rows: int) -> None:
        angles = torch.arange(len(self.cos), num_rows, dtype=torch.float32)[:, None] * self._inverse
        cos, sin = angles.cos() * self._amplitude, angles.sin() * self._amplitude
        self.cos = torch.cat((self.cos, torch.cat((cos, cos), dim=-1)[:, None].to(self.cos)))
        self.sin = torch.cat((self.sin, torch.cat((-sin, sin), dim=-1)[:, None].to(self.sin)))


def rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Returns ``heads`` (num_tokens, num_heads, head_dim) turned by their position."""
    return torch.addcmul(heads * cos, heads.roll(heads.shape[-1] // 2, dims=-1), sin)


def _inverse_frequencies(config: ModelConfig) -> torch.Tensor:
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    inverse = 1.0 / config.rope_theta**exponents
    if config.rope_divisors:
        inverse /= torch.tensor(config.rope_divisors)
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
