# SPDX-License-Identifier: Apache-2.0
"""Weights of a Hugging Face checkpoint directory: every name and shape is checked before the first one is read."""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.model_config import ModelConfig, read_json
from llm_planner.engine.quantization import PACKED, dequantize, stored_shapes

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_EMBEDDING, _HEAD = "model.embed_tokens.weight", "lm_head.weight"
_COMPARED_ROWS = 4096  # of an embedding at a time: one of a large model takes gigabytes
_TYPES = frozenset({"F64", "F32", "F16", "BF16", "I32"})


def products(config: ModelConfig) -> dict[str, tuple[str, ...]]:
    """Returns the matrix products of a decoder layer, and which linear layers of the checkpoint each one joins."""
    qkv = ("qkv_proj",) if config.has_fused_weights else ("q_proj", "k_proj", "v_proj")
    attention = {"qkv": tuple(f"self_attn.{name}" for name in qkv), "output": ("self_attn.o_proj",)}
    return attention if config.num_experts else attention | feed_forward_products(config, "mlp.")


def feed_forward_products(config: ModelConfig, prefix: str) -> dict[str, tuple[str, ...]]:
    """As ``products``, of the feed-forward part of a layer or of one expert."""
    gate_up = ("gate_up_proj",) if config.has_fused_weights else ("gate_proj", "up_proj")
    return {"gate_up": tuple(f"{prefix}{name}" for name in gate_up), "down": (f"{prefix}down_proj",)}


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Returns name and shape of every weight that a checkpoint of this configuration holds."""
    hidden, mlp = config.hidden_size, config.intermediate_size
    q_size, kv_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
    }

    if config.num_experts:
        layer["mlp.gate.weight"] = (config.num_experts, hidden)
    if config.has_post_norms:
        layer["pre_feedforward_layernorm.weight"] = layer["post_feedforward_layernorm.weight"] = (hidden,)

    def linear(name: str, out_size: int, in_size: int, *, bias: bool) -> None:
        layer[f"{name}.weight"] = (out_size, in_size)
        if bias:
            layer[f"{name}.bias"] = (out_size,)

    sizes = {
        "qkv": ((q_size, kv_size, kv_size), hidden, config.qkv_bias),
        "output": ((hidden,), q_size, config.o_bias),
        "gate_up": ((mlp, mlp), hidden, config.mlp_bias),
        "down": ((hidden,), mlp, config.mlp_bias),
    }
    experts = [feed_forward_products(config, f"mlp.experts.{expert}.") for expert in range(config.num_experts)]
    for product, names in chain(products(config).items(), *(expert.items() for expert in experts)):
        out_sizes, in_size, bias = sizes[product]
        for name, out_size in zip(names, out_sizes if len(names) > 1 else (sum(out_sizes),), strict=True):
            linear(name, out_size, in_size, bias=bias)
    if config.qk_norm:
        layer["self_attn.q_norm.weight"] = layer["self_attn.k_norm.weight"] = (config.head_dim,)

    shapes: dict[str, tuple[int, ...]] = {_EMBEDDING: (config.vocab_size, hidden)}
    for index in range(config.num_layers):
        shapes |= {f"model.layers.{index}.{name}": shape for name, shape in layer.items()}
    shapes["model.norm.weight"] = (hidden,)
    if not config.is_tied:
        shapes[_HEAD] = (config.vocab_size, hidden)
    return shapes


def weight_bytes(config: ModelConfig, dtype: torch.dtype) -> int:
    """Returns the memory that all weights of a model take in a data type."""
    return sum(math.prod(shape) for shape in expected_shapes(config).values()) * dtype.itemsize


def _stored_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """As ``expected_shapes``, with the tensors that hold quantized weights in place of these."""
    shapes = expected_shapes(config)
    if config.quantization is None:
        return shapes
    for weight in [name for name in shapes if name.startswith("model.layers.") and name.endswith("_proj.weight")]:
        shapes |= stored_shapes(weight.removesuffix(".weight"), shapes.pop(weight), config.quantization)
    return shapes


class Weights(Protocol):
    """The weights of a model, by the names that they have in a checkpoint."""

    def load(self, name: str, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Returns one weight, converted and placed."""
        ...


OpenWeights = Callable[[Path, ModelConfig], Weights]
"""Returns the weights of a model directory with this configuration."""


class Checkpoint:
    """Opened weight files. Construction checks them all; ``load`` then reads one tensor.

    Raises:
        PlannerError: MODEL_NOT_FOUND if there are no safetensors, CHECKPOINT_INVALID if a file is truncated or
            corrupt, or a weight is missing, unexpected, of another shape or type, or a tied output layer is not the
            embedding.
    """

    def __init__(self, model_dir: Path, config: ModelConfig) -> None:
        self._dir = model_dir
        self._files = {path.name: open_weights(path) for path in _weight_files(model_dir)}
        self._file_of = {name: file for file, opened in self._files.items() for name in opened.keys()}  # noqa: SIM118
        self._quantization = config.quantization
        self._check(config)

    def load(self, name: str, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Returns one weight, converted and placed."""
        module = name.removesuffix(".weight")
        if self._quantization is not None and f"{module}.qweight" in self._file_of:
            tensor = dequantize(module, self._quantization, self._read, self._dir)
        else:
            tensor = self._read(name)
        return tensor.to(device=device, dtype=dtype)

    def _read(self, name: str) -> torch.Tensor:
        tensor: torch.Tensor = self._files[self._file_of[name]].get_tensor(name)
        return tensor

    def _check(self, config: ModelConfig) -> None:
        # Old exports carry the rotary buffer, and tied models may carry the output layer a second time.
        expected = _stored_shapes(config)
        ignorable = {n for n in self._file_of if n.endswith("rotary_emb.inv_freq") or n == _HEAD}
        if config.quantization is not None:  # AutoGPTQ writes zeros where a layer has no bias
            extra = {name for name in self._file_of.keys() - expected.keys() if name.endswith("_proj.bias")}
            ignorable |= {name for name in extra if not self._read(name).any()}
        held = self._file_of.keys() - (ignorable - expected.keys())
        check_weights(self._dir, {name: self._slice(name) for name in held}, expected)
        if config.is_tied and _HEAD in self._file_of and not self._are_equal(_EMBEDDING, _HEAD):
            message = (
                f"{self._dir}: {_HEAD} is not the embedding, but config.json says tie_word_embeddings; correct it to "
                f"false, or leave {_HEAD} out, whichever the model was trained with"
            )
            raise PlannerError(ErrorCode.CHECKPOINT_INVALID, message)

    def _slice(self, name: str) -> Any:
        return self._files[self._file_of[name]].get_slice(name)

    def _are_equal(self, one: str, other: str) -> bool:
        """Returns whether two matrices hold the same numbers, in whatever type."""
        left, right = self._slice(one), self._slice(other)
        if left.get_shape() != right.get_shape():
            return False
        for first in range(0, left.get_shape()[0], _COMPARED_ROWS):
            rows = slice(first, first + _COMPARED_ROWS)
            a, b = left[rows], right[rows]
            if a.dtype != b.dtype:
                a, b = a.double(), b.double()
            if not torch.equal(a, b):
                return False
        return True


def check_weights(source: Path, found: Mapping[str, Any], expected: Mapping[str, tuple[int, ...]]) -> None:
    """Compares weights, unread, with what they must be.

    Args:
        source: Where they are, for people.
        found: Slices of safetensors by name.
        expected: Shapes by name.

    Raises:
        PlannerError: CHECKPOINT_INVALID if one is missing, unexpected, of another shape or type.
    """
    problem = _first_problem(found, expected)
    if problem is not None:
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{source}: {problem}")


def _first_problem(found: Mapping[str, Any], expected: Mapping[str, tuple[int, ...]]) -> str | None:
    if missing := sorted(expected.keys() - found.keys()):
        return f"{len(missing)} weights are missing, e.g. {missing[0]}; fetch the files again"
    if unexpected := sorted(found.keys() - expected.keys()):
        return f"{len(unexpected)} weights do not belong to this configuration, e.g. {unexpected[0][:200]}"
    for name, shape in expected.items():
        if tuple(found[name].get_shape()) != shape:
            return f"{name} has shape {tuple(found[name].get_shape())}, but the configuration implies {shape}"
        if (found[name].get_dtype() == "I32") != name.endswith(PACKED) or found[name].get_dtype() not in _TYPES:
            return f"{name} is stored as {found[name].get_dtype()}, which the configuration does not say"
    return None


def _weight_files(model_dir: Path) -> list[Path]:
    if (model_dir / _SINGLE).is_file():  # before an index, which an older checkpoint may have left
        return [model_dir / _SINGLE]
    if (model_dir / _INDEX).is_file():
        weight_map = read_json(model_dir / _INDEX).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{model_dir / _INDEX} has no weight_map")
        if not all(isinstance(name, str) for name in weight_map.values()):
            raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{model_dir / _INDEX}: a shard is named by no text")
        # Only names inside the directory: an index is data and must not reach for other files.
        paths = [model_dir / Path(name).name for name in sorted(set(weight_map.values()))]
        if missing := [path.name for path in paths if not path.is_file()]:
            raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{model_dir}: shards are missing: {missing}")
        return paths
    raise PlannerError(ErrorCode.MODEL_NOT_FOUND, f"{model_dir} has neither {_SINGLE} nor {_INDEX}")


def open_weights(path: Path):  # type: ignore[no-untyped-def] # noqa: ANN201 (the library names no type)
    """Returns an opened safetensors file.

    Raises:
        PlannerError: CHECKPOINT_INVALID if it is truncated or corrupt.
    """
    with suppress(SafetensorError, OSError):
        return safe_open(path, framework="pt", device="cpu")
    raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{path} is truncated or corrupt; fetch the checkpoint again")
