# SPDX-License-Identifier: Apache-2.0
"""Eviction methods by name. To add one: a class, e.g. in ``methods.py``, and a line in ``_METHODS``."""

from collections.abc import Callable

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.engine.eviction.interface import EvictionMethod
from llm_planner.engine.eviction.methods import KeyNorm, SnapKV, StreamingLLM

_METHODS: dict[str, Callable[[], EvictionMethod]] = {
    "snapkv": SnapKV,
    "streaming": StreamingLLM,
    "key_norm": KeyNorm,
}


def eviction_method_names() -> tuple[str, ...]:
    """Returns the names of all methods."""
    return tuple(_METHODS)


def make_eviction_method(name: str) -> EvictionMethod:
    """Returns the method of that name.

    Raises:
        PlannerError: INVALID_CONFIG, naming the known methods.
    """
    if name not in _METHODS:
        known = ", ".join(eviction_method_names())
        raise PlannerError(ErrorCode.INVALID_CONFIG, f"no eviction method {name!r}; known are {known}")
    return _METHODS[name]()
