# SPDX-License-Identifier: Apache-2.0
"""The picture of a robot at work: estimates, and how reports of any order sharpen them."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.segment import BlockEdge, ReportStatus, Situation, make_replan
from llm_planner.scheduling.execution_tracker import ExecutionTracker, Reception, cautious_duration_s
from tests.scheduling.builders import NETWORK_S, make_expected, make_report, make_segment, make_tracker

STARTED, SUCCEEDED, FAILED, SKIPPED = (ReportStatus[name] for name in ("STARTED", "SUCCEEDED", "FAILED", "SKIPPED"))


def test_uncertain_segments_count_with_their_minimum():
    assert cautious_duration_s(make_expected(7.0, min_s=1.5, p90_s=13.0)) == 1.5
    assert cautious_duration_s(make_expected(4.0, min_s=3.9, p90_s=4.3)) == 4.0
    assert cautious_duration_s(make_expected(0.0)) == 0.0


def test_without_reports_the_expected_durations_add_up():
    tracker = ExecutionTracker(0.0, NETWORK_S, expects_reports=False)
    tracker.deliver(make_segment(0, 2.0), 1.0)
    assert tracker.idle_at_s(1.0) == pytest.approx(1.0 + NETWORK_S + 2.0)
    tracker.deliver(make_segment(1, 3.0), 1.5)  # in time: follows without a pause
    assert tracker.idle_at_s(1.5) == pytest.approx(1.0 + NETWORK_S + 5.0)
    tracker.deliver(make_segment(2, 1.0), 20.0)  # late: the robot waited
    assert tracker.idle_at_s(20.0) == pytest.approx(20.0 + NETWORK_S + 1.0)


def test_before_the_first_segment_the_robot_is_idle_since_the_arrival():
    assert make_tracker(arrival_s=3.0).idle_at_s(9.0) == 3.0


def test_a_segment_reported_early_or_late_moves_what_follows():
    for received_s, idle_s in ((1.5, 1.5 - NETWORK_S + 3.0), (4.0, 4.0 - NETWORK_S + 3.0)):
        tracker = make_tracker()
        tracker.deliver(make_segment(0, 2.0), 0.0)
        tracker.deliver(make_segment(1, 3.0), 0.1)
        assert tracker.report(make_report(0, SUCCEEDED, received_s - 2 * NETWORK_S), received_s) is Reception.ACCEPTED
        assert tracker.idle_at_s(received_s) == pytest.approx(idle_s)


def test_an_overdue_segment_holds_up_what_follows():
    tracker = make_tracker()
    tracker.deliver(make_segment(0, 2.0), 0.0)
    tracker.deliver(make_segment(1, 3.0), 0.1)
    assert tracker.idle_at_s(10.0) == pytest.approx(10.0 - NETWORK_S + 3.0)


def test_the_earliest_end_counts_every_segment_with_its_minimum():
    tracker = make_tracker()
    tracker.deliver(make_segment(0, 4.0, min_s=3.5, p90_s=4.2), 0.0)  # certain: the median counts for when it is idle
    assert tracker.idle_at_s(0.0) == pytest.approx(NETWORK_S + 4.0)
    assert tracker.earliest_idle_at_s(0.0) == pytest.approx(NETWORK_S + 3.5)
    tracker.deliver(make_segment(1, 2.0, min_s=1.9), 0.1)
    assert tracker.earliest_idle_at_s(0.1) == pytest.approx(NETWORK_S + 3.5 + 1.9)
    assert tracker.earliest_idle_at_s(5.0) == pytest.approx(5.0 - NETWORK_S + 1.9)  # the first has not ended yet
    tracker.report(make_report(0, SUCCEEDED, 3.8), 3.8 + 2 * NETWORK_S)
    assert tracker.earliest_idle_at_s(4.0) == pytest.approx(3.8 + NETWORK_S + 1.9)


def test_started_fixes_the_beginning():
    tracker = make_tracker()
    tracker.deliver(make_segment(0, 2.0), 0.0)
    assert tracker.report(make_report(0, STARTED, 0.0), 1.0) is Reception.ACCEPTED
    assert tracker.idle_at_s(1.0) == pytest.approx(1.0 - NETWORK_S + 2.0)


def test_the_end_of_a_segment_implies_the_end_of_all_before():
    tracker = make_tracker()
    for index in range(3):
        tracker.deliver(make_segment(index, 1.0), 0.0)
    assert tracker.report(make_report(2, SUCCEEDED), 3.1) is Reception.ACCEPTED
    assert tracker.is_all_reported
    assert tracker.report(make_report(0, SUCCEEDED), 3.2) is Reception.IGNORED  # too late: nothing changes
    assert tracker.report(make_report(1, FAILED), 3.2) is Reception.IGNORED
    assert tracker.idle_at_s(5.0) == pytest.approx(3.1 - NETWORK_S)


@pytest.mark.parametrize("status", [STARTED, SUCCEEDED, FAILED])
def test_duplicates_and_unknown_segments_count_nothing(status):
    tracker = make_tracker()
    assert tracker.report(make_report(0, status), 0.5) is Reception.IGNORED
    tracker.deliver(make_segment(0), 0.0)
    assert tracker.report(make_report(-1, status), 0.5) is Reception.IGNORED
    assert tracker.report(make_report(1, status), 0.5) is Reception.IGNORED
    assert tracker.report(make_report(0, status), 0.5) is not Reception.IGNORED
    assert tracker.report(make_report(0, status), 0.6) is Reception.IGNORED


def test_one_failure_counts_until_a_replan_is_delivered():
    tracker = make_tracker()
    for index in range(3):
        tracker.deliver(make_segment(index), 0.0)
    assert tracker.report(make_report(0, FAILED), 0.5) is Reception.FAILED
    assert tracker.has_failed
    assert tracker.silent_at_s(30.0) is None  # the robot waits
    for status in ReportStatus:
        assert tracker.report(make_report(1, status), 0.6) is Reception.IGNORED
    tracker.deliver(make_replan(3), 0.7)
    assert not tracker.has_failed
    assert tracker.is_all_reported
    tracker.deliver(make_segment(4), 0.8)
    for index in range(4):
        assert tracker.report(make_report(index, FAILED), 0.9) is Reception.IGNORED
    assert tracker.report(make_report(4, FAILED), 1.0) is Reception.FAILED


@pytest.mark.parametrize("is_replanned", [False, True])
@pytest.mark.parametrize("index", [0, 1])
def test_a_robot_that_waits_for_a_replan_may_give_up_once(index, is_replanned):
    tracker, waits = make_tracker(), replace(make_report(0, FAILED), situation=Situation())
    tracker.deliver(make_segment(0), 0.0)
    tracker.deliver(make_segment(1), 0.0)
    assert tracker.report(waits, 0.5) is Reception.FAILED
    assert tracker.report(waits, 0.6) is Reception.IGNORED
    if is_replanned:
        tracker.deliver(make_replan(2), 0.7)  # while the robot's word was under way
    assert tracker.report(make_report(3, FAILED), 0.8) is Reception.IGNORED
    assert tracker.report(make_report(index, FAILED), 0.8) is Reception.FAILED
    assert tracker.has_failed
    assert tracker.report(make_report(index, FAILED), 0.9) is Reception.IGNORED


def test_what_is_void_counts_nothing_once_the_robot_has_begun_with_the_replan():
    tracker = make_tracker()
    for segment in (make_segment(0), make_segment(1)):
        tracker.deliver(segment, 0.0)
    tracker.report(replace(make_report(0, FAILED), situation=Situation()), 0.5)
    for segment in (make_replan(2), make_segment(3)):
        tracker.deliver(segment, 0.7)
    tracker.report(make_report(3, STARTED), 0.8)
    assert tracker.report(make_report(1, FAILED), 0.9) is Reception.IGNORED


def test_a_robot_that_repeats_itself_counts_as_silent():
    tracker = make_tracker()
    tracker.deliver(make_segment(0, 2.0), 0.0)
    tracker.report(make_report(0, STARTED, 0.0), 1.0)
    silent_at_s = tracker.silent_at_s(30.0)
    assert tracker.report(make_report(0, STARTED, 0.0), 20.0) is Reception.IGNORED
    assert tracker.silent_at_s(30.0) == silent_at_s


def test_silence():
    tracker = make_tracker()
    assert tracker.silent_at_s(30.0) is None
    tracker.deliver(make_segment(0, 2.0, p90_s=5.0), 0.0)
    assert tracker.silent_at_s(30.0) == pytest.approx(5.0 + 3 * NETWORK_S + 30.0)
    tracker.report(make_report(0, STARTED, 0.0), 4.0)
    assert tracker.silent_at_s(30.0) == pytest.approx(4.0 + 5.0 + 2 * NETWORK_S + 30.0)
    tracker.report(make_report(0, SUCCEEDED), 6.0)
    assert tracker.silent_at_s(30.0) is None


def test_waiting_and_execution_time_as_in_figure_3():
    tracker = make_tracker(arrival_s=1.0, network_latency_s=0.0)
    tracker.deliver(make_segment(0, 2.0), 1.5)  # waits 0.5
    tracker.report(make_report(0, SUCCEEDED, 2.5), 4.0)  # 1.5 .. 4.0
    tracker.deliver(make_segment(1, 1.0), 3.0)  # in time
    tracker.report(make_report(1, SUCCEEDED, 1.0), 5.0)  # 4.0 .. 5.0
    tracker.deliver(make_segment(2, 3.0), 6.0)  # waits 1.0; never reported
    assert tracker.waiting_time_s() == pytest.approx(1.5)
    assert tracker.execution_time_s() == pytest.approx(2.5 + 1.0 + 3.0)


def test_the_first_action_is_where_the_waiting_time_of_the_first_segment_ends():
    tracker = make_tracker(arrival_s=1.0)
    assert tracker.first_action_s is None
    tracker.deliver(make_segment(0, 2.0), 1.5)
    assert tracker.first_action_s == 1.5 + NETWORK_S  # until something else is known
    tracker.report(make_report(0, STARTED, 0.0), 4.0)
    assert tracker.first_action_s == 4.0 - NETWORK_S
    tracker.deliver(make_segment(1, 2.0), 4.0)
    tracker.report(make_report(1, SUCCEEDED, 2.0), 9.0)
    assert tracker.first_action_s == 4.0 - NETWORK_S
    assert tracker._spans()[0][0] == tracker.first_action_s


@pytest.mark.parametrize("reports", [[(0, SUCCEEDED, 5.0, 6.0)], [(1, STARTED, 0.0, 6.0)], []])
def test_lost_reports_make_no_waiting_time(reports):
    tracker = make_tracker(network_latency_s=0.0)
    for index in range(2):
        tracker.deliver(make_segment(index, 5.0), 1.0)
    for index, status, duration_s, received_s in [*reports, (1, SUCCEEDED, 5.0, 11.0)]:
        tracker.report(make_report(index, status, duration_s), received_s)
    assert (tracker.first_action_s, tracker.waiting_time_s(), tracker.execution_time_s()) == (1.0, 1.0, 10.0)


@pytest.mark.parametrize("duration_s", [0.0, math.nan, math.inf, -1.0, 1e300, 10**400])
@pytest.mark.parametrize(("started_at_s", "begins_s", "takes_s"), [(None, 1.0, 2.0), (0.5, 0.5, 2.5)])
def test_unknown_and_impossible_durations_are_not_believed(duration_s, started_at_s, begins_s, takes_s):
    tracker = make_tracker(network_latency_s=0.0)
    tracker.deliver(make_segment(0, 2.0), 0.0)
    if started_at_s is not None:
        tracker.report(make_report(0, STARTED, 0.0), started_at_s)
    tracker.report(make_report(0, SUCCEEDED, duration_s), 3.0)
    assert (tracker.first_action_s, tracker.execution_time_s()) == (begins_s, takes_s)
    assert tracker.idle_at_s(3.0) == 3.0


def test_what_was_skipped_took_no_time():
    tracker = make_tracker(network_latency_s=0.0)
    tracker.deliver(make_segment(0, 2.0), 0.0)
    tracker.report(make_report(0, ReportStatus.SKIPPED, 0.0), 3.0)
    assert tracker.execution_time_s() == 0.0


def test_segments_are_delivered_in_order():
    with pytest.raises(ValueError, match="segment 1 delivered after 0"):
        make_tracker().deliver(make_segment(1), 0.0)


_REPORTS = st.lists(
    st.tuples(st.integers(-1, 6), st.sampled_from(ReportStatus), st.floats(0.0, 5.0), st.floats(0.0, 3.0)), max_size=15
)


@given(_REPORTS, st.integers(1, 5))
def test_whatever_a_robot_says_times_stay_sane(reports, num_segments):
    tracker, now_s = make_tracker(), 0.0
    for index in range(num_segments):
        tracker.deliver(make_segment(index, 1.0), now_s)
    num_ended = 0
    for index, status, duration_s, pause_s in reports:
        now_s += pause_s
        reception = tracker.report(make_report(index, status, duration_s), now_s)
        if reception is not Reception.IGNORED and status is not STARTED:
            assert index >= num_ended, "an end was taken back"
            num_ended = index + 1
        assert tracker.is_all_reported == (num_ended == num_segments)
        assert math.isfinite(tracker.idle_at_s(now_s))
        assert 0.0 <= tracker.waiting_time_s() <= now_s + 2 * NETWORK_S
        assert tracker.execution_time_s() >= 0.0
        starts_and_ends = [t for span in tracker._spans() for t in span]
        assert starts_and_ends == sorted(starts_and_ends)


@given(_REPORTS, st.integers(1, 5))
def test_what_comes_twice_changes_nothing(reports, num_segments):
    once, twice, now_s = make_tracker(), make_tracker(), 0.0
    for index in range(num_segments):
        once.deliver(make_segment(index, 1.0), now_s)
        twice.deliver(make_segment(index, 1.0), now_s)
    for index, status, duration_s, pause_s in reports:
        now_s += pause_s
        report = make_report(index, status, duration_s)
        assert once.report(report, now_s) is twice.report(report, now_s)
        assert twice.report(report, now_s) is Reception.IGNORED
        assert once.idle_at_s(now_s) == twice.idle_at_s(now_s)
    assert once.waiting_time_s() == twice.waiting_time_s()
    assert once.execution_time_s() == twice.execution_time_s()


def idle_by_definition(tracker, now_s):
    """When the robot will be idle, over all that has not ended, from the first on."""
    idle_s = tracker._idle_since_s(tracker.num_ended)
    for index in range(tracker.num_ended, tracker.num_delivered):
        execution = tracker._executions[index]
        started_s = execution.started_at_s
        if started_s is None:
            started_s = max(execution.delivered_at_s + tracker.network_latency_s, idle_s)
        idle_s = started_s + cautious_duration_s(execution.segment.expected)
        if tracker._expects_reports and index + 1 < tracker.num_delivered:
            idle_s = max(idle_s, now_s - tracker.network_latency_s)
    return idle_s


_EVENTS = st.lists(
    st.tuples(
        st.sampled_from(("deliver", "replan", *ReportStatus)),
        st.integers(0, 3),
        st.sampled_from((0.0, 0.1, 0.3, 0.7, 2.0)),
        st.floats(0.0, 2.0),
    ),
    max_size=30,
)


@given(_EVENTS, st.booleans())
def test_what_is_remembered_of_earlier_estimates_changes_none(events, expects_reports):
    tracker, now_s = ExecutionTracker(0.0, NETWORK_S, expects_reports=expects_reports), 0.0
    for event, offset, seconds, pause_s in events:
        now_s += pause_s
        if event == "deliver":
            least_s = seconds * (0.9 if offset else 0.2)  # certain, or not
            tracker.deliver(make_segment(tracker.num_delivered, seconds, min_s=least_s), now_s)
        elif event == "replan":
            tracker.deliver(make_replan(tracker.num_delivered), now_s)
        else:
            tracker.report(make_report(tracker.num_ended + offset, event, seconds), now_s)
        assert tracker.idle_at_s(now_s) == idle_by_definition(tracker, now_s)
        assert tracker.idle_at_s(now_s + 1.0) == idle_by_definition(tracker, now_s + 1.0)
        assert tracker.earliest_idle_at_s(now_s) <= tracker.idle_at_s(now_s)


def test_a_long_plan_is_not_counted_again_with_every_segment(monkeypatch):
    counted = []
    monkeypatch.setattr(
        "llm_planner.scheduling.execution_tracker.cautious_duration_s", lambda expected: counted.append(expected) or 1.0
    )
    tracker = make_tracker()
    for index in range(100):
        tracker.deliver(make_segment(index), 0.0)
        tracker.idle_at_s(0.0)
    assert len(counted) == 100


def deliver_block(tracker, *edges, now_s=0.0):
    """Delivers segments of 2 s each; an edge is OPENS, CLOSES or NONE."""
    for index, edge in enumerate(edges):
        tracker.deliver(replace(make_segment(index, 0.0 if edge is CLOSES else 2.0), block_edge=edge), now_s)


OPENS, CLOSES, NONE = BlockEdge.OPENS, BlockEdge.CLOSES, BlockEdge.NONE


def test_what_is_in_a_block_counts_for_nothing_until_its_condition_is_known_to_be_true():
    for enters, block_s in ((True, 4.0), (False, 0.0)):
        tracker = make_tracker()
        deliver_block(tracker, OPENS, NONE, NONE, CLOSES, NONE)
        assert tracker.idle_at_s(0.0) == pytest.approx(NETWORK_S + 2.0 + 2.0)
        tracker.report(make_report(0, STARTED), 2 * NETWORK_S)
        assert tracker.idle_at_s(0.1) == pytest.approx(NETWORK_S + 2.0 + 2.0)
        tracker.report(replace(make_report(0, SUCCEEDED, 2.0), enters_block=enters), 2.0 + 2 * NETWORK_S)
        assert tracker.idle_at_s(2.0 + 2 * NETWORK_S) == pytest.approx(NETWORK_S + 2.0 + block_s + 2.0)


def test_a_segment_that_began_tells_that_its_blocks_were_entered_and_one_that_was_skipped_that_they_were_not():
    tracker = make_tracker()
    deliver_block(tracker, OPENS, OPENS, NONE, NONE, CLOSES, CLOSES)
    tracker.report(make_report(2, STARTED), 5.0)  # all before was lost
    assert tracker.idle_at_s(5.0) == pytest.approx(5.0 - NETWORK_S + 4.0)
    tracker = make_tracker()
    deliver_block(tracker, OPENS, OPENS, NONE, NONE, CLOSES, CLOSES)
    tracker.report(make_report(1, SKIPPED, 0.0), 5.0)
    assert tracker.idle_at_s(5.0) == pytest.approx(5.0 - NETWORK_S)
    assert tracker.execution_time_s() == 2.0  # the first condition's


def test_a_robot_that_may_be_in_a_block_is_given_the_time_for_it():
    tracker = make_tracker()
    deliver_block(tracker, OPENS, NONE, CLOSES)
    tracker.report(replace(make_report(0, SUCCEEDED, 2.0), enters_block=True), 3.0)
    assert tracker.silent_at_s(10.0) == pytest.approx(3.0 + 2.0 + 2 * NETWORK_S + 10.0)
    skipping = make_tracker()
    deliver_block(skipping, OPENS, NONE, CLOSES)
    skipping.report(make_report(0, SUCCEEDED, 2.0), 3.0)
    assert skipping.silent_at_s(10.0) == pytest.approx(3.0 + 2 * NETWORK_S + 10.0)


def test_behind_a_replan_no_block_is_open():
    tracker = make_tracker()
    deliver_block(tracker, OPENS, NONE)
    tracker.report(replace(make_report(0, SUCCEEDED, 2.0), enters_block=True), 3.0)
    assert tracker.report(make_report(1, FAILED, 1.0), 4.0) is Reception.FAILED
    tracker.deliver(make_replan(2), 5.0)
    tracker.deliver(make_segment(3, 2.0), 5.0)
    assert tracker.idle_at_s(5.0) == pytest.approx(5.0 + NETWORK_S + 2.0)


def test_a_goal_that_failed_reports_no_time_for_what_is_void():
    tracker = make_tracker()
    for index in range(3):
        tracker.deliver(make_segment(index, 10.0), 0.0)
    tracker.report(make_report(0, FAILED, 1.0), 1.1)
    assert tracker.execution_time_s() == 1.0
    assert tracker.waiting_time_s() == pytest.approx(1.1 - NETWORK_S - 1.0)


def test_what_is_skipped_behind_a_return_was_entered_all_the_same():
    tracker = make_tracker()
    deliver_block(tracker, OPENS, NONE, NONE, NONE, CLOSES)
    tracker.report(replace(make_report(0, SUCCEEDED, 1.0), enters_block=True), 1.0)
    tracker.report(make_report(2, SUCCEEDED, 0.5), 4.0)  # the return; what came before it was lost
    tracker.report(make_report(3, SKIPPED, 0.0), 4.0)
    assert tracker.execution_time_s() == pytest.approx(1.0 + 2.0 + 0.5)
