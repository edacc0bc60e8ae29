# SPDX-License-Identifier: Apache-2.0
"""The shape of a model, read from ``config.json``; whatever the engine cannot compute exactly is refused here."""

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from llm_planner import documents
from llm_planner.core.errors import ErrorCode, PlannerError

ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}
MAX_JSON_BYTES = 64_000_000  # a tokenizer of 256,000 tokens takes 33 MB
_LARGEST = {  # far above any model: names and shapes of all weights are made of these before a file is opened
    "vocab_size": 10**7,
    "hidden_size": 10**6,
    "intermediate_size": 10**7,
    "num_layers": 1_000,
    "num_heads": 10_000,
    "num_kv_heads": 10_000,
    "head_dim": 10_000,
    "max_model_len": 10**8,
    "sliding_window": 10**9,
}
_KINDS = ("full_attention", "sliding_attention")
_MIXED = frozenset(("qwen2", "qwen3"))  # families whose layers differ by ``layer_types``
_LARGE = 1 << 26  # elements of weight matrices
# Fields that would change the computation, with the only values that leave it as implemented here.
_NEUTRAL = {
    "hidden_act": ("silu",),
    "quantization_config": (),
    "partial_rotary_factor": (1.0,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """Frequency scaling of Llama 3.1: long wavelengths are stretched by ``factor``, short ones kept."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_len: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Everything that the runner must know of a checkpoint.

    Attributes:
        family: A value of ``ARCHITECTURES``.
        max_model_len: Most positions that the model was made for.
        windows: Per layer, to how many tokens one attends, itself and those before it; None for all.
        qkv_bias: Whether the query, key and value projections have a bias; ``o_bias`` and ``mlp_bias`` alike.
        qk_norm: Whether query and key heads are normalised (Qwen3).
        is_tied: Whether the output layer is the embedding.
        rope_scaling: None for plain rotary embeddings.
        dtype: Data type that the checkpoint declares, e.g. ``bfloat16``.
    """

    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_model_len: int
    windows: tuple[int | None, ...]
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool
    is_tied: bool
    dtype: str

    @property
    def group_size(self) -> int:
        """Query heads that share one KV head."""
        return self.num_heads // self.num_kv_heads

    @property
    def has_plain_attention(self) -> bool:
        """Whether every token attends to all before it, wherever their KV lies, by scores of the usual scale."""
        return not any(self.windows)

    @property
    def is_large(self) -> bool:
        """Whether its weight matrices are far beyond a processor's cache, so that memory decides how fast it is."""
        attention = 2 * (self.num_heads + self.num_kv_heads) * self.head_dim
        layer = self.hidden_size * (attention + 3 * self.intermediate_size)
        vocabulary = self.vocab_size * self.hidden_size * (1 if self.is_tied else 2)
        return self.num_layers * layer + vocabulary > _LARGE


def read_model_config(model_dir: Path) -> ModelConfig:
    """Returns the configuration of a checkpoint directory.

    Raises:
        PlannerError: MODEL_NOT_FOUND without ``config.json``, CHECKPOINT_INVALID if it is broken,
            UNSUPPORTED_ARCHITECTURE if the model needs anything that is not implemented.
    """
    path = model_dir / "config.json"
    if not path.is_file():
        raise PlannerError(
            ErrorCode.MODEL_NOT_FOUND, f"{model_dir} has no config.json; pass a Hugging Face checkpoint directory"
        )
    values = read_json(path)
    try:
        family = _family(values, path)
        for name, neutral in _NEUTRAL.items():
            if values.get(name) is not None and values[name] not in neutral:
                raise _unsupported(path, f"{name} = {values[name]!r}"[:200])
        return _parse(values, family, path)
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{path}: missing or wrong value: {error!r}") from error


def read_json(path: Path) -> dict[str, Any]:
    """Returns a JSON object.

    Raises:
        PlannerError: CHECKPOINT_INVALID if the file is not one.
    """
    try:
        values = documents.read_json(path, MAX_JSON_BYTES)
    except documents.DocumentError as error:
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{path} {error}") from error
    if not isinstance(values, dict):
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{path} holds no JSON object")
    return values


def _family(values: Mapping[str, Any], path: Path) -> str:
    named = values.get("architectures") or [values.get("model_type")]
    names = [str(name)[:80] for name in named]
    for name in names:
        if name in ARCHITECTURES:
            return ARCHITECTURES[name]
        if not values.get("architectures") and name in ARCHITECTURES.values():
            return str(name)
    raise _unsupported(path, f"architecture {names}")


def _unsupported(path: Path, what: str) -> PlannerError:
    return PlannerError(
        ErrorCode.UNSUPPORTED_ARCHITECTURE,
        f"{path}: {what} is not supported; the engine runs {sorted(ARCHITECTURES)} with full or sliding-window "
        "attention, SiLU, plain or llama3 rotary embeddings and unquantized weights",
    )


def _parse(values: Mapping[str, Any], family: str, path: Path) -> ModelConfig:
    hidden_size = _bounded("hidden_size", values["hidden_size"])
    num_heads = _bounded("num_heads", values["num_attention_heads"])
    num_layers = _bounded("num_layers", values["num_hidden_layers"])
    max_model_len = _bounded("max_model_len", values["max_position_embeddings"])
    windows = _windows(values, family, num_layers, path)
    rope_theta, rope_scaling = _rope(values, path)
    has_bias = bool(values.get("attention_bias", False))
    config = ModelConfig(
        family=family,
        vocab_size=_bounded("vocab_size", values["vocab_size"]),
        hidden_size=hidden_size,
        intermediate_size=_bounded("intermediate_size", values["intermediate_size"]),
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=_bounded("num_kv_heads", values.get("num_key_value_heads") or num_heads),
        head_dim=_bounded("head_dim", values.get("head_dim") or hidden_size // num_heads),
        max_model_len=max_model_len,
        windows=tuple(None if window is None or window >= max_model_len else window for window in windows),
        rms_norm_eps=float(values["rms_norm_eps"]),
        rope_theta=rope_theta,
        rope_scaling=rope_scaling,
        qkv_bias=family == "qwen2" or has_bias,
        o_bias=family != "qwen2" and has_bias,
        mlp_bias=family == "llama" and bool(values.get("mlp_bias", False)),
        qk_norm=family == "qwen3",
        is_tied=bool(values.get("tie_word_embeddings", False)),
        dtype=str(values.get("dtype") or values.get("torch_dtype") or "float32"),
    )
    scaling = (1.0,) if rope_scaling is None else astuple(rope_scaling)
    if not all(math.isfinite(number) and number > 0 for number in (config.rms_norm_eps, rope_theta, *scaling)):
        raise ValueError("rms_norm_eps and the numbers of rotary embeddings must be finite and positive")
    if config.num_heads % config.num_kv_heads or config.head_dim % 2:
        raise ValueError("query heads must be a multiple of KV heads, and the head size even")
    return config


def _bounded(name: str, value: Any) -> int:  # noqa: ANN401 (of a file)
    if not 1 <= (size := int(value)) <= _LARGEST[name]:
        raise ValueError(f"{name} must be from 1 to {_LARGEST[name]}")
    return size


def _windows(values: Mapping[str, Any], family: str, num_layers: int, path: Path) -> list[int | None]:
    """Returns the window of each layer, as transformers reads it."""
    window, first = values.get("sliding_window", 4096), 0
    if family in _MIXED:
        window, first = window if values.get("use_sliding_window") else None, int(values.get("max_window_layers", 28))
    elif family == "llama":
        window = None
    kinds = [_KINDS[window is not None and layer >= first] for layer in range(num_layers)]
    stated = values.get("layer_types") or kinds
    if len(stated) != num_layers or not set(stated) <= set(_KINDS) or (family not in _MIXED and stated != kinds):
        raise _unsupported(path, f"layer_types = {sorted(set(stated))}"[:200])
    if window is None:
        return [None] * num_layers
    size = _bounded("sliding_window", window)
    return [size if kind == _KINDS[True] else None for kind in stated]


def _rope(values: Mapping[str, Any], path: Path) -> tuple[float, RopeScaling | None]:
    """Returns the base and the scaling, from the spelling of transformers 5 (``rope_parameters``) or of 4."""
    parameters = values.get("rope_parameters") or values.get("rope_scaling") or {}
    theta = float(parameters.get("rope_theta") or values.get("rope_theta") or 10000.0)
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    if parameters.get("partial_rotary_factor") not in {None, 1.0}:
        raise _unsupported(path, f"partial_rotary_factor = {parameters['partial_rotary_factor']}")
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise _unsupported(path, f"rope scaling {kind!r}")
    return theta, RopeScaling(
        factor=float(parameters["factor"]),
        low_freq_factor=float(parameters["low_freq_factor"]),
        high_freq_factor=float(parameters["high_freq_factor"]),
        original_max_len=int(parameters["original_max_position_embeddings"]),
    )
