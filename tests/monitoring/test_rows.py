# SPDX-License-Identifier: Apache-2.0
"""Goal events become bars: when each robot's plan was generated or suspended, when it waited and moved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.monitoring.rows import RobotRows, RowKind


def accepted(time_s, request_id="g1", robot_id="drone_1", urgency="normal"):
    return {
        "event": "accepted",
        "time_s": time_s,
        "request_id": request_id,
        "robot_id": robot_id,
        "urgency": urgency,
    }


def segment(time_s, index=0, text="mf(100);", generation_s=0.2, request_id="g1"):
    return {
        "event": "segment",
        "time_s": time_s,
        "request_id": request_id,
        "index": index,
        "text": text,
        "expected_s": 2.0,
        "expected_p90_s": 2.5,
        "generation_s": generation_s,
    }


def report(time_s, status, index=0, duration_s=0.0, request_id="g1"):
    return {
        "event": "report",
        "time_s": time_s,
        "request_id": request_id,
        "index": index,
        "status": status,
        "duration_s": duration_s,
    }


def finished(time_s, error_code=0, request_id="g1"):
    return {"event": "finished", "time_s": time_s, "request_id": request_id, "error_code": error_code}


def bars(rows, kind=None):
    return [
        (span.kind.name, round(span.start_s, 3), None if span.end_s is None else round(span.end_s, 3))
        for span in rows.spans
        if (kind is None or span.kind is kind) and span.end_s != span.start_s
    ]


@pytest.fixture
def rows():
    return RobotRows()


def test_a_plan_of_two_segments_from_beginning_to_end(rows):
    rows.take(accepted(10.0))
    rows.take(segment(10.5))
    rows.take(report(10.6, "started"))
    rows.take(segment(12.0, index=1, text="land();", generation_s=0.1))
    measured = rows.take(report(12.7, "succeeded", duration_s=2.1))
    rows.take(report(12.71, "started", index=1))
    assert rows.take(report(14.0, "succeeded", index=1, duration_s=0.0)) is None  # not measured
    rows.take(finished(14.1))
    assert bars(rows) == [
        ("WAITING", 10.0, 10.6),
        ("GENERATION", 10.3, 10.5),
        ("SUSPENSION", 10.5, 11.9),
        ("EXECUTION", 10.6, 12.7),
        ("GENERATION", 11.9, 12.0),
        ("EXECUTION", 12.71, 14.0),
    ]
    assert (measured.expected_s, measured.expected_p90_s, measured.measured_s) == (2.0, 2.5, 2.1)
    assert [span.label for span in rows.spans if span.kind is RowKind.EXECUTION] == ["mf(100);", "land();"]


def test_a_failure_interrupts_what_was_going_on(rows):
    rows.take(accepted(0.0, urgency="urgent"))
    rows.take(segment(0.1))
    rows.take(report(0.2, "started"))
    rows.take(finished(1.0, error_code=600))
    (moved,) = [span for span in rows.spans if span.kind is RowKind.EXECUTION]
    assert (moved.is_interrupted, moved.is_urgent, moved.end_s) == (True, True, 1.0)


def test_a_goal_from_before_is_passed_over(rows):
    assert rows.take(segment(1.0, request_id="unknown")) is None
    assert not rows.spans


def test_a_complete_plan_is_not_suspended(rows):
    rows.take(accepted(0.0))
    rows.take(segment(0.3))
    rows.complete("g1")
    assert not bars(rows, RowKind.SUSPENSION)


def test_goals_of_a_planner_that_has_gone_end_where_it_was_last_known_to_be_at_work(rows):
    for line in (accepted(0.0), segment(0.3), report(0.4, "started"), accepted(1.0, "g2", "drone_2")):
        rows.take(line)
    rows.working("g1", 2.0)
    rows.working("of another planner", 9.0)
    rows.interrupt()
    assert bars(rows) == [
        ("WAITING", 0.0, 0.4),
        ("GENERATION", 0.1, 0.3),
        ("SUSPENSION", 0.3, 2.0),
        ("EXECUTION", 0.4, 2.0),
        ("WAITING", 1.0, 2.0),
    ]
    assert rows.take(report(9.0, "succeeded")) is None
    rows.take(accepted(10.0))  # the same name again
    assert bars(rows)[5:] == [("WAITING", 10.0, None)]


def test_only_changes_are_passed_on(rows):
    rows.take(accepted(0.0))
    seen = rows.revision
    assert not list(rows.changed(seen))
    rows.take(segment(0.3))
    kinds = {span.kind for span in rows.changed(seen)}
    assert kinds == {RowKind.GENERATION, RowKind.SUSPENSION}


def test_reflexes_and_forgetting(rows):
    rows.reflex("drone_1", 5.0, "mb(50);", is_over=False)
    rows.forget(100.0)
    assert bars(rows) == [("REFLEX", 5.0, None)]
    rows.reflex("drone_1", 6.0, "mb(50);", is_over=True)
    rows.forget(6.5)
    assert not rows.spans


EVENTS = st.one_of(
    st.builds(accepted, st.just(0.0), st.sampled_from(["a", "b"]), st.sampled_from(["r1", "r2"])),
    st.builds(segment, st.just(0.0), st.integers(0, 3), request_id=st.sampled_from(["a", "b"])),
    st.builds(
        report,
        st.just(0.0),
        st.sampled_from(["started", "succeeded", "failed"]),
        st.integers(0, 3),
        request_id=st.sampled_from(["a", "b"]),
    ),
    st.builds(finished, st.just(0.0), st.sampled_from([0, 300]), request_id=st.sampled_from(["a", "b"])),
)


@given(st.lists(EVENTS, max_size=40))
def test_whatever_comes_no_bar_ends_before_it_begins_and_ended_goals_leave_none_open(events):
    rows = RobotRows()
    for number, event in enumerate(events):
        rows.take({**event, "time_s": 0.1 * number})
    assert all(span.end_s is None or span.end_s >= span.start_s for span in rows.spans)
    for request_id in ("a", "b"):
        rows.take(finished(100.0, request_id=request_id))
    open_kinds = {span.kind for span in rows.spans if span.end_s is None}
    assert not open_kinds


def test_a_flood_of_reflexes_fills_no_memory():
    rows = RobotRows(max_spans=10)
    for number in range(100):
        rows.reflex(f"robot {number}", float(number), "mb(50);", is_over=False)
    assert [span.robot_id for span in rows.spans] == [f"robot {number}" for number in range(90, 100)]
