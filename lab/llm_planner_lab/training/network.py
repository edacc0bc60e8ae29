# SPDX-License-Identifier: Apache-2.0
"""The network that is trained: Llama with tied embeddings, parameter names as Hugging Face writes them.

Smaller and faster than the general implementation; the saved directory loads with ``LlamaForCausalLM`` and with
``llm_planner.engine``, which the tests check token by token.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

_LONGEST_UNFUSED = 320


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """Shape of the network, in Hugging Face's words."""

    vocab_size: int = 4096
    hidden_size: int = 256
    intermediate_size: int = 704
    num_hidden_layers: int = 8
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    max_position_embeddings: int = 4096
    rope_theta: float = 1_000_000.0
    rms_norm_eps: float = 1e-6


class Norm(nn.Module):
    """RMS norm."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Returns x scaled to unit mean square."""
        return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Attention(nn.Module):
    """Causal grouped-query attention with rotary positions."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        size, self.heads, self.kv_heads = config.hidden_size, config.num_attention_heads, config.num_key_value_heads
        self.head_dim = size // self.heads
        self.q_proj = nn.Linear(size, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(size, self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(size, self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Returns the attention output; x is (batch, length, hidden)."""
        batch, length, _ = x.shape
        weight = torch.cat((self.q_proj.weight, self.k_proj.weight, self.v_proj.weight))
        mixed = functional.linear(x, weight).view(batch, length, -1, self.head_dim).transpose(1, 2)
        turned = _rotate(mixed[:, : self.heads + self.kv_heads], cos, sin)
        query, key = turned.split((self.heads, self.kv_heads), dim=1)
        value = mixed[:, self.heads + self.kv_heads :]
        groups = self.heads // self.kv_heads
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        out = _attend(query, key, value)
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))


class Mlp(nn.Module):
    """Gated feed-forward layer."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the layer's output."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One transformer layer."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = Mlp(config)
        self.input_layernorm = Norm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = Norm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Returns x after attention and feed-forward."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    """Embeddings, layers and the final norm."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = Norm(config.hidden_size, config.rms_norm_eps)

    def attention(self, index: int) -> Attention:
        """Returns the attention of one layer."""
        layer = self.layers[index]
        assert isinstance(layer, Layer)
        return layer.self_attn


class Network(nn.Module):
    """The whole model; the output layer is the embedding."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Body(config)
        head_dim = config.hidden_size // config.num_attention_heads
        self.rope_frequency = config.rope_theta ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        angle = torch.outer(torch.arange(config.max_position_embeddings).float(), self.rope_frequency)
        self.cos = nn.Buffer(torch.cat((angle.cos(), angle.cos()), dim=-1), persistent=False)
        self.sin = nn.Buffer(torch.cat((angle.sin(), angle.sin()), dim=-1), persistent=False)
        self._initialize()

    @torch.no_grad()
    def _initialize(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.04)

    def hidden(self, token_ids: Tensor) -> Tensor:
        """Returns the normed last hidden states, (batch, length, hidden); token_ids is (batch, length)."""
        x = self.model.embed_tokens(token_ids)
        cos, sin = self.cos[: token_ids.shape[1]], self.sin[: token_ids.shape[1]]
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return self.model.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns the scores of the next token."""
        return functional.linear(hidden, self.model.embed_tokens.weight)


def _attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Returns causal attention. The fused kernel's backward pass is slow on short sequences on a CPU."""
    length = query.shape[2]
    if length > _LONGEST_UNFUSED:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(2, 3)
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1, dtype=torch.float32)
    return weights.to(value.dtype) @ value


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    one, two = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-two, one), dim=-1) * sin


def save_network(network: Network, directory: Path) -> None:
    """Writes config.json and model.safetensors (bfloat16) as Hugging Face expects them."""
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().to(torch.bfloat16).contiguous() for name, value in network.named_parameters()}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **asdict(network.config),
        "head_dim": network.config.hidden_size // network.config.num_attention_heads,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "initializer_range": 0.02,
    }
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def load_network(directory: Path) -> Network:
    """Returns the network that ``save_network`` wrote, in float32."""
    raw = json.loads((directory / "config.json").read_text())
    fields = NetworkConfig.__dataclass_fields__
    network = Network(NetworkConfig(**{key: raw[key] for key in fields}))
    tensors = {name: value.float() for name, value in load_file(directory / "model.safetensors").items()}
    network.load_state_dict(tensors)
    return network
