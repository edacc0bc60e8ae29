# SPDX-License-Identifier: Apache-2.0
"""Recognizes a checkpoint again: what was made for one model must not be used with another."""

import hashlib
from pathlib import Path
from typing import BinaryIO

from llm_planner.documents import DocumentError, parse_json

_PROBED_BYTES = 1 << 16
_SIZE_BYTES, _LONGEST_HEADER = 8, 100_000_000  # a file begins with the length of its header


def weights_fingerprint(model_dir: Path) -> str:
    """Returns a hash that changes when a checkpoint is trained on: configuration, and how each tensor begins.

    Files of many gigabytes are not read as a whole; training, or merging an adapter, moves all weights of a tensor.
    """
    digest = hashlib.sha256(_bytes_of(model_dir / "config.json"))
    for path in sorted(model_dir.glob("*.safetensors")):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}".encode())
        with path.open("rb") as file:
            for start in (0, *_tensor_starts(file, size)):
                file.seek(start)
                digest.update(file.read(_PROBED_BYTES))
    return digest.hexdigest()


def tokenizer_fingerprint(model_dir: Path) -> str:
    """Returns the SHA-256 of a checkpoint's ``tokenizer.json``."""
    return hashlib.sha256(_bytes_of(model_dir / "tokenizer.json")).hexdigest()


def _tensor_starts(file: BinaryIO, size: int) -> list[int]:
    """Returns where the tensors of a file begin, in its order; none of a file that is no safetensors."""
    length = int.from_bytes(file.read(_SIZE_BYTES), "little")
    try:
        header = parse_json(file.read(min(length, _LONGEST_HEADER)))
        offsets = [int(entry["data_offsets"][0]) for name, entry in header.items() if name != "__metadata__"]
        return sorted(_SIZE_BYTES + length + offset for offset in offsets if 0 <= offset < size)
    except (DocumentError, LookupError, ValueError, TypeError, AttributeError):
        return []


def _bytes_of(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
