# SPDX-License-Identifier: Apache-2.0
"""What a layer computes between its matrix products, attention aside: by torch, or by kernels of our own."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch.nn.functional import gelu, rms_norm, silu

from llm_planner.engine.kernels import Kernels
from llm_planner.engine.rope import rotate

_ACTIVATIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": silu,
    "gelu_pytorch_tanh": partial(gelu, approximate="tanh"),
}


class Operations:
    """Norm, rotation and activation, wherever the weights are."""

    def __init__(self, activation: str) -> None:
        self._activate = _ACTIVATIONS[activation]

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """Returns ``x`` (..., size) divided by its root mean square, times ``weight``; computed in its type."""
        return rms_norm(x.to(weight.dtype), weight.shape, weight, eps).to(x.dtype)

    def rotate(self, heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Returns ``heads`` (num_rows, num_heads, head_dim) turned by their position; they may be overwritten."""
        return rotate(heads, cos, sin)

    def gated(self, gate_up: torch.Tensor) -> torch.Tensor:
        """Returns activation(gate) * up (num_rows, size) of both, side by side (num_rows, 2 * size)."""
        gate, up = gate_up.chunk(2, dim=-1)
        return self._activate(gate) * up


class CompiledOperations(Operations):
    """The same by our kernels, as far as there is one."""

    def __init__(self, activation: str, kernels: Kernels) -> None:
        super().__init__(activation)
        self._kernels = kernels
        self._is_silu = activation == "silu"

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """See ``Operations``."""
        if weight.dtype != x.dtype:
            return super().rms_norm(x, weight, eps)
        return self._kernels.rms_norm(x, weight, eps)

    def rotate(self, heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """See ``Operations``."""
        return self._kernels.rotate(heads, cos, sin)

    def gated(self, gate_up: torch.Tensor) -> torch.Tensor:
        """See ``Operations``."""
        return self._kernels.gated_silu(gate_up) if self._is_silu else super().gated(gate_up)


def make_operations(activation: str, kernels: Kernels | None) -> Operations:
    """Returns the faster ones that are there."""
    return Operations(activation) if kernels is None else CompiledOperations(activation, kernels)
