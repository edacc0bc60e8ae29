# SPDX-License-Identifier: Apache-2.0
"""Initial weights that copy from the start: an induction circuit written by hand instead of waited for.

A plan repeats names of its prompt. The circuit that does this, two attention layers working together (Olsson et al.
2022, "In-context Learning and Induction Heads"), takes a small model most of its training to find. Here it is laid
down at once, and training only refines it:

    layer 0   a head attends to the token before and notes it in coordinates that embeddings leave free
    layer 1   heads look for places where the noted token is the present one, and add the token there to the output

    hidden coordinates     [0]  the same for every token    [1, free)  the token    [free, hidden)  the token before

Rotary positions turn the low half of a head's frequencies fast: layer 0 uses them to find the token before. The other
half hardly turns within a prompt: layer 1 compares with it, so that it matters little how far away a name is.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

_TOKEN_STD = 0.1
_SHARED = 0.5  # coordinate 0: what lets a head attend by position alone
_OUTPUT_STD = 0.004  # everything else starts nearly silent, so that it does not drown the circuit
_LOOK_BACK = 1.2
_NOTE = 0.15
_MATCH = 2.2
_COPY = 0.5


@torch.no_grad()
def lay_induction_circuit(network: LlamaForCausalLM) -> None:
    """Overwrites embeddings and the first two attention layers of a freshly initialised network.

    Raises:
        ValueError: If the network has fewer than two layers, or heads too wide to leave room for the token.
    """
    config: Any = network.config
    head_dim = config.head_dim
    num_token_coordinates = config.hidden_size - head_dim - 1
    if config.num_hidden_layers < 2 or num_token_coordinates < config.num_key_value_heads * head_dim:
        raise ValueError("an induction circuit needs two layers, and room for the token and the one before")
    for name, parameter in network.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            nn.init.normal_(parameter, std=_OUTPUT_STD)
    embedding = network.model.embed_tokens.weight
    nn.init.normal_(embedding, std=_TOKEN_STD)
    embedding[:, 0] = _SHARED
    embedding[:, -head_dim:] = 0.0
    sketch = _projection(config.hidden_size, num_token_coordinates, head_dim)
    _note_token_before(network, sketch)
    _match_and_copy(network, sketch)


def _projection(hidden_size: int, num_coordinates: int, num_rows: int) -> Tensor:
    """Returns (num_rows, hidden_size): orthonormal rows over the coordinates of the token."""
    rows = torch.zeros(num_rows, hidden_size)
    rows[:, 1 : 1 + num_coordinates] = torch.linalg.qr(torch.randn(num_coordinates, num_rows))[0].T
    return rows


def _note_token_before(network: LlamaForCausalLM, sketch: Tensor) -> None:
    """Layer 0, head 0: with the query turned back by one position, the score peaks at the token before."""
    attention: Any = network.model.layers[0].self_attn
    head_dim = sketch.shape[0]
    half = head_dim // 2
    frequency = network.model.rotary_emb.inv_freq
    strength = torch.where(torch.arange(half) < half // 2, _LOOK_BACK, 0.0)
    attention.k_proj.weight[:head_dim] = 0.0
    attention.k_proj.weight[:half, 0] = strength
    attention.q_proj.weight[:head_dim] = 0.0
    attention.q_proj.weight[:half, 0] = strength * torch.cos(frequency)
    attention.q_proj.weight[half:head_dim, 0] = -strength * torch.sin(frequency)
    attention.v_proj.weight[:head_dim] = sketch
    attention.o_proj.weight[:, :head_dim] = 0.0
    attention.o_proj.weight[-head_dim:, :head_dim] = _NOTE * torch.eye(head_dim)


def _match_and_copy(network: LlamaForCausalLM, sketch: Tensor) -> None:
    """Layer 1, first head of each group: each compares its part of the sketch and copies its part of the token."""
    config: Any = network.config
    attention: Any = network.model.layers[1].self_attn
    head_dim, hidden_size = sketch.shape
    half, per_group = head_dim // 2, config.num_attention_heads // config.num_key_value_heads
    slow = torch.tensor([*range(half // 2, half), *range(half + half // 2, head_dim)])
    num_token_coordinates = hidden_size - head_dim - 1
    copies = _projection(hidden_size, num_token_coordinates, config.num_key_value_heads * head_dim)
    for group in range(config.num_key_value_heads):
        keys = slice(group * head_dim, (group + 1) * head_dim)
        head = group * per_group
        queries = slice(head * head_dim, (head + 1) * head_dim)
        part = torch.arange(head_dim).roll(-group * len(slow))[: len(slow)]
        attention.k_proj.weight[keys] = 0.0
        attention.k_proj.weight[group * head_dim + slow, hidden_size - head_dim + part] = _MATCH
        attention.q_proj.weight[queries] = 0.0
        attention.q_proj.weight[head * head_dim + slow] = _MATCH * sketch[part]
        attention.v_proj.weight[keys] = copies[keys]
        attention.o_proj.weight[:, queries] = _COPY * copies[keys].T
