# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of Hugging Face checkpoints: exact bytes per token, and no way from user text to a special token."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as FastTokenizer

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.model_config import read_json
from llm_planner.engine.token_bytes import token_bytes_table


class HFTokenizer:
    """A fast BPE tokenizer (``tokenizer.json``), byte-level or in sentencepiece style with byte fallback.

    Attributes:
        json_text: The tokenizer as JSON, for the grammar compiler.
        start_token_ids: What the checkpoint expects at the start of a prompt without chat template (mostly a
            beginning-of-sequence token, or nothing).
    """

    def __init__(self, json_text: str, eos_token_ids: frozenset[int]) -> None:
        definition = json.loads(json_text)
        self.json_text = json_text
        self._eos_token_ids = eos_token_ids
        self._fast = _whole_texts(json_text)
        self._bytes = token_bytes_table(definition)
        self._plain = _whole_texts(json.dumps(_without_special_tokens(definition)))
        self.start_token_ids = self._start_token_ids()

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Tokens that end a generation."""
        return self._eos_token_ids

    @property
    def start_text(self) -> str:
        """The start tokens as text; only ``encode(..., allow_special=True)`` turns it back into them."""
        return "".join(str(self._fast.id_to_token(token_id)) for token_id in self.start_token_ids)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included."""
        return int(self._fast.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """Returns the ids of ``text``; special-token spellings in it stay plain text unless allowed."""
        tokenizer = self._fast if allow_special else self._plain
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    def token_bytes(self, token_id: int) -> bytes:
        """Returns the bytes that one token stands for (empty for special tokens and unused ids)."""
        return self._bytes.get(token_id, b"")

    def _start_token_ids(self) -> tuple[int, ...]:
        encoding = self._fast.encode("a", add_special_tokens=True)
        start = encoding.special_tokens_mask.index(0)
        return tuple(encoding.ids[:start])


def load_tokenizer(path: Path | str) -> HFTokenizer:
    """Returns the tokenizer of a checkpoint directory.

    Raises:
        PlannerError: TOKENIZER_MISSING without ``tokenizer.json``, CHECKPOINT_INVALID if it is broken, of an
            unsupported kind, or names no end-of-sequence token.
    """
    directory = Path(path)
    file = directory / "tokenizer.json"
    if not file.is_file():
        raise PlannerError(
            ErrorCode.TOKENIZER_MISSING,
            f"{directory} has no tokenizer.json; save the tokenizer with transformers' save_pretrained",
        )
    try:
        text = file.read_text(encoding="utf-8")
        return HFTokenizer(text, _eos_token_ids(directory, FastTokenizer.from_str(text)))
    except PlannerError:
        raise
    except Exception as error:  # the library raises bare Exception on malformed JSON
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{file} cannot be used: {error}") from error


def _whole_texts(json_text: str) -> FastTokenizer:
    """Returns a tokenizer that neither cuts nor pads; a checkpoint's file may tell how its training data was."""
    tokenizer = FastTokenizer.from_str(json_text)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _eos_token_ids(directory: Path, fast: FastTokenizer) -> frozenset[int]:
    """Returns every end token that generation_config, config or tokenizer_config names."""
    found: set[int] = set()
    for name in ("generation_config.json", "config.json", "tokenizer_config.json"):
        values = read_json(directory / name) if (directory / name).is_file() else {}
        given = values.get("eos_token_id")
        ids = given if isinstance(given, list) else [] if given is None else [given]
        for token_id in ids:
            if not isinstance(token_id, int) or isinstance(token_id, bool) or token_id < 0:
                message = f"{directory / name}: eos_token_id {token_id!r:.80} is no token"
                raise PlannerError(ErrorCode.CHECKPOINT_INVALID, message)
        found.update(ids)
        token = values.get("eos_token")
        spelling = token.get("content") if isinstance(token, dict) else token
        if spelling is not None and (token_id := fast.token_to_id(spelling)) is not None:
            found.add(token_id)
    if not found:
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{directory} names no end-of-sequence token")
    return frozenset(found)


def _without_special_tokens(definition: dict[str, Any]) -> dict[str, Any]:
    """Returns a tokenizer definition that cannot produce an added token from text, whatever the spelling."""
    special = {token["content"] for token in definition["added_tokens"] if token["special"]}
    model = definition["model"]
    unreachable = special - {model.get("unk_token")}
    plain = {
        **model,
        "vocab": {token: token_id for token, token_id in model["vocab"].items() if token not in unreachable},
        "merges": [pair for pair in model["merges"] if unreachable.isdisjoint(_merge_tokens(pair))],
    }
    return {**definition, "added_tokens": [], "model": plain}


def _merge_tokens(pair: str | list[str]) -> tuple[str, str, str]:
    """Returns both sides of a merge and what it makes; older files write the pair as one string with a space."""
    left, right = pair.split(" ") if isinstance(pair, str) else pair
    return left, right, left + right
