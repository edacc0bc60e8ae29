# SPDX-License-Identifier: Apache-2.0
"""Writes what a benchmark found: the document as JSON, and the page that is made from it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_document(
    document: dict[str, Any],
    out: Path | None,
    page: Path | None,
    write_page: Callable[[dict[str, Any], Path], None],
) -> list[Path]:
    """Returns what was written, of what was asked for."""
    written = []
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        written.append(out)
    if page is not None:
        write_page(document, page)
        written.append(page)
    return written
