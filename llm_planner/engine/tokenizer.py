"""Tokenizers of Hugging Face checkpoints: exact bytes per token, and no way from user text to a special token."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as FastTokenizer

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.model_config import read_json


class HFTokenizer:
    """A fast tokenizer (``tokenizer.json``): byte-level BPE, or sentencepiece style with byte fallback.

    Attributes:
        json_text: The tokenizer as JSON, for the grammar compiler.
    """

    def __init__(self, json_text: str, eos_token_ids: frozenset[int], name: str) -> None:
        definition = json.loads(json_text)
        added = definition.get("added_tokens", [])
        self.json_text = json_text
        self._eos_token_ids = eos_token_ids
        self._fast = FastTokenizer.from_str(json_text)
        # Without added tokens no spelling in the text can become one.
        self._plain = FastTokenizer.from_str(json.dumps({**definition, "added_tokens": []}))
        self._bytes = _token_bytes_table(definition, self._fast, name)
        for token in added:
            self._bytes[token["id"]] = b"" if token["special"] else token["content"].encode()

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Tokens that end a generation."""
        return self._eos_token_ids

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
        fast = FastTokenizer.from_str(text)
        return HFTokenizer(text, _eos_token_ids(directory, fast), str(file))
    except PlannerError:
        raise
    except Exception as error:  # the library raises bare Exception on malformed JSON
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{file} cannot be read: {error}") from error


def _eos_token_ids(directory: Path, fast: FastTokenizer) -> frozenset[int]:
    """Returns every end token that generation_config, config or tokenizer_config names."""
    found: set[int] = set()
    for name in ("generation_config.json", "config.json", "tokenizer_config.json"):
        values = read_json(directory / name) if (directory / name).is_file() else {}
        ids = values.get("eos_token_id")
        found.update(ids if isinstance(ids, list) else [] if ids is None else [ids])
        token = values.get("eos_token")
        spelling = token.get("content") if isinstance(token, dict) else token
        if spelling is not None and (token_id := fast.token_to_id(spelling)) is not None:
            found.add(token_id)
    if not found:
        raise PlannerError(ErrorCode.CHECKPOINT_INVALID, f"{directory} names no end-of-sequence token")
    return frozenset(found)


def _token_bytes_table(definition: dict[str, Any], fast: FastTokenizer, name: str) -> dict[int, bytes]:
    kinds = _decoder_types(definition.get("decoder"))
    to_bytes: Callable[[str], bytes]
    if "ByteLevel" in kinds:
        to_bytes = _byte_level_bytes
    elif "ByteFallback" in kinds or "Metaspace" in kinds:
        to_bytes = _sentencepiece_bytes
    else:
        raise PlannerError(
            ErrorCode.CHECKPOINT_INVALID,
            f"{name} decodes with {kinds or 'nothing'}; supported are byte-level BPE and sentencepiece style",
        )
    return {token_id: to_bytes(token) for token, token_id in fast.get_vocab(with_added_tokens=False).items()}


def _decoder_types(decoder: dict[str, Any] | None) -> list[str]:
    """Returns the types of a decoder and of all decoders nested in it."""
    if not decoder:
        return []
    return [decoder["type"], *(kind for part in decoder.get("decoders", []) for kind in _decoder_types(part))]


def _byte_level_alphabet() -> dict[str, int]:
    """Returns the characters that stand for bytes in byte-level BPE (GPT-2): printable ones for themselves."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


_ALPHABET = _byte_level_alphabet()


def _byte_level_bytes(token: str) -> bytes:
    return bytes(_ALPHABET[char] for char in token) if all(c in _ALPHABET for c in token) else token.encode()


def _sentencepiece_bytes(token: str) -> bytes:
    """Returns one byte for ``<0x0A>``, and ``b' go'`` for ``▁go``."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("\u2581", " ").encode()
