# SPDX-License-Identifier: Apache-2.0
"""Shortens what a length predictor reads, so that it stays hidden behind the prefill (TimeBill, section 5.2)."""

from collections.abc import Sequence


def compress_prompt(token_ids: Sequence[int], max_tokens: int, head_tokens: int) -> Sequence[int]:
    """Returns the prompt if it has at most ``max_tokens``, else its beginning and its end.

    A prompt begins with the robot, then comes the scene, and the task stands last: the end is worth most, the
    beginning says which robot asks, and the middle of a long scene goes first.

    Deviation: the paper compresses with a language model, which would take longer than the prediction itself.

    Args:
        token_ids: The whole prompt.
        max_tokens: Of what is returned, more than ``head_tokens``.
        head_tokens: How many of them are the beginning.
    """
    if len(token_ids) <= max_tokens:
        return token_ids
    return [*token_ids[:head_tokens], *token_ids[head_tokens - max_tokens :]]
