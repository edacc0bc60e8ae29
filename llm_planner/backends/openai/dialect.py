# SPDX-License-Identifier: Apache-2.0
"""What the servers understand beyond OpenAI's own protocol: grammars, and token ids in their answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llm_planner.backends.openai.gbnf import to_gbnf
from llm_planner.core.errors import ErrorCode, PlannerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One kind of server.

    Attributes:
        name: In the configuration.
        extra: Fields that every request carries.
        grammar: Turns one of our grammars (llguidance's Lark) into fields of a request; None if it knows no grammars.
    """

    name: str
    extra: Mapping[str, Any] = field(default_factory=dict)
    grammar: Callable[[str], dict[str, Any]] | None = None


def _vllm_grammar(lark: str) -> dict[str, Any]:
    return {"structured_outputs": {"grammar": lark}}


def _sglang_grammar(lark: str) -> dict[str, Any]:
    return {"ebnf": to_gbnf(lark)}


def _llamacpp_grammar(lark: str) -> dict[str, Any]:
    return {"grammar": to_gbnf(lark)}


_DIALECTS = (
    Dialect(name="vllm", extra={"return_token_ids": True}, grammar=_vllm_grammar),
    Dialect(name="sglang", grammar=_sglang_grammar),
    Dialect(name="llamacpp", extra={"cache_prompt": True}, grammar=_llamacpp_grammar),
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
