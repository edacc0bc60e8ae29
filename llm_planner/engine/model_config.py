# SPDX-License-Identifier: Apache-2.0
"""The shape of a model, read from ``config.json``; whatever the engine cannot compute exactly is refused here."""

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, TypedDict

from llm_planner import documents
from llm_planner.core.errors import ErrorCode, PlannerError

ARCHITECTURES = {
    "Gemma2ForCausalLM": "gemma2",
    "Gemma3ForCausalLM": "gemma3_text",
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Phi3ForCausalLM": "phi3",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
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
    "num_experts": 1_000,
    "sliding_window": 10**9,
}
_KINDS = ("full_attention", "sliding_attention")
_GEMMA = frozenset(("gemma2", "gemma3_text"))
_QWEN = frozenset(("qwen2", "qwen3"))
ACTIVATIONS = ("silu", "gelu_pytorch_tanh")
_LAYOUTS = {"gptq": ["gptq", "gptq_v2"], "awq": ["gemm"]}
_MOST_EXPERTS = 100_000
_LARGE = 1 << 26  # elements of weight matrices
# Fields that would change the computation, with the only values that leave it as implemented here.
_NEUTRAL = {
    "partial_rotary_factor": (1.0,),
    "is_causal": (True,),
    "use_bidirectional_attention": (False,),
    "decoder_sparse_step": (1,),
    "mlp_only_layers": ([],),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """Frequency scaling of Llama 3.1: long wavelengths are stretched by ``factor``, short ones kept."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_len: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """How the linear layers of a checkpoint are stored in 4 bits.

    Attributes:
        method: ``gptq`` or ``awq``.
        group_size: Inputs that share a scale and a zero point; None for all of them.
        zero_offset: What is missing in stored zero points.
    """

    method: str
    group_size: int | None
    zero_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Everything that the runner must know of a checkpoint.

    Attributes:
        family: A value of ``ARCHITECTURES``.
        intermediate_size: Of the feed-forward part of a layer, or of each expert.
        max_model_len: Most positions that the model was made for.
        num_experts: Feed-forward parts of each layer to which a router sends tokens; 0 for one that all tokens take.
        num_experts_per_token: To how many of them it sends a token.
        normalizes_routing: Whether the weights of these add up to one.
        windows: Per layer, to how many tokens one attends, itself and those before it; None for all.
        activation: One of ``ACTIVATIONS``, of the gate of the feed-forward layers.
        attention_scale: Factor of the products of queries and keys.
        attention_softcap: Scores s of attention become c tanh(s / c); None leaves them. ``logit_softcap`` alike.
        embedding_scale: Factor of the embeddings at the input; rounded to the data type.
        qkv_bias: Whether the query, key and value projections have a bias; ``o_bias`` and ``mlp_bias`` alike.
        has_fused_weights: Whether the checkpoint holds query-key-value and gate-up weights as one (Phi-3).
        qk_norm: Whether query and key heads are normalised (Qwen3, Gemma 3).
        has_post_norms: Whether the outputs of attention and of the feed-forward layers are normalised (Gemma).
        norms_add_one: Whether weights of norms are stored less one (Gemma).
        is_tied: Whether the output layer is the embedding.
        rope_scaling: None for plain rotary embeddings.
        rope_divisors: Of each frequency, (head_dim / 2,); empty for plain rotary embeddings.
        rope_amplitude: Factor of rotated queries and keys.
        local_rope_theta: Base of plain rotary embeddings in layers with a window; None if it is that of the others.
        quantization: Of the linear layers, but not the output layer and routers; None if they are stored as numbers.
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
    num_experts: int
    num_experts_per_token: int
    normalizes_routing: bool
    windows: tuple[int | None, ...]
    activation: str
    attention_scale: float
    attention_softcap: float | None
    logit_softcap: float | None
    embedding_scale: float
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None
    rope_divisors: tuple[float, ...]
    rope_amplitude: float
    local_rope_theta: float | None
    has_fused_weights: bool
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool
    has_post_norms: bool
    norms_add_one: bool
    is_tied: bool
    quantization: Quantization | None
    dtype: str

    @property
    def group_size(self) -> int:
        """Query heads that share one KV head."""
        return self.num_heads // self.num_kv_heads

    @property
    def has_plain_attention(self) -> bool:
        """Whether every token attends to all before it, wherever their KV lies, by scores of the usual scale."""
        has_windows = any(window is not None and window < self.max_model_len for window in self.windows)
        is_usual = self.attention_scale == self.head_dim**-0.5 and self.attention_softcap is None
        return is_usual and not has_windows

    @property
    def is_large(self) -> bool:
        """Whether its weight matrices are far beyond a processor's cache, so that memory decides how fast it is."""
        attention = 2 * (self.num_heads + self.num_kv_heads) * self.head_dim
        layer = self.hidden_size * (attention + 3 * self.intermediate_size * max(1, self.num_experts))
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
    raise _unsupported(path, f"{'architectures' if values.get('architectures') else 'model_type'} = {names}"[:400])


def _unsupported(path: Path, what: str) -> PlannerError:
    message = f"{path}: {what} is not supported; the engine runs {sorted(ARCHITECTURES)}, as docs/engine.md says"
    return PlannerError(ErrorCode.UNSUPPORTED_ARCHITECTURE, message)


def _parse(values: Mapping[str, Any], family: str, path: Path) -> ModelConfig:
    hidden_size = _bounded("hidden_size", values["hidden_size"])
    num_heads = _bounded("num_heads", values["num_attention_heads"])
    num_layers = _bounded("num_layers", values["num_hidden_layers"])
    num_experts = 0
    if family == "qwen3_moe":  # transformers 5 writes the second name
        num_experts = _bounded("num_experts", values.get("num_experts", values.get("num_local_experts")))
    is_gemma, has_bias = family in _GEMMA, family != "phi3" and bool(values.get("attention_bias", False))
    head_dim = _bounded("head_dim", values.get("head_dim") or (256 if is_gemma else hidden_size // num_heads))
    config = ModelConfig(
        family=family,
        vocab_size=_bounded("vocab_size", values["vocab_size"]),
        hidden_size=hidden_size,
        intermediate_size=_bounded(
            "intermediate_size", values["moe_intermediate_size" if num_experts else "intermediate_size"]
        ),
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=_bounded("num_kv_heads", values.get("num_key_value_heads") or num_heads),
        head_dim=head_dim,
        num_experts=num_experts,
        num_experts_per_token=_bounded("num_experts", values["num_experts_per_tok"]) if num_experts else 0,
        normalizes_routing=bool(values.get("norm_topk_prob", False)),
        windows=_windows(values, family, num_layers, path),
        activation=_activation(values, path, is_gemma=is_gemma),
        attention_scale=float(values.get("query_pre_attn_scalar", 256) if is_gemma else head_dim) ** -0.5,
        attention_softcap=_softcap(values, "attn_logit_softcapping", family, 50.0),
        logit_softcap=_softcap(values, "final_logit_softcapping", family, 30.0),
        embedding_scale=hidden_size**0.5 if is_gemma else 1.0,
        rms_norm_eps=float(values["rms_norm_eps"]),
        **_rope(values, family, head_dim, path),
        has_fused_weights=family == "phi3",
        qkv_bias=family == "qwen2" or has_bias,
        o_bias=family != "qwen2" and has_bias,
        mlp_bias=family == "llama" and bool(values.get("mlp_bias", False)),
        qk_norm=family in {"qwen3", "qwen3_moe", "gemma3_text"},
        has_post_norms=is_gemma,
        norms_add_one=is_gemma,
        is_tied=bool(values.get("tie_word_embeddings", is_gemma)),
        quantization=_quantization(values, path),
        dtype=str(values.get("dtype") or values.get("torch_dtype") or "float32"),
    )
    if family == "gemma3_text" and config.attention_softcap is not None:  # transformers reads the field, and ignores it
        raise _unsupported(path, f"attn_logit_softcapping = {config.attention_softcap}")
    _check_numbers(config)
    return config


def _check_numbers(config: ModelConfig) -> None:
    numbers = [
        config.rms_norm_eps,
        config.attention_scale,
        config.rope_theta,
        config.rope_amplitude,
        *config.rope_divisors,
    ]
    numbers += () if config.rope_scaling is None else astuple(config.rope_scaling)
    numbers += [n for n in (config.attention_softcap, config.logit_softcap, config.local_rope_theta) if n is not None]
    if not all(math.isfinite(number) and number > 0 for number in numbers):
        raise ValueError(
            "rms_norm_eps, soft caps, scales and the numbers of rotary embeddings must be finite and positive"
        )
    if config.num_experts_per_token > config.num_experts or config.num_layers * config.num_experts > _MOST_EXPERTS:
        raise ValueError(
            f"num_experts_per_tok exceeds num_experts, or all layers have more than {_MOST_EXPERTS} experts"
        )
    if len(config.rope_divisors) not in {0, config.head_dim // 2}:
        raise ValueError("short_factor must have one number per frequency")
    widths = (config.hidden_size, config.intermediate_size, config.num_kv_heads * config.head_dim)
    if config.quantization is not None and any(width % 8 for width in widths):
        raise ValueError("layers of quantized weights must have sizes that are multiples of 8")
    if config.num_heads % config.num_kv_heads or config.head_dim % 2:
        raise ValueError("query heads must be a multiple of KV heads, and the head size even")


def _quantization(values: Mapping[str, Any], path: Path) -> Quantization | None:
    stated = values.get("quantization_config")
    if stated is None:
        return None
    method = stated.get("quant_method")
    layout = str(
        stated.get("version" if method == "awq" else "checkpoint_format") or _LAYOUTS.get(method, [""])[0]
    ).lower()
    accepted = {
        "quant_method": method in _LAYOUTS,
        "bits": stated.get("bits") == 4,
        "version" if method == "awq" else "checkpoint_format": layout in _LAYOUTS.get(method, ()),
        "zero_point": stated.get("zero_point", True) is True,
        "modules_to_not_convert": set(stated.get("modules_to_not_convert") or ()) <= {"lm_head", "gate", "mlp.gate"},
        "lm_head": not stated.get("lm_head"),
        "dynamic": not stated.get("dynamic"),
        "is_marlin_format": not stated.get("is_marlin_format"),
    }
    for field, is_accepted in accepted.items():
        if not is_accepted:
            raise _unsupported(path, f"quantization_config.{field} = {stated.get(field)!r}"[:200])
    group_size = int(stated.get("group_size", 128))
    if group_size != -1 and not 1 <= group_size <= _LARGEST["hidden_size"]:
        raise ValueError("group_size must be -1 or positive")
    return Quantization(
        method=method, group_size=None if group_size == -1 else group_size, zero_offset=1 if layout == "gptq" else 0
    )


def _activation(values: Mapping[str, Any], path: Path, *, is_gemma: bool) -> str:
    field, default = ("hidden_activation", "gelu_pytorch_tanh") if is_gemma else ("hidden_act", "silu")
    activation = values.get(field) or default
    if activation not in ACTIVATIONS:
        raise _unsupported(path, f"{field} = {activation!r}"[:200])
    return str(activation)


def _softcap(values: Mapping[str, Any], field: str, family: str, default: float) -> float | None:
    cap = values.get(field, default if family == "gemma2" else None) if family in _GEMMA else None
    return None if cap is None else float(cap)


def _bounded(name: str, value: Any) -> int:
    if not 1 <= (size := int(value)) <= _LARGEST[name]:
        raise ValueError(f"{name} must be from 1 to {_LARGEST[name]}")
    return size


def _windows(values: Mapping[str, Any], family: str, num_layers: int, path: Path) -> tuple[int | None, ...]:
    """Returns the window of each layer, as transformers reads it."""
    window, first, pattern = values.get("sliding_window", None if family == "phi3" else 4096), 0, num_layers + 1
    if family == "llama" or (family in _QWEN | {"qwen3_moe"} and not values.get("use_sliding_window")):
        window = None
    elif family in _QWEN:
        first = int(values.get("max_window_layers", 28))
    elif family in _GEMMA:  # every second, or sixth, layer has none
        pattern = 2 if family == "gemma2" else int(values.get("sliding_window_pattern", 6))
        if window is None:
            raise _unsupported(path, "sliding_window = None")
    kinds = [
        _KINDS[window is not None and layer >= first and (layer + 1) % pattern != 0] for layer in range(num_layers)
    ]
    stated = values.get("layer_types") or kinds
    is_mixed = family in _QWEN | _GEMMA
    if len(stated) != num_layers or not set(stated) <= set(_KINDS) or not (is_mixed or stated == kinds):
        raise _unsupported(path, f"layer_types = {sorted(set(stated))}"[:200])
    size = None if window is None else _bounded("sliding_window", window)
    return tuple(size if kind == _KINDS[True] else None for kind in stated)


class _Rope(TypedDict):
    """The fields of ``ModelConfig`` on rotary embeddings, and how far they reach."""

    max_model_len: int
    rope_theta: float
    rope_scaling: RopeScaling | None
    rope_divisors: tuple[float, ...]
    rope_amplitude: float
    local_rope_theta: float | None


def _rope(values: Mapping[str, Any], family: str, head_dim: int, path: Path) -> _Rope:
    """Reads the spelling of transformers 5 (``rope_parameters``) or of 4 (``rope_theta``, ``rope_scaling``)."""
    parameters, theta, local_theta = values.get("rope_parameters") or {}, 10000.0, None
    if family == "gemma3_text":
        local, parameters = parameters.get("sliding_attention") or {}, parameters.get("full_attention") or {}
        theta, local_theta = 1e6, float(local.get("rope_theta") or values.get("rope_local_base_freq") or 10000.0)
        if _rope_type(local) != "default":
            raise _unsupported(path, f"rope_type = {_rope_type(local)!r} of sliding_attention"[:200])
    scaling = values.get("rope_scaling") or {}
    if parameters and not _says_the_same(scaling, parameters):  # which of them holds is up to who reads it
        raise _unsupported(path, f"rope_scaling = {scaling!r} next to another rope_parameters"[:200])
    parameters = parameters or scaling
    rope = _Rope(
        max_model_len=_bounded("max_model_len", values["max_position_embeddings"]),
        rope_theta=float(parameters.get("rope_theta") or values.get("rope_theta") or theta),
        rope_scaling=None,
        rope_divisors=(),
        rope_amplitude=1.0,
        local_rope_theta=local_theta,
    )
    if parameters.get("partial_rotary_factor") not in {None, 1.0}:
        raise _unsupported(path, f"partial_rotary_factor = {parameters['partial_rotary_factor']}")
    match _rope_type(parameters):
        case "default":
            pass
        case "linear":
            rope["rope_divisors"] = (float(parameters["factor"]),) * (head_dim // 2)
        case "llama3":
            rope["rope_scaling"] = RopeScaling(
                factor=float(parameters["factor"]),
                low_freq_factor=float(parameters["low_freq_factor"]),
                high_freq_factor=float(parameters["high_freq_factor"]),
                original_max_len=int(parameters["original_max_position_embeddings"]),
            )
        case "longrope" | "su" | "yarn" if family == "phi3":  # three names of the same
            original = _bounded("max_model_len", values.get("original_max_position_embeddings", 4096))
            stretch = float(parameters.get("factor") or rope["max_model_len"] / original)
            usual = math.sqrt(1 + math.log(stretch) / math.log(original)) if stretch > 1 else 1.0
            rope["rope_amplitude"] = float(parameters.get("attention_factor") or usual)
            rope["rope_divisors"] = tuple(map(float, parameters["short_factor"]))
            rope["max_model_len"] = min(original, rope["max_model_len"])  # behind it the keys would all be others
        case kind:
            raise _unsupported(path, f"rope_type = {kind!r}"[:200])
    return rope


def _says_the_same(scaling: Mapping[str, Any], parameters: Mapping[str, Any]) -> bool:
    """Returns whether ``rope_scaling`` says nothing that ``rope_parameters`` does not say as well."""
    said = {name: value for name, value in scaling.items() if name not in {"rope_type", "type"}}
    same_type = not scaling or _rope_type(scaling) == _rope_type(parameters)
    return same_type and all(name in parameters and parameters[name] == value for name, value in said.items())


def _rope_type(parameters: Mapping[str, Any]) -> Any:
    return parameters.get("rope_type") or parameters.get("type") or "default"
