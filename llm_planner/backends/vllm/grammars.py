# SPDX-License-Identifier: Apache-2.0
"""Grammars of vLLM's requests: a text is compiled once, and each request gets a copy.

By itself vLLM compiles the grammar of each request in a thread, and its scheduler skips the request until that is done:
the first token waits, while every step asked for in the meantime is empty.
"""

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from vllm.v1.structured_output.backend_guidance import GuidanceBackend, GuidanceGrammar
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar, StructuredOutputOptions

if TYPE_CHECKING:
    from vllm.v1.engine.core import EngineCore

_MAX_GRAMMARS = 64


class SharedGrammars(GuidanceBackend):
    """Vllm's compiler of grammars, which remembers what it compiled."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._compiled = lru_cache(maxsize=_MAX_GRAMMARS)(super().compile_grammar)

    def compile_grammar(
        self, request_type: StructuredOutputOptions, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> StructuredOutputGrammar:
        """Returns a grammar at its start. vLLM's own does not look at ``stop_token_ids`` either."""
        del stop_token_ids
        compiled: GuidanceGrammar = self._compiled(request_type, grammar_spec)
        return replace(compiled, ll_matcher=compiled.ll_matcher.deep_copy())


def share_grammars(core: "EngineCore") -> None:
    """Has a vLLM without requests compile each grammar once, before its first request is scheduled."""
    manager = core.structured_output_manager
    manager._use_async_grammar_compilation = False  # noqa: SLF001 (no setting says so)
    config = manager.vllm_config
    manager.backend = SharedGrammars(
        config, tokenizer=manager.tokenizer, vocab_size=config.model_config.get_vocab_size()
    )
