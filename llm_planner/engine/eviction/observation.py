# SPDX-License-Identifier: Apache-2.0
"""What is remembered of a sequence that may be evicted: queries of its last prompt tokens, as they pass by."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from llm_planner.engine.attention import Attention


class Observation:
    """Queries of the tokens ``start .. end`` of one prompt, of every layer."""

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self._layers: dict[int, torch.Tensor] = {}

    def store(self, layer: int, position: int, queries: torch.Tensor) -> None:
        """Keeps ``queries`` (num_tokens, num_heads, head_dim) of the tokens from ``position`` on, inside the window."""
        if layer not in self._layers:
            self._layers[layer] = queries.new_empty(self.end - self.start, *queries.shape[1:])
        first = position - self.start
        self._layers[layer][first : first + len(queries)] = queries

    def queries(self, layer: int) -> torch.Tensor:
        """Returns (num_heads, end - start, head_dim)."""
        return self._layers[layer].transpose(0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evictable:
    """A prompt from which KV may be removed.

    Attributes:
        num_prompt_tokens: What comes later is never removed.
        spans: Positions that may be removed (``core.eviction.removable_spans``).
        observation: Queries of its window, for a method that needs them.
    """

    num_prompt_tokens: int
    spans: tuple[tuple[int, int], ...]
    observation: Observation | None

    @property
    def num_tokens(self) -> int:
        """How many tokens may be removed."""
        return sum(end - start for start, end in self.spans)


class Piece(NamedTuple):
    """Tokens of one sequence in a forward pass.

    Attributes:
        row: Where they begin in the pass.
        position: Where they begin in their sequence.
        num_tokens: How many.
        evictable: Of their sequence; None if it is never evicted.
    """

    row: int
    position: int
    num_tokens: int
    evictable: Evictable | None


def observed(attend: Attention, pieces: Iterable[Piece]) -> Attention:
    """Returns ``attend``, or a wrapper that remembers queries on the way if a piece reaches into its window."""
    seen: list[_Seen] = []
    for row, position, num_tokens, evictable in pieces:
        observation = None if evictable is None else evictable.observation
        if observation is not None:
            start, end = max(position, observation.start), min(position + num_tokens, observation.end)
            if start < end:
                row_of_start = row + start - position
                seen.append(_Seen(slice(row_of_start, row_of_start + end - start), start, observation))
    return _Observed(attend, seen) if seen else attend


class _Seen(NamedTuple):
    rows: slice
    position: int
    observation: Observation


class _Observed:
    """Implements ``Attention``."""

    def __init__(self, attend: Attention, seen: list[_Seen]) -> None:
        self._attend = attend
        self._seen = seen

    def __call__(self, layer: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        for rows, position, observation in self._seen:
            observation.store(layer, position, queries[rows])
        return self._attend(layer, queries, keys, values)
