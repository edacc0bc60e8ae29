# SPDX-License-Identifier: Apache-2.0
"""Recognizes a checkpoint again: what was made for one model must not be used with another."""

import hashlib
from pathlib import Path

_PROBED_BYTES = 1 << 20


def weights_fingerprint(model_dir: Path) -> str:
    """Returns a hash that changes when a checkpoint is trained on: configuration, sizes, both ends of every file.

    Files of many gigabytes are not read as a whole; training moves all weights, so the ends tell.
    """
    digest = hashlib.sha256(_bytes_of(model_dir / "config.json"))
    for path in sorted(model_dir.glob("*.safetensors")):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}".encode())
        with path.open("rb") as file:
            digest.update(file.read(_PROBED_BYTES))
            file.seek(max(0, size - _PROBED_BYTES))
            digest.update(file.read(_PROBED_BYTES))
    return digest.hexdigest()


def tokenizer_fingerprint(model_dir: Path) -> str:
    """Returns the SHA-256 of a checkpoint's ``tokenizer.json``."""
    return hashlib.sha256(_bytes_of(model_dir / "tokenizer.json")).hexdigest()


def _bytes_of(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
