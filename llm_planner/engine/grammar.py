# SPDX-License-Identifier: Apache-2.0
"""Constrained decoding with llguidance: which tokens may come next. One matcher per request."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import torch
from llguidance import LLMatcher, LLTokenizer

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.tokenizer import HFTokenizer


class GrammarError(ValueError):
    """A grammar that cannot be compiled, or that came to a dead end."""


class Matcher:
    """Where one output stands in its grammar."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher

    @property
    def is_complete(self) -> bool:
        """True if nothing can follow any more."""
        return bool(self._matcher.is_stopped())

    def try_accept(self, token_id: int) -> bool:
        """Moves on by one token if the grammar allows it; says whether it did."""
        return self._matcher.try_consume_tokens([token_id]) == 1

    def allows(self, token_id: int) -> bool:
        """Returns whether a token may come next."""
        return self._matcher.validate_tokens([token_id]) == 1

    def would_have_allowed(self, token_ids: Iterable[int], instead_of: int) -> list[bool]:
        """Returns of each token whether it could have come in the place of the last one, which was accepted."""
        self._matcher.rollback(1)
        allowed = [self.allows(token_id) for token_id in token_ids]
        self._matcher.try_consume_tokens([instead_of])
        return allowed

    def forced_token(self) -> int | None:
        """Returns the only token of the mask, if there is but one; None if there is a choice, or only an end.

        llguidance calls it a fast-forward token: the first of the usual tokenization of the bytes that must come next,
        as far as no later text can change that tokenization. Nothing else is in the mask then.
        """
        forced = self._matcher.compute_ff_tokens()
        return forced[0] if forced else None

    def fork(self) -> "Matcher":
        """Returns a matcher that stands at the same place and goes its own way."""
        return Matcher(self._matcher.deep_copy())

    def fill_mask(self, row: torch.Tensor) -> None:
        """Writes one bit per allowed token into ``row`` (mask_words,), int32, contiguous, on the CPU."""
        self._matcher.unsafe_compute_mask_ptr(row.data_ptr(), row.numel() * row.element_size())


class GrammarCompiler:
    """Compiles grammars for one tokenizer; each text once.

    Args:
        tokenizer_json: Content of ``tokenizer.json``.
        vocab_size: Width of the logits, which may exceed the tokenizer's vocabulary.
        eos_token_ids: Tokens that end a generation.

    Raises:
        GrammarError: If tokenizer, vocabulary and end tokens do not belong together.
    """

    def __init__(self, tokenizer_json: str, vocab_size: int, eos_token_ids: Iterable[int]) -> None:
        try:
            self._tokenizer = LLTokenizer(tokenizer_json, n_vocab=vocab_size, eos_token=sorted(eos_token_ids))
        except ValueError as error:
            raise GrammarError(f"tokenizer and model do not belong together: {error}") from error
        self._compiled = lru_cache(maxsize=64)(self._compile)

    def matcher(self, grammar: str) -> Matcher:
        """Returns a matcher at the start of a Lark grammar.

        Raises:
            GrammarError: If the grammar is malformed.
        """
        return Matcher(self._compiled(grammar)).fork()

    def _compile(self, grammar: str) -> LLMatcher:
        matcher = LLMatcher(self._tokenizer, LLMatcher.grammar_from_lark(grammar), log_level=0)
        if matcher.is_error():
            raise GrammarError(f"grammar cannot be compiled: {matcher.get_error()}")
        return matcher


def compiler_for(model_dir: Path, tokenizer: HFTokenizer, vocab_size: int) -> GrammarCompiler:
    """Returns a compiler for the tokenizer of a checkpoint.

    Raises:
        PlannerError: CHECKPOINT_INVALID if the tokenizer is another model's.
    """
    try:
        return GrammarCompiler(tokenizer.json_text, vocab_size, tokenizer.eos_token_ids)
    except GrammarError as error:
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{model_dir}: {error}") from error


def unpack_mask(words: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """Returns (num_rows, vocab_size) booleans of packed bits (num_rows, mask_words), int32."""
    bits = torch.arange(32, dtype=torch.int32, device=words.device)
    return ((words[:, :, None] >> bits) & 1).bool().flatten(1)[:, :vocab_size]


def mask_words(vocab_size: int) -> int:
    """Returns how many 32-bit words hold one bit per token."""
    return -(-vocab_size // 32)
