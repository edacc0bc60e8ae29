# SPDX-License-Identifier: Apache-2.0
"""The forward pass of all families, written out; query-key-value and gate-up weights are fused.

What families have of their own are fields of ``ModelConfig``, or weights of a layer that others lack.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import embedding, rms_norm

from llm_planner.engine.adapter import AdaptedRows, add
from llm_planner.engine.attention import Attention, soft_cap
from llm_planner.engine.checkpoint import Weights, feed_forward_products, products
from llm_planner.engine.hardware import upload
from llm_planner.engine.kernels import load_kernels
from llm_planner.engine.layer import FeedForward, Layer
from llm_planner.engine.linear import Linear, make_linear
from llm_planner.engine.model_config import ModelConfig
from llm_planner.engine.operations import make_operations
from llm_planner.engine.rope import RotaryTable
from llm_planner.engine.whole_layer import make_whole_layers


@dataclass(frozen=True, slots=True)
class Wanted:
    """Tokens of a pass whose hidden states are looked at.

    Attributes:
        rows: Where they are: a slice if they are neighbours, else indices.
        adapted: Those for which adapters add to the products; rows count from the first token that is wanted.
    """

    rows: slice | torch.Tensor
    adapted: Sequence[AdaptedRows] = ()


class Model:
    """Weights on one device and the computation over them; knows nothing of requests."""

    def __init__(self, config: ModelConfig, weights: Weights, dtype: torch.dtype, device: torch.device) -> None:
        self.config = config
        self.dtype = dtype
        self.device = device
        load = _Loader(weights, config, dtype, device)
        self._embedding = load.tensor("model.embed_tokens.weight")
        self._layers = [load.layer(f"model.layers.{i}.") for i in range(config.num_layers)]
        self._norm = load.norm("model.norm")
        head = self._embedding if config.is_tied else load.tensor("lm_head.weight")
        self._head = make_linear(head, keeps_plain=not config.is_large, is_shared=config.is_tied)
        self._embedding_scale = float(torch.tensor(config.embedding_scale, dtype=dtype))
        kernels = load_kernels(device, dtype)
        self._operations = make_operations(config.activation, kernels)
        self._whole_layers = make_whole_layers(config, self._layers, kernels)
        self._rope = self._local_rope = RotaryTable(config, dtype, device)
        if config.local_rope_theta is not None:
            local = replace(config, rope_theta=config.local_rope_theta, rope_scaling=None, rope_divisors=())
            self._local_rope = RotaryTable(local, dtype, device)

    def forward(
        self,
        token_ids: Sequence[int],
        positions: Sequence[int],
        attend: Attention,
        adapted: Sequence[AdaptedRows] = (),
        wanted: Wanted | None = None,
        on_layer: Callable[[float], None] = lambda _: None,
    ) -> torch.Tensor:
        """Returns hidden states (num_tokens, hidden_size) after the last layer, before the final norm.

        Args:
            token_ids: What to compute.
            positions: Of each token, below ``max_model_len``.
            attend: The step's view of the KV cache.
            adapted: Tokens for which adapters add to the products.
            wanted: Tokens whose hidden states are returned, None for all: of the others, the last layer computes keys
                and values alone.
            on_layer: Told before each layer which share of them is done; what it raises ends the computation.
        """
        ids, places = upload(self.device, token_ids, positions)
        turned = local_turned = self._rope.at(positions, places)
        if self._local_rope is not self._rope:
            local_turned = self._local_rope.at(positions, places)
        x = embedding(ids, self._embedding)
        if self._embedding_scale != 1:
            x = x * self._embedding_scale
        for index, layer in enumerate(self._layers):
            on_layer(index / len(self._layers))
            cos, sin = turned if self.config.windows[index] is None else local_turned
            needs_all = not adapted and (wanted is None or layer is not self._layers[-1])
            if needs_all and self._whole_layers is not None and self._whole_layers.compute(index, x, cos, sin, attend):
                continue
            attended = self._attend(index, layer, x, cos, sin, attend, adapted)
            if wanted is not None and layer is self._layers[-1]:
                x, attended, adapted = x[wanted.rows], attended[wanted.rows], wanted.adapted
                if not x.shape[0]:
                    return x
            x = x + self._output(index, layer, attended, adapted)
            x = x + self._mlp(index, layer, x, adapted)
        return x

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Returns (num_tokens, vocab_size) of hidden states (num_tokens, hidden_size)."""
        return soft_cap(self._head(self.normed(hidden)), self.config.logit_softcap)

    def normed(self, hidden: torch.Tensor) -> torch.Tensor:
        """Returns hidden states after the final norm."""
        return self._rms(hidden, self._norm)

    def _attend(
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
            normed_heads = rms_norm(qk.to(layer.qk_norm.dtype), (config.head_dim,), eps=config.rms_norm_eps)
            qk = (normed_heads * layer.qk_norm).to(qk.dtype)
        qk = self._operations.rotate(qk, cos, sin)
        return attend(index, qk[:, : config.num_heads], qk[:, config.num_heads :], values)

    def _output(self, index: int, layer: Layer, attended: torch.Tensor, adapted: Sequence[AdaptedRows]) -> torch.Tensor:
        output = add(adapted, index, "output", attended, layer.output(attended))
        return output if layer.attention_post_norm is None else self._rms(output, layer.attention_post_norm)

    def _mlp(self, index: int, layer: Layer, x: torch.Tensor, adapted: Sequence[AdaptedRows]) -> torch.Tensor:
        normed = self._rms(x, layer.mlp_norm)
        if layer.router is None:
            output = self._feed_forward(index, layer.feed_forwards[0], normed, adapted)
        else:
            output = self._route(index, layer.router, layer.feed_forwards, normed)
        return output if layer.mlp_post_norm is None else self._rms(output, layer.mlp_post_norm)

    def _route(self, index: int, router: Linear, experts: Sequence[FeedForward], normed: torch.Tensor) -> torch.Tensor:
        """Returns the sum of what the experts of each token make of it, by the router's weights."""
        weights, chosen = router(normed).softmax(dim=-1, dtype=torch.float32).topk(self.config.num_experts_per_token)
        if self.config.normalizes_routing:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        weights, output = weights.to(normed.dtype), torch.zeros_like(normed)
        for expert in chosen.unique().tolist():
            rows, places = (chosen == expert).nonzero(as_tuple=True)
            part = self._feed_forward(index, experts[expert], normed[rows], ())
            output.index_add_(0, rows, part * weights[rows, places, None])
        return output

    def _feed_forward(
        self, index: int, weights: FeedForward, x: torch.Tensor, adapted: Sequence[AdaptedRows]
    ) -> torch.Tensor:
        inner = self._operations.gated(add(adapted, index, "gate_up", x, weights.gate_up(x)))
        return add(adapted, index, "down", inner, weights.down(inner))

    def _rms(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return self._operations.rms_norm(x, weight, self.config.rms_norm_eps)


@dataclass(frozen=True, slots=True)
class _Loader:
    """Reads weights of one checkpoint for one device and fuses what is multiplied with the same input."""

    weights: Weights
    config: ModelConfig
    dtype: torch.dtype
    device: torch.device

    def tensor(self, name: str) -> torch.Tensor:
        return self.weights.load(name, self.dtype, self.device)

    def norm(self, name: str) -> torch.Tensor:
        """Returns the weight of a norm; one that is stored less one stays in float32, as the reference computes it."""
        if self.config.norms_add_one:
            return 1 + self.weights.load(f"{name}.weight", torch.float32, self.device)
        return self.tensor(f"{name}.weight")

    def fused(self, prefix: str, names: Sequence[str], *, bias: bool = False) -> Linear:
        weight = torch.cat([self.tensor(f"{prefix}{name}.weight") for name in names])
        biases = torch.cat([self.tensor(f"{prefix}{name}.bias") for name in names]) if bias else None
        return make_linear(weight, biases, keeps_plain=not self.config.is_large)

    def feed_forward(self, prefix: str, mlp: str) -> FeedForward:
        joined, bias = feed_forward_products(self.config, mlp), self.config.mlp_bias
        return FeedForward(*(self.fused(prefix, joined[product], bias=bias) for product in ("gate_up", "down")))

    def layer(self, prefix: str) -> Layer:
        config, joined, qk_norm = self.config, products(self.config), None
        experts = [f"mlp.experts.{expert}." for expert in range(config.num_experts)]
        if config.qk_norm:
            q_norm, k_norm = (self.norm(f"{prefix}self_attn.{name}_norm") for name in "qk")
            qk_norm = torch.cat((q_norm.expand(config.num_heads, -1), k_norm.expand(config.num_kv_heads, -1)))
        return Layer(
            attention_norm=self.norm(f"{prefix}input_layernorm"),
            qkv=self.fused(prefix, joined["qkv"], bias=config.qkv_bias),
            qk_norm=qk_norm,
            output=self.fused(prefix, joined["output"], bias=config.o_bias),
            attention_post_norm=self.norm(f"{prefix}post_attention_layernorm") if config.has_post_norms else None,
            mlp_norm=self.norm(f"{prefix}{'pre_feedforward' if config.has_post_norms else 'post_attention'}_layernorm"),
            router=self.fused(prefix, ["mlp.gate"]) if experts else None,
            feed_forwards=tuple(self.feed_forward(prefix, mlp) for mlp in experts or ["mlp."]),
            mlp_post_norm=self.norm(f"{prefix}post_feedforward_layernorm") if config.has_post_norms else None,
        )
