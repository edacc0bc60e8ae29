# SPDX-License-Identifier: Apache-2.0
"""Texts in plans."""

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

from llm_planner.language.syntax import Fail, Text, Unclear

T = TypeVar("T")
QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'")
"""A text with its quotes, in a plan that need not be whole."""


def with_spaces(statement: T) -> T:
    """Returns a statement with spaces where its texts have ``_``: the bundled model has no token for a space."""
    return mapped(statement, _spaced)


def mapped(node: T, change: Callable[[object], object]) -> T:
    """Returns a node of a syntax tree with every node in it changed, from the leaves up; itself if none changes."""
    return _mapped(node, change)  # type: ignore[return-value]


def _mapped(node: object, change: Callable[[object], object]) -> object:
    if isinstance(node, tuple):
        return tuple(_mapped(child, change) for child in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    values = [getattr(node, name) for name in node.__dataclass_fields__]
    changed = [_mapped(value, change) for value in values]
    return change(node if changed == values else type(node)(*changed))


def _spaced(node: object) -> object:
    if not isinstance(node, Text | Fail | Unclear):
        return node
    return replace(node, **{field.name: getattr(node, field.name).replace("_", " ") for field in fields(node)})
