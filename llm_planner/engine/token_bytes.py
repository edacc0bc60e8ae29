# SPDX-License-Identifier: Apache-2.0
"""Which bytes a token stands for, read from the definition of a tokenizer."""

from typing import Any

from llm_planner.core.errors import ErrorCode, PlannerError


def token_bytes_table(definition: dict[str, Any]) -> dict[int, bytes]:
    """Returns the bytes of every token of a ``tokenizer.json``; special tokens stand for none.

    Raises:
        PlannerError: CHECKPOINT_INVALID unless it is BPE, byte-level or in sentencepiece style.
    """
    model_type, decoders = definition["model"]["type"], _decoder_types(definition.get("decoder"))
    if model_type != "BPE" or not {"ByteLevel", "ByteFallback", "Metaspace"} & set(decoders):
        raise PlannerError(
            ErrorCode.CHECKPOINT_INVALID,
            f"tokenizer.json holds a {model_type} model with decoder {decoders}; supported are byte-level BPE "
            "and BPE in sentencepiece style",
        )
    is_byte_level = "ByteLevel" in decoders  # there, only the vocabulary is spelled in bytes
    of_vocabulary = _byte_level_bytes if is_byte_level else _sentencepiece_bytes
    of_added = str.encode if is_byte_level else _sentencepiece_bytes
    table = {token_id: of_vocabulary(token) for token, token_id in definition["model"]["vocab"].items()}
    for token in definition["added_tokens"]:
        table[token["id"]] = b"" if token["special"] else of_added(token["content"])
    return table


def _decoder_types(decoder: dict[str, Any] | None) -> list[str]:
    """Returns the types of a decoder and of all decoders nested in it."""
    if not decoder:
        return []
    return [decoder["type"], *(kind for part in decoder.get("decoders", []) for kind in _decoder_types(part))]


def _byte_level_alphabet() -> dict[str, int]:
    """Returns the characters that stand for bytes in byte-level BPE (GPT-2): printable ones for themselves."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(printable))
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


_ALPHABET = _byte_level_alphabet()


def _byte_level_bytes(token: str) -> bytes:
    return bytes(_ALPHABET[char] for char in token) if all(char in _ALPHABET for char in token) else token.encode()


def _sentencepiece_bytes(token: str) -> bytes:
    """Returns the one byte that ``<0x0A>`` names, and ``b" go"`` for ``▁go``."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("\u2581", " ").encode()
