# SPDX-License-Identifier: Apache-2.0
"""The forward pass of Llama, Mistral, Qwen2 and Qwen3, written out; query-key-value and gate-up weights are fused."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import embedding, rms_norm, silu

from llm_planner.engine.adapter import AdaptedRows, add
from llm_planner.engine.attention import Attention
from llm_planner.engine.checkpoint import PRODUCTS, Checkpoint
from llm_planner.engine.linear import Linear, make_linear
from llm_planner.engine.model_config import ModelConfig
from llm_planner.engine.rope import RotaryTable, rotate


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Weights of one decoder layer; ``qk_norm`` is (num_heads + num_kv_heads, head_dim), Qwen3 only."""

    attention_norm: torch.Tensor
    qkv: Linear
    qk_norm: torch.Tensor | None
    output: Linear
    mlp_norm: torch.Tensor
    gate_up: Linear
    down: Linear


class Model:
    """Weights on one device and the computation over them; knows nothing of requests."""

    def __init__(self, config: ModelConfig, checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device) -> None:
        self.config = config
        self.dtype = dtype
        self.device = device
        load = _Loader(checkpoint, dtype, device, keeps_plain=not config.is_large)
        self._embedding = load.tensor("model.embed_tokens.weight")
        self._layers = [load.layer(config, f"model.layers.{i}.") for i in range(config.num_layers)]
        self._norm = load.tensor("model.norm.weight")
        head = self._embedding if config.is_tied else load.tensor("lm_head.weight")
        self._head = make_linear(head, keeps_plain=not config.is_large, is_shared=config.is_tied)
        self._rope = RotaryTable(config, dtype, device)

    def forward(
        self,
        token_ids: Sequence[int],
        positions: Sequence[int],
        attend: Attention,
        adapted: Sequence[AdaptedRows] = (),
    ) -> torch.Tensor:
        """Returns hidden states (num_tokens, hidden_size) after the last layer, before the final norm.

        Args:
            token_ids: What to compute.
            positions: Of each token, below ``max_model_len``.
            attend: The step's view of the KV cache. In the last layer it may answer for the last tokens alone: then
                only their hidden states are computed further, and returned.
            adapted: Tokens for which adapters add to the products; all of them, where ``attend`` leaves some out.
        """
        cos, sin = self._rope.at(positions)
        x = embedding(torch.tensor(token_ids, device=self.device), self._embedding)
        for index, layer in enumerate(self._layers):
            attended = self._attention(index, layer, x, cos, sin, attend, adapted)
            x = (x if x.shape[0] == attended.shape[0] else x[-attended.shape[0] :]) + attended
            normed = self._rms(x, layer.mlp_norm)
            gate, up = add(adapted, index, "gate_up", normed, layer.gate_up(normed)).chunk(2, dim=-1)
            inner = silu(gate) * up
            x = x + add(adapted, index, "down", inner, layer.down(inner))
        return x

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Returns (num_tokens, vocab_size) of hidden states (num_tokens, hidden_size)."""
        return self._head(self.normed(hidden))

    def normed(self, hidden: torch.Tensor) -> torch.Tensor:
        """Returns hidden states after the final norm."""
        return self._rms(hidden, self._norm)

    def _attention(
        self,
        index: int,
        layer: Layer,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        attend: Attention,
        adapted: Sequence[AdaptedRows],
    ) -> torch.Tensor:
        config = self.config
        normed = self._rms(x, layer.attention_norm)
        heads = add(adapted, index, "qkv", normed, layer.qkv(normed)).view(x.shape[0], -1, config.head_dim)
        num_qk = config.num_heads + config.num_kv_heads
        qk, values = heads[:, :num_qk], heads[:, num_qk:]
        if layer.qk_norm is not None:
            qk = rms_norm(qk, (config.head_dim,), eps=config.rms_norm_eps) * layer.qk_norm
        qk = rotate(qk, cos, sin)
        attended = attend(index, qk[:, : config.num_heads], qk[:, config.num_heads :], values)
        return add(adapted, index, "output", attended, layer.output(attended))

    def _rms(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, (self.config.hidden_size,), weight, self.config.rms_norm_eps)


@dataclass(frozen=True, slots=True)
class _Loader:
    """Reads weights of one checkpoint for one device and fuses what is multiplied with the same input."""

    checkpoint: Checkpoint
    dtype: torch.dtype
    device: torch.device
    keeps_plain: bool

    def tensor(self, name: str) -> torch.Tensor:
        return self.checkpoint.load(name, self.dtype, self.device)

    def fused(self, prefix: str, product: str, *, bias: bool) -> Linear:
        names = [f"{prefix}{name}" for name in PRODUCTS[product]]
        weight = torch.cat([self.tensor(f"{name}.weight") for name in names])
        biases = torch.cat([self.tensor(f"{name}.bias") for name in names]) if bias else None
        return make_linear(weight, biases, keeps_plain=self.keeps_plain)

    def layer(self, config: ModelConfig, prefix: str) -> Layer:
        qk_norm = None
        if config.qk_norm:
            q_norm, k_norm = (self.tensor(f"{prefix}self_attn.{name}_norm.weight") for name in "qk")
            qk_norm = torch.cat((q_norm.expand(config.num_heads, -1), k_norm.expand(config.num_kv_heads, -1)))
        return Layer(
            attention_norm=self.tensor(f"{prefix}input_layernorm.weight"),
            qkv=self.fused(prefix, "qkv", bias=config.qkv_bias),
            qk_norm=qk_norm,
            output=self.fused(prefix, "output", bias=config.o_bias),
            mlp_norm=self.tensor(f"{prefix}post_attention_layernorm.weight"),
            gate_up=self.fused(prefix, "gate_up", bias=config.mlp_bias),
            down=self.fused(prefix, "down", bias=config.mlp_bias),
        )
