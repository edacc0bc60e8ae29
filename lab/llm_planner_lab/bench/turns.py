# SPDX-License-Identifier: Apache-2.0
"""Turns of what is compared."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def rotated(items: Sequence[T], turn: int) -> tuple[T, ...]:
    """Returns all items; each turn begins with another one, so that a machine that drifts favours none of them."""
    first = turn % len(items)
    return (*items[first:], *items[:first])
