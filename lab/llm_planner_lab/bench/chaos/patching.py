# SPDX-License-Identifier: Apache-2.0
"""Puts something of a campaign in the place of something of the product, in this process."""

from collections.abc import Callable
from typing import Any


def put(owner: object, name: str, value: object) -> None:
    """Replaces an attribute of a class or module, which must have it."""
    getattr(owner, name)
    setattr(owner, name, value)


def take(owner: object, name: str) -> Callable[..., Any]:
    """Returns what is to be replaced."""
    return getattr(owner, name)
