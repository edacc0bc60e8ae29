# SPDX-License-Identifier: Apache-2.0
"""Shortening a prompt before it is computed: parts that the task needs least are left out, to keep a time budget."""

import itertools
from dataclasses import replace

from llm_planner.core.step import Sequence


def droppable_tokens(sequence: Sequence) -> tuple[int, ...]:
    """Returns how many tokens leave if the first 1, 2, ... of the droppable ranges are left out; never falls."""
    return tuple(itertools.accumulate(end - start for start, end in sequence.droppable))


def shortened(sequence: Sequence, num_tokens: int) -> Sequence:
    """Returns a sequence whose prompt lacks as many droppable ranges as make up ``num_tokens``, or all of them.

    What may be evicted or left out of the rest stays so.
    """
    num_ranges = next((n for n, left in enumerate((0, *droppable_tokens(sequence))) if left >= num_tokens), None)
    gone = sorted(sequence.droppable[:num_ranges])
    if not gone:
        return sequence

    def moved(position: int) -> int:
        return position - sum(min(end, position) - start for start, end in gone if start < position)

    ends = [0, *itertools.chain.from_iterable(gone), len(sequence.prompt_token_ids)]
    kept = [sequence.prompt_token_ids[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True)]
    return replace(
        sequence,
        prompt_token_ids=tuple(itertools.chain.from_iterable(kept)),
        evictable=tuple((moved(start), moved(end)) for start, end in sequence.evictable),
        droppable=tuple((moved(start), moved(end)) for start, end in sequence.droppable[len(gone) :]),
    )
