# SPDX-License-Identifier: Apache-2.0
"""Token ids of what a server wrote, whether it names them or returns text."""

import itertools
from collections.abc import Iterable

from llm_planner.core.interfaces import Tokenizer

_FIRST_PIECE = 1 << 40
"""Smaller ids are the model's; a larger one is a piece of text that the tokenizer cannot spell, marker and bytes."""

_BEFORE = ("\n", ";", ")", ":")
"""Texts behind which another one is encoded; with one of them no token begins that goes on into the other."""


class OutputTokens:
    """The model's tokenizer, with ids for all other text too; implements ``core.interfaces.Tokenizer``.

    No byte of what a server wrote is lost: the planner reads the plan from the bytes of its tokens.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Tokens that end a generation."""
        return self._tokenizer.eos_token_ids

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """Returns the model's ids of ``text``."""
        return self._tokenizer.encode(text, allow_special=allow_special)

    def token_bytes(self, token_id: int) -> bytes:
        """Returns the bytes that a token or a piece of text stands for."""
        if token_id < _FIRST_PIECE:
            return self._tokenizer.token_bytes(token_id)
        return token_id.to_bytes((token_id.bit_length() + 7) // 8, "big")[6:]

    def of_text(self, text: str) -> list[int]:
        """Returns ids whose bytes are exactly those of a text that the server returned."""
        raw = text.encode(errors="replace")
        text = raw.decode()  # a lone surrogate is no text that can be encoded
        ids = self._tokenizer.encode(text)
        if self._bytes(ids) == raw:
            return ids
        return [int.from_bytes(b"\x01" + bytes(5) + raw, "big")]

    def for_model(self, token_ids: Iterable[int]) -> list[int]:
        """Returns prompt or output in ids that the model knows: pieces of text next to each other are encoded again."""
        ids: list[int] = []
        for is_text, run in itertools.groupby(token_ids, lambda token_id: token_id >= _FIRST_PIECE):
            if is_text:
                ids += self._in_midst(b"".join(map(self.token_bytes, run)).decode(errors="replace"))
            else:
                ids += run
        return ids

    def _in_midst(self, text: str) -> list[int]:
        """Returns the model's ids of a text that follows another one.

        Tokenizers in sentencepiece style write a space before the first word of a text, which the model has not
        written; so the text is encoded behind another one, and that one is taken off again.
        """
        raw, ids = text.encode(), self._tokenizer.encode(text)
        if self._bytes(ids) == raw:
            return ids
        for before in _BEFORE:
            first = self._tokenizer.encode(before)
            both = self._tokenizer.encode(before + text)
            if both[: len(first)] == first and self._bytes(both[len(first) :]) == raw:
                return both[len(first) :]
        return ids

    def _bytes(self, token_ids: Iterable[int]) -> bytes:
        return b"".join(map(self._tokenizer.token_bytes, token_ids))
