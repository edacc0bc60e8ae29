"""Texts in plans."""

from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

from llm_planner.language.syntax import Fail, Text, Unclear

T = TypeVar("T")


def with_spaces(statement: T) -> T:
    """Returns a statement with spaces where its texts have ``_``: the bundled model has no token for a space."""
    return _changed(statement)  # type: ignore[return-value]


def _changed(node: object) -> object:
    if isinstance(node, Text | Fail | Unclear):
        return replace(node, **{field.name: getattr(node, field.name).replace("_", " ") for field in fields(node)})
    if isinstance(node, tuple):
        return tuple(map(_changed, node))
    if is_dataclass(node) and not isinstance(node, type):
        return replace(node, **{field.name: _changed(getattr(node, field.name)) for field in fields(node)})
    return node
