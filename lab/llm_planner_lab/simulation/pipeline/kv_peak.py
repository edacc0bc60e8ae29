# SPDX-License-Identifier: Apache-2.0
"""How much KV memory will sequences need together, if each gets a token per cycle and leaves when it is done?"""

from collections.abc import Iterable

HORIZON_TOKENS = 256
"""A request that would be preempted within this many tokens should not begin: its work would be lost too soon.

Looking further ahead costs more than it saves: requests that begin together then also end together, and leave
memory empty in between.
"""


def peak_kv_tokens(residents: Iterable[tuple[int, int]], horizon_tokens: int = HORIZON_TOKENS) -> int:
    """Returns the most tokens that all caches hold together before each has brought ``horizon_tokens`` more.

    Memory is fullest right before a sequence leaves: then each that stays at least as long has grown by as many
    tokens as that one brought.

    Args:
        residents: Of each sequence, the tokens that it will bring, or at most brings, and those in its cache once its
            prompt is computed.
        horizon_tokens: How far to look ahead.
    """
    total = peak = 0
    soonest_last = sorted([(min(left, horizon_tokens), kv_tokens) for left, kv_tokens in residents], reverse=True)
    for count, (num_left, kv_tokens) in enumerate(soonest_last, start=1):
        total += kv_tokens
        peak = max(peak, total + count * num_left)
    return peak
