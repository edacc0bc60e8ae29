# SPDX-License-Identifier: Apache-2.0
"""Decoder layers whose rows read the cache where its blocks lie, each computed in one call of our kernels.

A decode step of a small model is short. With a dozen calls for each layer, Python takes half as long as the kernels do,
and weights come more slowly from memory that waits in between. Numbers are those of the kernels one by one
(``model.py``).
"""

import ctypes
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from llm_planner.engine.attention import Attention
from llm_planner.engine.decode_attention import DecodeAttention
from llm_planner.engine.kernels import Kernels, can_attend
from llm_planner.engine.layer import Layer
from llm_planner.engine.linear import Linear
from llm_planner.engine.model_config import ModelConfig

_MOST_ROWS = 1024  # of a pass; room that is never used takes no memory
_NORMS = ("attention_norm", "mlp_norm")
_PRODUCTS = ("qkv", "output", "gate_up", "down")
_SIZES = ("hidden_size", "num_heads", "num_kv_heads", "head_dim", "intermediate_size")
_FACTORS = ("rms_norm_eps", "attention_scale")


class _Weights(ctypes.Structure):
    """``Layer`` of kernels.cpp."""

    _fields_: ClassVar[Any] = (
        *((name, ctypes.c_void_p) for name in (*_NORMS, *_PRODUCTS)),
        *((name, ctypes.c_int64) for name in _SIZES),
        *((name, ctypes.c_float) for name in _FACTORS),
    )


class WholeLayers:
    """Layers in which nothing lies between the steps that ``kernels.cpp`` knows.

    Args:
        config: Of their model.
        layers: Their weights.
        kernels: What computes them.
    """

    def __init__(self, config: ModelConfig, layers: Sequence[Layer], kernels: Kernels) -> None:
        self._kernels = kernels
        self._layers = layers  # the kernel reads their memory
        self._weights = [_weights(config, layer) for layer in layers]
        query_size, kv_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        between = config.hidden_size + 2 * query_size + 2 * kv_size + 3 * config.intermediate_size
        self._most_rows = min(kernels.most_rows, _MOST_ROWS)
        self._room = torch.empty(self._most_rows * between)

    def compute(self, index: int, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, attend: Attention) -> bool:
        """Returns whether a layer was computed, in place; else it is to be computed step by step.

        Args:
            index: Of the layer.
            x: Hidden states (num_rows, hidden_size).
            cos: Of their positions (num_rows, 1, head_dim).
            sin: As ``cos``.
            attend: What they see of the cache.
        """
        if x.shape[0] > self._most_rows or not isinstance(attend, DecodeAttention):
            return False
        pages = attend.pages(index)
        if pages is None:
            return False
        self._kernels.layer(ctypes.addressof(self._weights[index]), x, cos, sin, self._room, pages)
        return True


def make_whole_layers(config: ModelConfig, layers: Sequence[Layer], kernels: Kernels | None) -> WholeLayers | None:
    """Returns what computes layers whole; None if that is not possible for this model, on this machine."""
    if kernels is None or not kernels.most_rows or config.activation != "silu":
        return None
    if not can_attend(config.head_dim, config.attention_softcap) or not all(map(_is_known, layers)):
        return None
    return WholeLayers(config, layers, kernels)


def _is_known(layer: Layer) -> bool:
    others = (layer.qk_norm, layer.attention_post_norm, layer.router, layer.mlp_post_norm)
    norms = (layer.attention_norm, layer.mlp_norm)
    return (
        all(other is None for other in others)
        and all(norm.dtype == torch.float32 for norm in norms)
        and all(product.halved is not None and product.bias is None for product in _products(layer))
    )


def _products(layer: Layer) -> Sequence[Linear]:
    (feed_forward,) = layer.feed_forwards
    return layer.qkv, layer.output, feed_forward.gate_up, feed_forward.down


def _weights(config: ModelConfig, layer: Layer) -> _Weights:
    tensors = layer.attention_norm, layer.mlp_norm, *(product.halved for product in _products(layer))
    return _Weights(
        *(tensor.data_ptr() for tensor in tensors if tensor is not None),
        *(getattr(config, name) for name in (*_SIZES, *_FACTORS)),
    )
