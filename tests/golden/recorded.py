# SPDX-License-Identifier: Apache-2.0
"""Recorded results of fixed seeds: a change of structure must not change them.

``make golden`` records them again; do that on purpose, and say in the commit why the results changed.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any


def check(path: Path, results: Mapping[str, Any]) -> None:
    """Asserts that results equal those of a file; writes the file instead if RECORD_GOLDEN is set."""
    shown = {name: plain(result) for name, result in results.items()}
    if os.environ.get("RECORD_GOLDEN"):
        path.write_text(json.dumps(shown, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    recorded = json.loads(path.read_text(encoding="utf-8"))
    changed = {
        name: {"recorded": recorded.get(name), "now": shown.get(name)}
        for name in sorted(recorded.keys() | shown.keys())
        if recorded.get(name) != shown.get(name)
    }
    assert not changed, json.dumps(changed, indent=1)


def digest(value: Any) -> str:
    """Returns a short hash of a result, for those that are too long to be read."""
    return hashlib.sha256(json.dumps(plain(value), sort_keys=True).encode()).hexdigest()[:16]


def plain(value: Any) -> Any:
    """Returns a value as JSON has it: a dataclass without its names, which may change.

    Nine digits of a float count: the last ones differ between processors.
    """
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if dataclasses.is_dataclass(value):
        return [plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
