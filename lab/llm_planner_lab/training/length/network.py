# SPDX-License-Identifier: Apache-2.0
"""The predictor while it is trained: a small decoder, from a checkpoint or from nothing, with a head on its last state.

Its decoder is saved as a checkpoint of its own kind, which ``llm_planner.engine`` loads and computes in service.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AutoConfig, AutoModel, LlamaConfig, PretrainedConfig, PreTrainedModel

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.checkpoint import Checkpoint
from llm_planner.engine.fingerprint import tokenizer_fingerprint
from llm_planner.engine.length_config import HEAD_NAME
from llm_planner.engine.model_config import read_model_config
from llm_planner.engine.tokenizer import load_tokenizer

_SCRATCH_HIDDEN = 192


@dataclass(frozen=True, slots=True)
class Start:
    """Where the decoder of a predictor comes from.

    Attributes:
        target: Checkpoint of the model whose responses are predicted: its tokenizer is the predictor's.
        source: Checkpoint whose first layers the decoder starts as; None to start from nothing.
        num_layers: L, decoder layers; at most as many as ``source`` has.
        max_input_tokens: Longest input.
    """

    target: Path
    source: Path | None
    num_layers: int
    max_input_tokens: int


class LengthNetwork(nn.Module):
    """Decoder and head.

    Args:
        body: Decoder of transformers, without an output layer.
        num_outputs: Of the head: buckets, classes, or 1 for a regression.
    """

    def __init__(self, body: PreTrainedModel, num_outputs: int) -> None:
        super().__init__()
        self.body: PreTrainedModel = body
        self.head = nn.Linear(body.config.hidden_size, num_outputs)
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    @torch.no_grad()
    def say_first(self, bias: Tensor) -> None:
        """Sets what the head says of every prompt before it has learned anything, (num_outputs,)."""
        self.head.bias.copy_(bias)

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Tensor:
        """Returns the outputs (batch, num_outputs) in float32.

        Of the last layer nothing is computed that the last token does not look at, as in service: with two layers, half
        of the work.

        Args:
            token_ids: (batch, length), padded at the end.
            lengths: (batch,), tokens of each row.
        """
        body: Any = self.body
        hidden, num = body.embed_tokens(token_ids), token_ids.shape[1]
        rotary = body.rotary_emb(hidden, position_ids=torch.arange(num)[None])
        causal = torch.full((num, num), torch.finfo(hidden.dtype).min, dtype=hidden.dtype).triu(1)[None, None]
        for layer in body.layers[:-1]:
            hidden = layer(hidden, attention_mask=causal, position_embeddings=rotary)
        return self.head(body.norm(_last_layer(body.layers[-1], hidden, lengths, rotary))).float()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "LengthNetwork":
        """Converts all but the rotary frequencies, which bfloat16 would bend."""
        rotary: Any = self.body.rotary_emb
        frequencies = rotary.inv_freq
        super()._apply(fn, recurse)
        rotary.inv_freq = frequencies
        return self


def _last_layer(layer: Any, hidden: Tensor, lengths: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Returns what a decoder layer makes of the last token of each row, (batch, hidden_size).

    Args:
        layer: Of Llama, Qwen2 or Qwen3 in transformers.
        hidden: (batch, length, hidden_size).
        lengths: (batch,), tokens of each row.
        rotary: Cosines and sines, each (1, length, head_dim).
    """
    attention, rows, last = layer.self_attn, torch.arange(len(lengths)), lengths - 1
    normed = layer.input_layernorm(hidden)

    def heads(name: str, inputs: Tensor) -> Tensor:
        """Returns (..., num_heads, head_dim); some models norm queries and keys."""
        split = getattr(attention, f"{name}_proj")(inputs).unflatten(-1, (-1, attention.head_dim))
        norm = getattr(attention, f"{name}_norm", None)
        return split if norm is None else norm(split)

    cos, sin = rotary
    queries, keys, values = heads("q", normed[rows, last]), heads("k", normed), heads("v", normed)
    queries = _rotated(queries, cos[0, last, None], sin[0, last, None])
    keys = _rotated(keys, cos[0, :, None], sin[0, :, None])
    seen = torch.arange(hidden.shape[1]) < lengths[:, None]
    attended = scaled_dot_product_attention(
        queries[:, :, None], keys.transpose(1, 2), values.transpose(1, 2), seen[:, None, None], enable_gqa=True
    )
    state = hidden[rows, last] + attention.o_proj(attended.flatten(1))
    return state + layer.mlp(layer.post_attention_layernorm(state))


def _rotated(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Returns heads (..., head_dim) turned by their positions (rotary embedding, halves as Llama has them)."""
    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat((-second, first), dim=-1) * sin


def start_body(start: Start) -> PreTrainedModel:
    """Returns a decoder in float32 that reads the target model's tokens.

    Raises:
        PlannerError: If ``source`` is no checkpoint that the engine loads, or has fewer layers.
    """
    if start.source is None:
        return AutoModel.from_config(_scratch_config(start), attn_implementation="eager")
    shape = read_model_config(start.source)
    if shape.num_layers < start.num_layers:
        raise PlannerError(
            ErrorCode.INVALID_CONFIG, f"{start.source} has {shape.num_layers} layers, {start.num_layers} were asked for"
        )
    checkpoint = Checkpoint(start.source, shape)
    config = _truncated(AutoConfig.from_pretrained(start.source), start.num_layers)
    body = AutoModel.from_config(config, attn_implementation="eager")  # on a CPU twice as fast as the fused one
    cpu = torch.device("cpu")
    weights = {name: checkpoint.load(f"model.{name}", torch.float32, cpu) for name in body.state_dict()}
    body.load_state_dict(weights)
    if tokenizer_fingerprint(start.source) != tokenizer_fingerprint(start.target):
        _adopt_vocabulary(body, start.source, start.target)
    return body.float()


def save_network(network: LengthNetwork, directory: Path) -> None:
    """Writes config.json, model.safetensors (bfloat16) and the head."""
    directory.mkdir(parents=True, exist_ok=True)
    body = {f"model.{name}": value.to(torch.bfloat16) for name, value in network.body.state_dict().items()}
    save_file(body, directory / "model.safetensors", metadata={"format": "pt"})
    head = {name: value.to(torch.bfloat16) for name, value in network.head.state_dict().items()}
    save_file(head, directory / HEAD_NAME)
    config = network.body.config.to_diff_dict()
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _scratch_config(start: Start) -> PretrainedConfig:
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=read_model_config(start.target).vocab_size,
        hidden_size=_SCRATCH_HIDDEN,
        intermediate_size=_SCRATCH_HIDDEN * 5 // 2,
        num_hidden_layers=start.num_layers,
        num_attention_heads=_SCRATCH_HIDDEN // 48,
        num_key_value_heads=_SCRATCH_HIDDEN // 96,
        head_dim=48,
        max_position_embeddings=start.max_input_tokens,
        tie_word_embeddings=True,
        initializer_range=0.04,
    )


def _truncated(config: PretrainedConfig, num_layers: int) -> PretrainedConfig:
    """Returns the configuration of a model's first layers, without an output layer of its own."""
    config.num_hidden_layers = num_layers
    config.tie_word_embeddings = True
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:num_layers]
    return config


@torch.no_grad()
def _adopt_vocabulary(body: PreTrainedModel, source: Path, target: Path) -> None:
    """Replaces the embeddings: each token of the target gets the mean of those that spell it in the source.

    Fast vocabulary transfer (Gee et al., EMNLP 2022, Industry Track).
    """
    ours, theirs = load_tokenizer(target), load_tokenizer(source)
    old: Any = body.get_input_embeddings().weight
    new = nn.Embedding(read_model_config(target).vocab_size, old.shape[1])
    new.weight.normal_(0.0, float(old.std()))
    for token_id in range(ours.vocab_size):
        spelling = theirs.encode(ours.token_bytes(token_id).decode("utf-8", "ignore"))
        if spelling:
            new.weight[token_id] = old[spelling].mean(0)
    body.set_input_embeddings(new)
    body.config.vocab_size = new.num_embeddings
