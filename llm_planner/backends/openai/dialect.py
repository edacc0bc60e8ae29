# SPDX-License-Identifier: Apache-2.0
"""What the servers understand beyond OpenAI's own protocol: grammars, token ids in their answers, what they tell.

Sources: vLLM, "OpenAI-Compatible Server" and "Structured Outputs"; SGLang, "OpenAI APIs - Completions" and "Structured
Outputs"; llama.cpp, ``tools/server/README.md``.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llm_planner.backends.openai.gbnf import to_gbnf
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.documents import DocumentError, parse_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """Where a server tells how many requests it is serving.

    Attributes:
        path: Below the server's address without ``/v1``.
        read: Returns the number from an answer; None if it is not there.
    """

    path: str
    read: Callable[[bytes], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One kind of server.

    Attributes:
        name: In the configuration.
        extra: Fields that every request carries.
        grammar: Turns one of our grammars (llguidance's Lark) into fields of a request; None if it knows no grammars.
        grammar_help: What to change at a server that does not keep to the grammar.
        detokenize: Path that returns the text of token ids as ``content``; empty if answers have token ids.
        gauge: Of running requests; None if it has none that follows every request (SGLang's is updated now and then).
    """

    name: str
    extra: Mapping[str, Any] = field(default_factory=dict)
    grammar: Callable[[str], dict[str, Any]] | None = None
    grammar_help: str = ""
    detokenize: str = ""
    gauge: Gauge | None = None


def _vllm_grammar(lark: str) -> dict[str, Any]:
    return {"structured_outputs": {"grammar": lark}}


def _sglang_grammar(lark: str) -> dict[str, Any]:
    return {"ebnf": to_gbnf(lark)}


def _llamacpp_grammar(lark: str) -> dict[str, Any]:
    return {"grammar": to_gbnf(lark)}


def _metric(name: str) -> Callable[[bytes], int | None]:
    """Returns what reads a gauge from Prometheus' text format, all its labels together."""
    line = re.compile(rb"^" + re.escape(name.encode()) + rb"(?:\{[^\n]*\})? +([0-9]{1,9})(?:\.0*)? *$", re.MULTILINE)

    def read(body: bytes) -> int | None:
        values = line.findall(body)
        return sum(map(int, values)) if values else None

    return read


def _busy_slots(body: bytes) -> int | None:
    """Returns how many of llama.cpp's slots are processing."""
    try:
        return sum(bool(slot["is_processing"]) for slot in parse_json(body))
    except (DocumentError, KeyError, TypeError):
        return None


_TOKEN_IDS = {"return_token_ids": True}
_DIALECTS = (
    Dialect(
        name="vllm",
        extra=_TOKEN_IDS,
        grammar=_vllm_grammar,
        grammar_help="use vLLM 0.12 or later, with --structured-outputs-config.backend guidance (or auto)",
        gauge=Gauge(path="/metrics", read=_metric("vllm:num_requests_running")),
    ),
    Dialect(
        name="sglang",
        extra=_TOKEN_IDS,
        grammar=_sglang_grammar,
        grammar_help="start SGLang with --grammar-backend xgrammar or llguidance",
    ),
    Dialect(
        name="llamacpp",
        extra={"cache_prompt": True},
        grammar=_llamacpp_grammar,
        grammar_help="use llama.cpp's own llama-server, a recent one",
        detokenize="/detokenize",
        gauge=Gauge(path="/slots", read=_busy_slots),
    ),
    Dialect(name="other"),
)
DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in _DIALECTS}


def find_dialect(name: str, owned_by: str) -> Dialect:
    """Returns the dialect of a server.

    Args:
        name: As configured; ``auto`` goes by what the server says.
        owned_by: What the server says in its list of models.

    Raises:
        PlannerError: INVALID_CONFIG if there is no such dialect.
    """
    if name == "auto":
        return DIALECTS.get(owned_by, DIALECTS["other"])
    if name not in DIALECTS:
        known = ", ".join(("auto", *DIALECTS))
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"openai.server is {name!r}; it must be one of {known}")
    return DIALECTS[name]
