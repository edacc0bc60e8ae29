"""Writes what a campaign found: the document as JSON."""

from pathlib import Path
from typing import Any

from llm_planner.bench.document import write_document


def write_chaos(document: dict[str, Any], out: Path | None, page: Path | None) -> list[Path]:
    """Returns what was written, of what was asked for."""
    return write_document(document, out, page, lambda *_: None)
