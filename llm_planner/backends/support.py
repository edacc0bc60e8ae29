# SPDX-License-Identifier: Apache-2.0
"""Which settings each backend honours; the others are refused by number, or warned of where a default leaves it open.

A setting that ``LIMITS`` does not name is honoured by every backend. ``assembly`` checks a configuration, and the robot
models that it serves, before it loads a model; ``docs/backends.md`` shows the table.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from llm_planner.core.config import OpenAIConfig, PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.interfaces import BackendInfo
from llm_planner.scheduling.policies import make_policy
from llm_planner.scheduling.policies.memory_safe import MemorySafe

BACKENDS = ("torch", "vllm", "openai")
WORKS = "works"
REFUSED = f"refused ({ErrorCode.INVALID_CONFIG.name} {ErrorCode.INVALID_CONFIG:d})"
WARNING = "one warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A setting that not every backend honours.

    Attributes:
        without: Backends that do not, with what they do instead, as a sentence goes on behind "backend NAME ...".
        warned: Value that leaves it to the backend; it gets one warning instead of a refusal.
        harmless: Values besides the default that such a backend satisfies anyway.
        is_meant: Whether a value asks for it; None for every value but the default and those above.
        example: A value that asks for it.
    """

    without: Mapping[str, str]
    example: Any
    warned: Any = None
    harmless: tuple[Any, ...] = ()
    is_meant: Callable[[Any], bool] | None = None

    def answer(self, backend: str) -> str:
        """Returns the cell of the table."""
        if backend not in self.without:
            return WORKS
        answer = REFUSED if self.is_refused(self.example, None) else WORKS
        return answer if self.warned is None else f"{WARNING} at `{self.warned}`, else {answer}"

    def is_refused(self, value: Any, default: Any) -> bool:
        """Returns whether a backend without it refuses a value."""
        if self.is_meant is not None:
            return self.is_meant(value)
        return value not in (default, self.warned, *self.harmless)


def _is_memory_safe(policy: str) -> bool:
    return isinstance(make_policy(policy), MemorySafe)


def _only(backend: str, instead: str, example: Any, **more: Any) -> Limit:
    return Limit(without={name: instead for name in BACKENDS if name != backend}, example=example, **more)


_NO_EVICTION = "cannot remove KV from within a sequence"
_SERVERS_OWN = {"openai": "asks a server that has its own; set it there"}
_ONE_PIECE = "runs a model in one piece; set backend: vllm"
_ONE_DEVICE = "starts no model on several devices; set backend: vllm"
_NO_VLLM = "starts no vLLM; set backend: vllm, or set it at the server"
_NO_SERVER = "asks no server; set backend: openai"
LIMITS: Mapping[str, Limit] = {
    "scheduler.policy": Limit(
        without={
            "vllm": "leaves preemption to vLLM when memory is short, so a memory-safe policy decides nothing",
            "openai": "does not know the server's memory, so a memory-safe policy decides nothing",
        },
        example="a_min",
        is_meant=_is_memory_safe,
    ),
    "scheduler.max_num_batched_tokens": Limit(without=_SERVERS_OWN, example=512),
    "scheduler.max_eviction_ratio": _only("torch", _NO_EVICTION, 0.5),
    "engine.eviction_method": _only("torch", _NO_EVICTION, "streaming"),
    "engine.lookahead": Limit(
        without={"openai": "adds no tokens to the one per step that the model writes"},
        example="always",
        warned="auto",
        harmless=("off",),
    ),
    "engine.dtype": Limit(without=_SERVERS_OWN, example="bfloat16"),
    "engine.num_kv_blocks": Limit(without=_SERVERS_OWN, example=64),
    "engine.block_size": Limit(without=_SERVERS_OWN, example=32),
    "engine.num_threads": Limit(without=_SERVERS_OWN, example=2),
    "engine.profile": Limit(
        without={
            "openai": "asks a server that cannot be measured step by step, so time budgets learn from its answers"
        },
        example="llama3-8b-rtx4090",
        warned="auto",
        is_meant=lambda _: False,
    ),
    "engine.pipeline_stages": Limit(without=dict.fromkeys(("torch", "openai", "fake"), _ONE_PIECE), example=2),
    "engine.nodes": _only("vllm", _ONE_PIECE, "10.0.0.1,10.0.0.2"),
    "engine.nodes_port": _only("vllm", _ONE_PIECE, 29511),
    "engine.micro_batches": _only("vllm", _ONE_PIECE, "static"),
    "engine.max_model_len": Limit(
        without={
            "torch": "takes what the KV cache holds, at most what the model takes; set engine.num_kv_blocks",
            "openai": "takes what the server says; set openai.max_model_len for one that does not say",
        },
        example=512,
    ),
    "engine.tensor_parallel": _only("vllm", _ONE_DEVICE, 2),
    "engine.gpu_memory_utilization": _only("vllm", _NO_VLLM, 0.5),
    "engine.quantization": _only("vllm", _NO_VLLM, "fp8"),
    "engine.kv_cache_dtype": _only("vllm", _NO_VLLM, "fp8"),
    "engine.vllm_args": _only("vllm", _NO_VLLM, '{"swap_space": 1}'),
    "openai.base_url": _only("openai", _NO_SERVER, "http://192.168.0.2:8000/v1"),
    "openai.model": _only("openai", _NO_SERVER, "served"),
    "openai.api_key_variable": _only("openai", _NO_SERVER, "MY_KEY"),
    "openai.server": _only("openai", _NO_SERVER, "vllm"),
    "openai.max_model_len": _only("openai", _NO_SERVER, 2048),
    "openai.connect_timeout_s": _only("openai", _NO_SERVER, 1.0),
    "openai.stall_timeout_s": _only("openai", _NO_SERVER, 1.0),
    "openai.retry_s": _only("openai", _NO_SERVER, 1.0),
    "min_confidence": Limit(
        without={"openai": "does not ask how probable the server's tokens are, so min_confidence has no effect"},
        example=0.5,
        warned=-1.0,
        harmless=(0.0,),
    ),
}

ADAPTER = Limit(
    without={"openai": "asks a server that is told of adapters when it starts, under names of its own; leave it out"},
    example="my_adapter",
)
"""Of ``adapter``, which is no setting but a key of robot models."""


def require_adapters(backend: str, adapters: Mapping[str, str]) -> None:
    """Refuses adapters that a backend does not apply.

    Args:
        backend: Name of the backend.
        adapters: Their directories, by the names of the robot models that name them.

    Raises:
        PlannerError: INVALID_CONFIG, naming every such robot model.
    """
    if adapters and (instead := ADAPTER.without.get(backend)) is not None:
        refused = [
            f"adapter of robot model {name} is {path!r}, but backend {backend} " for name, path in adapters.items()
        ]
        raise PlannerError(ErrorCode.INVALID_CONFIG, "; ".join(text + instead for text in refused))


def require_address(config: OpenAIConfig) -> None:
    """Refuses an address that is none, and settings that may hold an API key or a password, without repeating them.

    Raises:
        PlannerError: INVALID_CONFIG.
    """
    hint = "put the API key into an environment variable, and its name into openai.api_key_variable"
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", config.api_key_variable):
        message = f"openai.api_key_variable is no name of an environment variable; {hint}"
    elif any(mark in config.base_url for mark in "@?#"):
        message = f"openai.base_url holds '@', '?' or '#'; leave user name, password and query out; {hint}"
    elif not _is_address(config.base_url):
        message = f"openai.base_url is {config.base_url!r:.200}; give an address like http://127.0.0.1:8000/v1"
    else:
        return
    raise PlannerError(ErrorCode.INVALID_CONFIG, message)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError:
        return False


def require_support(config: PlannerConfig) -> list[str]:
    """Returns one warning for each setting whose value leaves it to the backend, which does not have it.

    Raises:
        PlannerError: INVALID_CONFIG, naming every setting that asks for what the backend does not have; as
            ``require_address``.
    """
    require_address(config.openai)
    warnings, refused, default = [], [], PlannerConfig()
    for name, limit in LIMITS.items():
        instead = limit.without.get(config.backend)
        if instead is None:
            continue
        value = _value(config, name)
        if limit.is_refused(value, _value(default, name)):
            refused.append(f"{name} is {value!r}, but backend {config.backend} {instead}")
        elif limit.warned is not None and value == limit.warned:
            warnings.append(f"{name} is {value!r}: backend {config.backend} {instead}")
    if config.backend == "vllm" and config.engine.pipeline_stages == 1:
        name, usual = "engine.micro_batches", default.engine.micro_batches
        if (value := config.engine.micro_batches) != usual:
            refused.append(f"{name} is {value!r}, but engine.pipeline_stages is 1: raise it, or leave {usual}")
    if refused:
        raise PlannerError(ErrorCode.INVALID_CONFIG, "; ".join(refused))
    return warnings


def warn_of_model(config: PlannerConfig, info: BackendInfo) -> list[str]:
    """Returns one warning for each setting that the backend has, but not with the model that it has loaded."""
    if info.can_evict:
        return []
    default = PlannerConfig()
    asked = {name: _value(config, name) for name in ("scheduler.max_eviction_ratio", "engine.eviction_method")}
    return [
        f"{name} is {value!r}, but backend {config.backend} {_NO_EVICTION} of {info.model}"
        for name, value in asked.items()
        if value and LIMITS[name].is_refused(value, _value(default, name))  # 0 asks for none
    ]


def table() -> str:
    """Returns the table of ``docs/backends.md``, in Markdown."""
    head = "| setting | " + " | ".join(BACKENDS) + " |\n|---|" + "---|" * len(BACKENDS)
    limits = {**{_title(name): limit for name, limit in LIMITS.items()}, "`adapter` of a robot model": ADAPTER}
    rows = [f"| {title} | " + " | ".join(map(limit.answer, BACKENDS)) + " |" for title, limit in limits.items()]
    return "\n".join([head, *rows, "| every other setting | " + " | ".join([WORKS] * len(BACKENDS)) + " |", ""])


def _title(name: str) -> str:
    return f"`{name}`" + (", the memory-safe ones" if name == "scheduler.policy" else "")


def _value(config: PlannerConfig, name: str) -> Any:
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return value
