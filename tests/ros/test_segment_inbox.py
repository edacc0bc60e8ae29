# SPDX-License-Identifier: Apache-2.0
"""Whatever is lost, repeated or reordered: each segment comes out once and in order."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.segment import MAX_AHEAD, ExpectedDuration, Segment
from llm_planner.ros.segment_inbox import SegmentInbox


def make_segment(index: int) -> Segment:
    return Segment(index=index, text="", calls=(), expected=ExpectedDuration(min_s=0, p50_s=0, p90_s=0))


def test_of_each_index_the_first_counts_and_what_is_far_ahead_is_left_out():
    inbox = SegmentInbox()
    first = make_segment(1)
    assert inbox.offer([first, replace(make_segment(1), text="mf(20);"), make_segment(MAX_AHEAD)]) == []
    assert inbox.offer([make_segment(0)])[1] is first
    assert not inbox.has_gap


@given(st.lists(st.tuples(st.lists(st.integers(0, 8), max_size=4), st.integers(0, 9)), max_size=12))
def test_order_gaps_and_resync(batches):
    inbox, ready, known, offered = SegmentInbox(), [], 0, set()
    for indices, num_segments in batches:
        ready += inbox.offer([make_segment(i) for i in indices], num_segments)
        offered |= set(indices)
        known = max(known, num_segments, *(i + 1 for i in indices), 0)
        missing = next(i for i in range(10) if i not in offered)
        assert [segment.index for segment in ready] == list(range(missing))
        assert inbox.next_index == missing
        assert inbox.has_gap == (missing < known)
    ready += inbox.offer([make_segment(i) for i in range(inbox.next_index, known)])
    assert [segment.index for segment in ready] == list(range(max(known, inbox.next_index)))
    assert not inbox.has_gap
