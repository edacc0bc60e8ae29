# SPDX-License-Identifier: Apache-2.0
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.tests.simulation.builders import ROBOTS, SCRIPTS, a_config
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.core.request import PlanMetrics, PlanRequest, PlanResult, Urgency
from llm_planner.core.segment import ExpectedDuration, ReportStatus, Segment, SegmentReport
from llm_planner.serving import event_log
from llm_planner_lab.simulation.simulator import simulate
from llm_planner_lab.simulation.trace import parse_lines

HEADER = {"format": "lrtrace", "version": 2, "kind": "recording", "name": "test", "about": {"planner": "/planner"}}
EXPECTED = ExpectedDuration(min_s=0.5, p50_s=1.5, p90_s=2.0)


def a_goal(name="g", at_s=100.0, *, texts=("mf(100);", "tc(90);"), reports=True, code=ErrorCode.NONE, **changes):
    """Returns the events of one goal: segments 0.1 s apart, executed in 1 s each; an empty text is a marker's."""
    request = PlanRequest(request_id=name, robot_id="d1", robot_model="tello", instruction="go", scene="box")
    lines = [event_log.accepted(replace(request, **changes), at_s)]
    for index, text in enumerate(texts):
        segment = Segment(index=index, text=text, calls=(), expected=EXPECTED, num_tokens=5 + index, is_replan=not text)
        lines.append(event_log.segment_sent(name, segment, at_s + 0.1 * (index + 1)))
        started = SegmentReport(request_id=name, index=index, status=ReportStatus.STARTED)
        if reports:
            lines.append(event_log.reported(started, at_s + index + 0.2))
            ended = replace(started, status=ReportStatus.SUCCEEDED, duration_s=0.9)
            lines.append(event_log.reported(ended, at_s + index + 1.2))
    metrics = PlanMetrics(num_prompt_tokens=60, num_cached_tokens=48)
    lines.append(event_log.finished(PlanResult(request_id=name, error_code=code, metrics=metrics), at_s + 9.0))
    return sorted(lines, key=lambda line: line["time_s"])


def lines_of(*events, end=True, num_lost=0):
    last = [{"end": True, "num_events": len(events), "num_lost": num_lost}] if end else []
    return [json.dumps(line) for line in (HEADER, *events, *last)]


def read(*events, **changes):
    return parse_lines(lines_of(*events, **changes), ROBOTS)


@pytest.mark.parametrize(
    ("texts", "unit"),
    [(("One day. ", "It rained. "), "sentence"), (("One day. It rained.\n\n", "The end. Really."), "paragraph")],
)
def test_an_answer_in_words_is_replayed_in_its_pieces(texts, unit):
    trace = read(*a_goal(texts=texts, urgency=Urgency.CHAT))
    assert trace.requests[0].chat_segments == unit
    assert len(simulate(trace, a_config(), SCRIPTS).requests[0].segments) == 2


def test_a_goal_becomes_a_request_with_its_plan_tokens_and_durations():
    pose = Pose(x_m=1.0)
    (row,) = read(*a_goal(urgency=Urgency.URGENT, start_pose=pose)).requests
    assert (row.request_id, row.robot_id, row.robot_model) == ("g", "d1", "tello")
    assert (row.time_s, row.urgency, row.start_pose) == (0.0, "urgent", pose)
    assert (row.instruction, row.scene, row.plan) == ("go", "box", "mf(100);tc(90);")
    assert row.segment_tokens == (5, 6)
    assert (row.num_static_tokens, row.num_dynamic_tokens) == (48, 12)
    assert row.durations_s == pytest.approx((1.0, 1.0))


def test_times_count_from_the_first_event():
    first, second = read(*a_goal("a", 50.0), *a_goal("b", 62.5)).requests
    assert (first.time_s, second.time_s) == (0.0, 12.5)


def test_without_reports_a_robot_takes_what_was_expected():
    assert read(*a_goal(reports=False)).requests[0].durations_s == (1.5, 1.5)


@pytest.mark.parametrize(("reported_s", "counted_s"), [(0.9, 0.9), (0.0, 1.5)])
def test_without_the_start_the_reported_duration_counts_if_it_was_measured(reported_s, counted_s):
    events = [event for event in a_goal() if event.get("status") != "started"]
    events = [event | {"duration_s": reported_s} if "duration_s" in event else event for event in events]
    assert read(*events).requests[0].durations_s == (counted_s, counted_s)


def test_goals_without_a_plan_or_an_end_are_counted_not_replayed():
    unfinished = a_goal("u", 103.0)[:-1]
    refused = a_goal("n", 104.0, texts=(), code=ErrorCode.PLAN_SYNTAX)
    gap = [event for event in a_goal("h", 105.0) if event.get("index") != 0]
    unknown = a_goal("before", 106.0)[1:]
    events = sorted([*a_goal(), *unfinished, *refused, *gap, *unknown], key=lambda e: e["time_s"])
    trace = read(*events)
    assert [row.request_id for row in trace.requests] == ["g"]
    counts = {key: trace.about[key] for key in ("num_unfinished", "num_without_plan", "num_with_gaps")}
    assert counts == {"num_unfinished": 1, "num_without_plan": 1, "num_with_gaps": 1}


def test_a_repeated_report_counts_once():
    events = a_goal()
    again = {**next(e for e in events if e.get("status") == "succeeded"), "time_s": 105.0}
    assert read(*sorted([*events, again], key=lambda e: e["time_s"])).requests == read(*events).requests


@given(st.data())
def test_a_recording_that_was_cut_counts_as_far_as_it_goes(data):
    text = "\n".join(lines_of(*a_goal("a", 10.0), *a_goal("b", 30.0), end=False)) + "\n"
    header = len(json.dumps(HEADER))
    cut = text[: data.draw(st.integers(header, len(text)))]
    trace = parse_lines(cut.splitlines(), ROBOTS)
    assert trace.about["is_cut"]
    assert [row.request_id for row in trace.requests] == ["a", "b"][: cut.count('"finished"') - (not _is_whole(cut))]


def _is_whole(text):
    try:
        json.loads(text.splitlines()[-1])
    except ValueError:
        return '"finished"' not in text.splitlines()[-1]
    return True


def test_a_whole_recording_is_not_cut_and_says_what_was_lost():
    about = read(*a_goal(), num_lost=3).about
    assert (about["is_cut"], about["num_lost_events"], about["planner"]) == (False, 3, "/planner")


def test_a_lost_line_is_noticed():
    lines = lines_of(*a_goal())
    with pytest.raises(PlannerError, match="events, but the last line counts"):
        parse_lines([*lines[:2], *lines[3:]], ROBOTS)


@pytest.mark.parametrize("spoil", [{"event": "sneeze"}, {"index": "x"}, {"time_s": None}])
def test_what_no_planner_says_is_refused(spoil):
    events = a_goal()
    events[1] = {**events[1], **spoil}
    with pytest.raises(PlannerError, match=r"recorder|request"):
        read(*events)


def test_an_unknown_robot_is_named():
    with pytest.raises(PlannerError, match="r2d2"):
        read(*a_goal(robot_model="r2d2"))


def test_two_replays_are_identical_bit_for_bit():
    text = lines_of(*a_goal("a", 10.0), *a_goal("b", 10.5, urgency=Urgency.URGENT))
    first, second = (simulate(parse_lines(text, ROBOTS), a_config("tardiness"), SCRIPTS) for _ in range(2))
    assert first == second
    assert [len(record.segments) for record in first.requests] == [2, 2]
    assert repr(first) == repr(second)


def test_a_plan_that_took_a_replan_is_the_way_that_was_gone():
    lines = a_goal(texts=("mf(100);", "g(cat);", "tc(90);", "", "mu(50);"), reports=False)
    report = SegmentReport(request_id="g", index=1, status=ReportStatus.FAILED, reason="lost", duration_s=0.1)
    lines.insert(-1, event_log.reported(report, 100.8))
    (row,) = read(*lines).requests
    assert row.plan == "mf(100);mu(50);"
    assert len(row.durations_s) == 2


def a_goal_in_parts(*, skips=False, fails_at=None, num_parts=6):
    texts = ("mf(100);", "?iv(cat){", "g(cat);", "tc(90);", "}", "mb(50);")[:num_parts]
    lines = a_goal(texts=texts)
    for line in lines:
        index = line.get("index")
        if line["event"] == "segment" and texts[index] in ("?iv(cat){", "}"):
            line["block_edge"] = "opens" if index == 1 else "closes"
        is_end = line["event"] == "report" and line["status"] == "succeeded"
        if is_end and skips and index in (2, 3, 4):
            line.update(status="skipped", duration_s=0.0)
        if is_end and index == fails_at:
            line["status"] = "failed"
    if not skips:
        return lines
    return [line for line in lines if not (line.get("status") == "started" and line["index"] in (2, 3, 4))]


def test_a_condition_that_came_part_by_part_is_one_statement():
    (row,) = read(*a_goal_in_parts()).requests
    assert row.plan == "mf(100);?iv(cat){g(cat);tc(90);}mb(50);"
    assert row.segment_tokens == (5, 6 + 7 + 8 + 9, 10)
    assert row.durations_s == pytest.approx((1.0, 4.0, 1.0))
    assert len(simulate(read(*a_goal_in_parts()), a_config(), SCRIPTS).requests[0].segments) == 3


def test_what_was_skipped_took_no_time():
    (row,) = read(*a_goal_in_parts(skips=True)).requests
    assert row.durations_s == pytest.approx((1.0, 1.0, 1.0))


def test_a_plan_that_ended_in_an_open_block_is_replayed_as_far_as_it_went():
    (row,) = read(*a_goal_in_parts(num_parts=3)).requests
    assert row.plan == "mf(100);?iv(cat){g(cat);}"


def test_a_block_in_which_something_failed_is_not_among_what_was_carried_out():
    marker = Segment(index=6, text="", calls=(), expected=EXPECTED, is_replan=True)
    last = Segment(index=7, text="mu(50);", calls=(), expected=EXPECTED, num_tokens=3)
    lines = a_goal_in_parts(fails_at=2)
    lines[-1:-1] = [event_log.segment_sent("g", marker, 108.5), event_log.segment_sent("g", last, 108.6)]
    (row,) = read(*lines).requests
    assert row.plan == "mf(100);mu(50);"
