# SPDX-License-Identifier: Apache-2.0
"""The network that is trained: transformers' Llama with tied embeddings."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

disable_progress_bar()  # one of ours stands there already

_LONGEST_EAGER = 200
"""Up to this length the fused attention's backward pass is the slower one, on a CPU."""


def planner_config(**changes: Any) -> LlamaConfig:
    """Returns the shape of the bundled planner, with changes."""
    shape: dict[str, Any] = {
        "vocab_size": 4096,
        "hidden_size": 256,
        "intermediate_size": 704,
        "num_hidden_layers": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "initializer_range": 0.04,
    }
    return LlamaConfig(**(shape | changes))


def add_dropout(network: LlamaForCausalLM, share: float) -> None:
    """Lets a network in training mode forget ``share`` of its embeddings and of what each block adds to the residual.

    Llama has none, because it sees no text twice; the sentences of people here come by many times in a run.
    """
    if share == 0.0:
        return

    def drop(module: nn.Module, _: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return functional.dropout(output, share, module.training)

    for layer in network.model.layers:
        layer.self_attn.o_proj.register_forward_hook(drop)
        layer.mlp.down_proj.register_forward_hook(drop)
    network.model.embed_tokens.register_forward_hook(drop)


def hidden_states(network: LlamaForCausalLM, token_ids: Tensor, scene_ids: Tensor | None = None) -> Tensor:
    """Returns the normed last hidden states, (batch, length, hidden).

    Args:
        network: Which computes them.
        token_ids: (batch, length).
        scene_ids: (1, scene_length): what every sequence goes on from, computed once for all; None for nothing.
    """
    scene, length = None, token_ids.shape[1]
    if scene_ids is not None:
        scene, length = DynamicCache(), length + scene_ids.shape[1]
    network.set_attn_implementation("eager" if length <= _LONGEST_EAGER else "sdpa")
    if scene is not None:
        network.model(input_ids=scene_ids, past_key_values=scene)
        scene.batch_repeat_interleave(token_ids.shape[0])
    states: Tensor = network.model(
        input_ids=token_ids, past_key_values=scene, use_cache=scene is not None
    ).last_hidden_state
    return states


def save_network(network: LlamaForCausalLM, directory: Path) -> None:
    """Writes config.json and model.safetensors, in bfloat16; what is tied is written once."""
    rounded = {id(p): p.detach().to(torch.bfloat16) for p in network.parameters()}  # tied ones stay tied
    named = network.named_parameters(remove_duplicate=False)
    network.save_pretrained(directory, state_dict={name: rounded[id(parameter)] for name, parameter in named})


def load_network(directory: Path) -> LlamaForCausalLM:
    """Returns a network in float32."""
    network: LlamaForCausalLM = LlamaForCausalLM.from_pretrained(directory, dtype=torch.float32)
    return network
