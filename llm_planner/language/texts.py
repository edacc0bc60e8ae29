# SPDX-License-Identifier: Apache-2.0
"""Texts in plans."""

from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

from llm_planner.language.syntax import Fail, Text, Unclear

T = TypeVar("T")


def with_spaces(statement: T) -> T:
    """Returns a statement with spaces where its texts have ``_``: the bundled model has no token for a space."""
    return _changed(statement)  # type: ignore[return-value]


def _changed(node: object) -> object:
    """Returns the node itself where nothing in it changes."""
    if isinstance(node, tuple):
        return tuple(map(_changed, node))
    if not is_dataclass(node) or isinstance(node, type):
        return node
    values = {field.name: getattr(node, field.name) for field in fields(node)}
    if isinstance(node, Text | Fail | Unclear):
        changed = {name: value.replace("_", " ") for name, value in values.items()}
    else:
        changed = {name: _changed(value) for name, value in values.items()}
    return node if changed == values else replace(node, **changed)
