# SPDX-License-Identifier: Apache-2.0
"""Messages that no node of this project sends, made from the interface definitions."""

import importlib
import re

from hypothesis import strategies as st

DIGITS = "9" * 400
TEXTS = (
    "",
    "\ufffd\x1b[2J",
    DIGITS,
    "[" * 200_000,
    '{"a":' * 50_000,
    '{"scene": "", "pose": {"x_m": ' + DIGITS + "}}",
    '{"scene": "", "pose": {"x_m": true, "y_m": 1e999}}',
    '{"scene": {}, "pose": 5}',
    '{"scene": 1e999}',
    "x" * 300_000,
)
INTEGERS = {"uint8": (0, 2**8), "uint16": (0, 2**16), "uint32": (0, 2**32), "uint64": (0, 2**64)} | {
    "int8": (-(2**7), 2**7), "int16": (-(2**15), 2**15), "int32": (-(2**31), 2**31), "int64": (-(2**63), 2**63)
}  # fmt: skip


def texts(*likely):
    """Returns a strategy of strings: those given, hostile ones, and any others."""
    any_text = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
    return st.sampled_from((*likely, *TEXTS)) | any_text


def messages(cls, *likely):
    """Returns a strategy of messages of a class, whose strings are ``texts(*likely)``."""
    fields = {name: _values(kind, likely) for name, kind in cls.get_fields_and_field_types().items()}
    return st.builds(cls, **fields)


def _values(kind, likely):
    if repeated := re.fullmatch(r"sequence<(.*?)(?:, \d+)?>", kind):
        return st.lists(_values(repeated[1], likely), max_size=3)
    if kind in INTEGERS:
        low, end = INTEGERS[kind]
        return st.sampled_from((low, 1, 2, end - 1)) | st.integers(low, end - 1)
    if kind in ("double", "float"):
        return st.floats(width=64 if kind == "double" else 32)
    if "/" in kind:
        package, name = kind.split("/")
        return messages(getattr(importlib.import_module(f"{package}.msg"), name), *likely)
    return {"boolean": st.booleans(), "octet": st.binary(min_size=1, max_size=1)}.get(kind, texts(*likely))
