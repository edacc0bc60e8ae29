# SPDX-License-Identifier: Apache-2.0
"""How segments went, by the robot's reports."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.segment import (
    BlockEdge,
    MarkStatus,
    ReportStatus,
    SegmentReport,
    carried_out,
    make_replan,
    marks_of,
)
from tests.serving.builders import make_segment


def report(index, status, **fields):
    return SegmentReport(request_id="r1", index=index, status=status, **fields)


def statuses(segments, reports):
    return [mark.status.name for mark in marks_of(segments, reports)]


def test_what_lies_between_a_failure_and_its_replan_did_not_run():
    segments = [make_segment(0), make_segment(1), make_segment(2), make_replan(3), make_segment(4), make_segment(5)]
    reports = [
        report(0, ReportStatus.STARTED),
        report(0, ReportStatus.SUCCEEDED),
        report(1, ReportStatus.FAILED, reason="no cup"),
        report(5, ReportStatus.SUCCEEDED),  # the report of 4 was lost
    ]
    assert statuses(segments, reports) == ["SUCCEEDED", "FAILED", "NOT_RUN", "NOT_RUN", "SUCCEEDED", "SUCCEEDED"]


def test_the_first_word_on_an_end_counts():
    reports = [report(0, ReportStatus.FAILED, reason="first"), report(0, ReportStatus.SUCCEEDED)]
    (mark,) = marks_of([make_segment(0)], reports)
    assert (mark.status, mark.reason) == (MarkStatus.FAILED, "first")


def test_what_is_in_the_block_of_a_condition_that_was_false_was_skipped_whatever_report_was_lost():
    edges = [BlockEdge.NONE, BlockEdge.OPENS, BlockEdge.OPENS, BlockEdge.NONE, BlockEdge.CLOSES, BlockEdge.CLOSES]
    segments = [replace(make_segment(index), block_edge=edge) for index, edge in enumerate([*edges, BlockEdge.NONE])]
    behind = report(6, ReportStatus.SUCCEEDED)
    outer, inner = report(1, ReportStatus.SUCCEEDED), report(2, ReportStatus.SUCCEEDED)
    inside = report(3, ReportStatus.SKIPPED)
    done, skipped = "SUCCEEDED", "SKIPPED"
    assert statuses(segments, [outer, inside, behind]) == [done, done, *[skipped] * 4, done]
    entered = replace(outer, enters_block=True)
    assert statuses(segments, [entered, inner, behind]) == [done, done, done, skipped, skipped, done, done]
    assert statuses(segments, [behind]) == [done] * 7  # nothing says otherwise
    for word in (report(3, ReportStatus.SKIPPED), report(4, ReportStatus.SKIPPED)):  # of the inner block
        assert statuses(segments, [word, behind]) == [done, done, done, skipped, skipped, done, done]
    for word in (report(2, ReportStatus.SKIPPED), report(5, ReportStatus.SKIPPED)):  # of the outer one
        assert statuses(segments, [word, behind]) == [done, done, *[skipped] * 4, done]
    returning = [*segments[:3], replace(segments[3], text="->True;"), *segments[4:]]
    ended = [report(index, ReportStatus.SKIPPED) for index in (5, 6)]
    assert statuses(returning, ended) == [done] * 5 + [skipped] * 2  # nobody knows
    assert statuses(returning, [inside, *ended]) == [done, done, *[skipped] * 5]


@given(st.integers(0, 8), st.lists(st.tuples(st.integers(0, 9), st.sampled_from(ReportStatus)), max_size=12))
def test_a_mark_for_each_segment_and_no_success_without_a_later_word(num_segments, said):
    segments = [make_segment(index) for index in range(num_segments)]
    reports = [report(index, status) for index, status in said]
    marks = marks_of(segments, reports)
    assert len(marks) == num_segments
    last_end = max((i for i, status in said if status is not ReportStatus.STARTED), default=-1)
    assert all(mark.status is MarkStatus.NOT_RUN for mark in marks[last_end + 1 :])
    failed = [i for i, mark in enumerate(marks) if mark.status is MarkStatus.FAILED]
    kept = {segment.index for segment in carried_out(segments, failed)}
    assert all(i in kept for i, mark in enumerate(marks) if mark.status is MarkStatus.SUCCEEDED)
