"""How much KV memory do sequences need together at worst, if each gets a token per cycle and leaves when it is done?"""

from collections.abc import Iterable


def peak_kv_tokens(residents: Iterable[tuple[int, int]]) -> int:
    """Returns the most tokens that all caches hold together from now on.

    Memory is fullest right before somebody leaves: then everybody who stays at least as long has grown by as many
    tokens as he brought.

    Args:
        residents: Of each sequence, the tokens in its cache once its prompt is computed, and the tokens that it will
            bring, or at most brings.
    """
    total = peak = 0
    for count, (kv_tokens, num_left) in enumerate(sorted(residents, key=lambda resident: -resident[1]), start=1):
        total += kv_tokens
        peak = max(peak, total + count * num_left)
    return peak
