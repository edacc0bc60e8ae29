# SPDX-License-Identifier: Apache-2.0
"""Goal events become bars: when each robot's plan was generated or suspended, when it waited and moved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.monitoring.lanes import LaneKind, Lanes


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


def bars(lanes, kind=None):
    return [
        (span.kind.name, round(span.start_s, 3), None if span.end_s is None else round(span.end_s, 3))
        for span in lanes.spans
        if (kind is None or span.kind is kind) and span.end_s != span.start_s
    ]


@pytest.fixture
def lanes():
    return Lanes()


def test_a_plan_of_two_segments_from_beginning_to_end(lanes):
    lanes.take(accepted(10.0))
    lanes.take(segment(10.5))
    lanes.take(report(10.6, "started"))
    lanes.take(segment(12.0, index=1, text="land();", generation_s=0.1))
    measured = lanes.take(report(12.7, "succeeded", duration_s=2.1))
    lanes.take(report(12.71, "started", index=1))
    lanes.take(report(14.0, "succeeded", index=1, duration_s=1.3))
    lanes.take(finished(14.1))
    assert bars(lanes) == [
        ("WAITING", 10.0, 10.6),
        ("GENERATION", 10.3, 10.5),
        ("SUSPENSION", 10.5, 11.9),
        ("EXECUTION", 10.6, 12.7),
        ("GENERATION", 11.9, 12.0),
        ("EXECUTION", 12.71, 14.0),
    ]
    assert (measured.expected_s, measured.expected_p90_s, measured.measured_s) == (2.0, 2.5, 2.1)
    assert [span.label for span in lanes.spans if span.kind is LaneKind.EXECUTION] == ["mf(100);", "land();"]


def test_a_failure_interrupts_what_was_going_on(lanes):
    lanes.take(accepted(0.0, urgency="urgent"))
    lanes.take(segment(0.1))
    lanes.take(report(0.2, "started"))
    lanes.take(finished(1.0, error_code=600))
    (moved,) = [span for span in lanes.spans if span.kind is LaneKind.EXECUTION]
    assert (moved.is_interrupted, moved.is_urgent, moved.end_s) == (True, True, 1.0)


def test_a_goal_from_before_is_passed_over(lanes):
    assert lanes.take(segment(1.0, request_id="unknown")) is None
    assert not lanes.spans


def test_a_complete_plan_does_not_sleep(lanes):
    lanes.take(accepted(0.0))
    lanes.take(segment(0.3))
    lanes.complete("g1")
    assert not bars(lanes, LaneKind.SUSPENSION)


def test_only_changes_are_passed_on(lanes):
    lanes.take(accepted(0.0))
    seen = lanes.revision
    assert not list(lanes.changed(seen))
    lanes.take(segment(0.3))
    kinds = {span.kind for span in lanes.changed(seen)}
    assert kinds == {LaneKind.GENERATION, LaneKind.SUSPENSION}


def test_reflexes_and_forgetting(lanes):
    lanes.reflex("drone_1", 5.0, "mb(50);", is_over=False)
    lanes.forget(100.0)
    assert bars(lanes) == [("REFLEX", 5.0, None)]
    lanes.reflex("drone_1", 6.0, "mb(50);", is_over=True)
    lanes.forget(6.5)
    assert not lanes.spans


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
    lanes = Lanes()
    for number, event in enumerate(events):
        lanes.take({**event, "time_s": 0.1 * number})
    assert all(span.end_s is None or span.end_s >= span.start_s for span in lanes.spans)
    for request_id in ("a", "b"):
        lanes.take(finished(100.0, request_id=request_id))
    open_kinds = {span.kind for span in lanes.spans if span.end_s is None}
    assert not open_kinds


def test_a_flood_of_reflexes_fills_no_memory(lanes, monkeypatch):
    monkeypatch.setattr("llm_planner.monitoring.lanes.MAX_SPANS", 10)
    for number in range(100):
        lanes.reflex(f"robot {number}", float(number), "mb(50);", is_over=False)
    assert [span.robot_id for span in lanes.spans] == [f"robot {number}" for number in range(90, 100)]
