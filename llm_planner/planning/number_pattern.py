# SPDX-License-Identifier: Apache-2.0
"""Regular expressions for number ranges, so that a model cannot write most numbers that the gate would refuse."""

import math

MAX_DECIMALS = 3


def number_pattern(minimum: float, maximum: float, *, is_integer: bool) -> str:
    """Returns a regular expression of the canonical decimals in ``[minimum, maximum]``.

    Whole numbers are matched exactly. Others have up to three decimals without trailing zeros; where a limit itself
    is not whole, some numbers beyond it with the same whole part match too, and the gate refuses them.
    """
    patterns = []
    if minimum < 0:
        magnitudes = _magnitudes(max(0.0, -maximum), -minimum, is_integer=is_integer)
        patterns += [f"-{pattern}" for pattern in magnitudes]
    if maximum >= 0:
        patterns += _magnitudes(max(0.0, minimum), maximum, is_integer=is_integer)
    if not patterns:
        raise ValueError(f"no number lies in [{minimum}, {maximum}]")
    return _either(patterns)


def _magnitudes(low: float, high: float, *, is_integer: bool) -> list[str]:
    """Returns patterns for the numbers from ``low >= 0`` to ``high``."""
    patterns = whole_patterns(math.ceil(low), math.floor(high))
    if not is_integer:
        whole = whole_patterns(math.floor(low), math.ceil(high) - 1)
        patterns += [rf"{_either(whole)}\.[0-9]{{0,{MAX_DECIMALS - 1}}}[1-9]"] if whole else []
    return patterns


def whole_patterns(low: int, high: int) -> list[str]:
    """Returns patterns that together match exactly the whole numbers from ``low >= 0`` to ``high``."""
    patterns = []
    while low <= high:
        top = min(high, 10 ** len(str(low)) - 1)  # the greatest number with as many digits
        patterns += _same_length(str(low), str(top))
        low = top + 1
    return patterns


def _same_length(low: str, high: str) -> list[str]:
    """Returns patterns for ``low`` to ``high``, two numbers with equally many digits."""
    if low == high:
        return [low]
    head, tail = low[0], len(low) - 1
    if head == high[0]:
        return [head + rest for rest in _same_length(low[1:], high[1:])] if tail else [head]
    first, last = int(head), int(high[0])
    patterns = []
    if low[1:] != "0" * tail:  # the lowest head has an incomplete tail
        patterns += [head + rest for rest in _same_length(low[1:], "9" * tail)]
        first += 1
    if high[1:] != "9" * tail:
        patterns += [high[0] + rest for rest in _same_length("0" * tail, high[1:])]
        last -= 1
    if first <= last:
        digits = f"[{first}-{last}]" if first < last else str(first)
        patterns.append(digits + "[0-9]" * tail)
    return patterns


def _either(patterns: list[str]) -> str:
    return patterns[0] if len(patterns) == 1 else f"({'|'.join(patterns)})"
