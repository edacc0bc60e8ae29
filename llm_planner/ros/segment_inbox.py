# SPDX-License-Identifier: Apache-2.0
"""Segments exactly once and in order, whatever the network drops, repeats or reorders."""

from collections.abc import Iterable

from llm_planner.core.segment import MAX_AHEAD, Segment


class SegmentInbox:
    """Collects segments of one plan; feedback, re-sync and result all end up here. Of each index the first counts."""

    def __init__(self) -> None:
        self._waiting: dict[int, Segment] = {}
        self._next_index = 0
        self._num_known = 0

    @property
    def next_index(self) -> int:
        """Index of the first segment that was not delivered yet."""
        return self._next_index

    @property
    def has_gap(self) -> bool:
        """True if the planner has sent a segment that is not here."""
        return self._next_index < self._num_known

    def offer(self, segments: Iterable[Segment], num_segments: int = 0) -> list[Segment]:
        """Takes segments in any order, known ones too; returns those that may be executed now, in order.

        Args:
            segments: What came in.
            num_segments: How many segments the plan has by now, as far as the sender says.
        """
        for segment in segments:
            if self._next_index <= segment.index < self._next_index + MAX_AHEAD:
                self._waiting.setdefault(segment.index, segment)
        ready = []
        while self._next_index in self._waiting:
            ready.append(self._waiting.pop(self._next_index))
            self._next_index += 1
        self._num_known = max(self._num_known, num_segments, *(i + 1 for i in self._waiting), 0)
        return ready
