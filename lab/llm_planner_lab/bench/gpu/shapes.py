# SPDX-License-Identifier: Apache-2.0
"""Models without a checkpoint: a Llama configuration, a tokenizer of single bytes, weights drawn on the device."""

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from llm_planner.engine.checkpoint import expected_shapes
from llm_planner.engine.model_config import ModelConfig, read_model_config

_DEVIATION = 0.02  # of weights, as Llama begins its training with
_END = "</s>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is measured of one size of model.

    Attributes:
        name: Of the option.
        config: Sizes, as ``config.json`` has them.
        contexts: Tokens in the cache of each sequence, ascending.
        prompts: Tokens of prompts that are computed alongside decoding sequences.
    """

    name: str
    config: Mapping[str, int | bool]
    contexts: tuple[int, ...] = (1024, 8192)
    prompts: tuple[int, ...] = (16, 128, 512)

    @property
    def values(self) -> dict[str, Any]:
        """Everything that is in ``config.json``."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "rope_theta": 500_000.0,
            "max_position_embeddings": 2 * self.contexts[-1],
            "attention_bias": False,
            "mlp_bias": False,
            "bos_token_id": None,
            "eos_token_id": 0,
            "pad_token_id": None,
            "torch_dtype": "bfloat16",
            **self.config,
        }


def _llama(
    hidden: int, mlp: int, layers: int, heads: int, kv_heads: int, vocabulary: int, *, tied: bool
) -> Mapping[str, int | bool]:
    return {
        "hidden_size": hidden,
        "intermediate_size": mlp,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": hidden // heads,
        "vocab_size": vocabulary,
        "tie_word_embeddings": tied,
    }


SHAPES: Mapping[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape(name="tiny", config=_llama(64, 112, 2, 4, 2, 320, tied=True), contexts=(64, 160), prompts=(16, 48)),
        Shape(name="1b", config=_llama(2048, 8192, 16, 32, 8, 128_256, tied=True)),  # Llama-3.2-1B
        Shape(name="8b", config=_llama(4096, 14_336, 32, 32, 8, 128_256, tied=False)),  # Llama-3.1-8B
    )
}


class RandomWeights:
    """Implements ``checkpoint.Weights``: a tensor is drawn anew, and the same, whenever it is loaded.

    Args:
        config: Names and shapes.
        seed: Each tensor draws from a generator of its own.
    """

    def __init__(self, config: ModelConfig, seed: int) -> None:
        self.shapes = expected_shapes(config)
        self._seed = seed

    def load(self, name: str, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Returns one weight: ones for a norm, else normal with a standard deviation of 0.02."""
        shape = self.shapes[name]
        if name.endswith("norm.weight"):
            return torch.ones(shape, dtype=dtype, device=device)
        generator = torch.Generator(device).manual_seed(self._seed + zlib.crc32(name.encode()))
        return torch.empty(shape, dtype=dtype, device=device).normal_(0.0, _DEVIATION, generator=generator)


def write_model(directory: Path, shape: Shape) -> ModelConfig:
    """Writes all of a checkpoint but its weights, and returns its configuration."""
    (directory / "config.json").write_text(json.dumps(shape.values), encoding="utf-8")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate([_END, *alphabet])}, []))
    tokenizer.add_special_tokens([_END])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(directory / "tokenizer.json"))
    return read_model_config(directory)


def weight_bytes(config: ModelConfig, dtype: torch.dtype) -> int:
    """Returns the memory of all weights."""
    return dtype.itemsize * sum(math.prod(shape) for shape in expected_shapes(config).values())


def step_bytes(config: ModelConfig, dtype: torch.dtype) -> int:
    """Returns the bytes of weights that a decode step reads: all but the rows of an embedding that is not tied."""
    rows = 0 if config.is_tied else config.vocab_size * config.hidden_size
    return weight_bytes(config, dtype) - dtype.itemsize * rows


def kv_token_bytes(config: ModelConfig, dtype: torch.dtype) -> int:
    """Returns the bytes of keys and values of one token, all layers together."""
    return 2 * config.num_layers * config.num_kv_heads * config.head_dim * dtype.itemsize
