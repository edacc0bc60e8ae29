# SPDX-License-Identifier: Apache-2.0
"""What all records of a robot model have in common."""

from typing import ClassVar


class Record:
    """Base of the frozen dataclasses that a robot model file is read into.

    Pydantic finds the attribute when ``robots.library`` reads a file: unknown keys are refused, numbers are finite,
    and nothing is converted (a quoted "5" is not a number).
    """

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "allow_inf_nan": False, "strict": True}


def require(is_met: bool, problem: str) -> None:
    """Raises ValueError with ``problem`` unless the condition of a record is met."""
    if not is_met:
        raise ValueError(problem)
