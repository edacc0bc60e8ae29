# SPDX-License-Identifier: Apache-2.0
"""A handle delivers each segment once and in order, and none once its goal was cancelled, replaced or has failed.

Nor one that became void because a segment failed.
"""

import threading

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import PlanRequest, PlanResult
from llm_planner.core.segment import ReportStatus, Situation, make_replan
from llm_planner.ros.plan_handle import PlanHandle
from tests.ros.nodes import make_segment

pytestmark = pytest.mark.ros
SEGMENTS = [make_segment(index, f"mf({20 + index});") for index in range(5)]


class Caller:
    """A handle, and what it did."""

    def __init__(self, on_segment=None):
        self.received, self.reports, self.cancelled = [], [], []
        request = PlanRequest(request_id="a" * 32, robot_id="drone_1", robot_model="tello", instruction="go")
        self.handle = PlanHandle(
            request,
            send_report=self.reports.append,
            request_cancel=self.cancelled.append,
            on_segment=on_segment or self.received.append,
        )

    def offer(self, *indices):
        self.handle.offer([SEGMENTS[index] for index in indices], 5)

    def finish(self, code):
        result = PlanResult(request_id="a" * 32, error_code=code, error_msg="", segments=tuple(SEGMENTS))
        self.handle.finish(result)

    @property
    def indices(self):
        return [segment.index for segment in self.received]


@pytest.mark.parametrize("close", ["cancel", "close"])
def test_a_goal_that_was_cancelled_or_replaced_delivers_nothing_more(close):
    caller = Caller()
    caller.offer(1, 0)
    getattr(caller.handle, close)()
    assert caller.cancelled == ([caller.handle] if close == "cancel" else [])
    caller.offer(2, 3)
    assert not caller.handle.has_gap  # so nothing is asked for again
    caller.finish(ErrorCode.SUPERSEDED)
    assert caller.indices == [0, 1]
    assert caller.handle.result(0.0).error_code is ErrorCode.SUPERSEDED


def test_a_cancel_in_the_midst_of_a_batch_holds_back_the_rest():
    caller = Caller(on_segment=lambda segment: (caller.received.append(segment), caller.handle.cancel()))
    caller.offer(0, 1, 2)
    assert caller.indices == [0]


def test_a_callback_that_fails_ends_the_goal():
    def fail(segment):
        raise ValueError(segment.text)

    caller = Caller(on_segment=fail)
    with pytest.raises(ValueError, match="mf"):
        caller.offer(0, 1)
    assert caller.cancelled == [caller.handle]
    caller.offer(2)


@pytest.mark.parametrize("code", list(ErrorCode))
def test_only_the_result_of_a_plan_that_was_carried_out_brings_segments(code):
    caller = Caller()
    caller.offer(0)
    caller.finish(code)
    is_carried_out = code in (ErrorCode.NONE, ErrorCode.PLAN_PARTIAL)
    assert caller.indices == ([0, 1, 2, 3, 4] if is_carried_out else [0])


@pytest.mark.parametrize("end", ["cancel", "close"])
def test_waiting_for_a_segment_ends(end):
    caller = Caller()
    handle = PlanHandle(
        caller.handle.request, send_report=caller.reports.append, request_cancel=caller.cancelled.append
    )
    received = []
    reader = threading.Thread(target=lambda: received.extend(handle))
    reader.start()
    getattr(handle, end)()
    reader.join(10.0)
    assert (reader.is_alive(), received, list(handle)) == (False, [], [])


def test_segments_that_were_not_fetched_are_not_handed_out_after_a_cancel():
    caller = Caller()
    handle = PlanHandle(
        caller.handle.request, send_report=caller.reports.append, request_cancel=caller.cancelled.append
    )
    handle.offer(SEGMENTS, 5)
    segments = iter(handle)
    assert next(segments).index == 0
    handle.cancel()
    assert list(segments) == []


def test_what_came_before_the_planner_was_lost_is_still_handed_out():
    caller = Caller()
    handle = PlanHandle(
        caller.handle.request, send_report=caller.reports.append, request_cancel=caller.cancelled.append
    )
    handle.offer(SEGMENTS[:2], 5)
    handle.fail(PlannerError(ErrorCode.SERVER_UNREACHABLE, "gone"))
    handle.fail(PlannerError(ErrorCode.CANCELLED, "too late"))
    assert [segment.index for segment in handle] == [0, 1]
    assert handle.result(0.0).error_code is ErrorCode.SERVER_UNREACHABLE
    assert handle.result(0.0).segments == tuple(SEGMENTS[:2])


REPLANNED = [*SEGMENTS[:3], make_replan(3), make_segment(4, "mb(50);")]


@pytest.mark.parametrize("num_ahead", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("situation", "behind"), [(None, []), (Situation(scene="chair"), [3, 4])])
def test_what_lies_behind_a_failure_is_not_handed_out(situation, behind, num_ahead):
    caller = Caller()
    handle = PlanHandle(
        caller.handle.request, send_report=caller.reports.append, request_cancel=caller.cancelled.append
    )
    handle.offer(REPLANNED[:num_ahead], num_ahead)
    segments = iter(handle)
    handle.report(next(segments), ReportStatus.FAILED, reason="the left wheel is blocked", situation=situation)
    handle.offer(REPLANNED[num_ahead:], 5)
    handle.fail(PlannerError(ErrorCode.SERVER_UNREACHABLE, "gone"))
    assert [segment.index for segment in segments] == behind
    assert [report.reason for report in caller.reports] == ["the left wheel is blocked"]
    assert caller.cancelled == []  # the planner ends the goal, with the reason


@pytest.mark.parametrize(
    ("situation", "is_permanent", "behind"), [(None, False, []), (Situation(), False, [3, 4]), (Situation(), True, [])]
)
def test_what_lies_behind_a_failure_is_not_delivered(situation, is_permanent, behind):
    caller = Caller()
    caller.handle.offer(REPLANNED[:1], 1)
    caller.handle.report(REPLANNED[0], ReportStatus.FAILED, situation=situation, is_permanent=is_permanent)
    assert caller.reports[0].is_permanent is is_permanent
    caller.handle.offer(REPLANNED[1:], 5)
    assert caller.indices == [0, *behind]


def test_a_failure_in_the_replan_voids_only_what_follows():
    caller = Caller()
    plan = [*REPLANNED, make_segment(5, "mb(60);"), make_replan(6), make_segment(7, "mb(70);")]
    caller.handle.offer(plan[:1], 1)
    caller.handle.report(plan[0], ReportStatus.FAILED, situation=Situation())
    caller.handle.offer(plan[1:5], 5)
    caller.handle.report(plan[4], ReportStatus.FAILED, situation=Situation())
    caller.handle.offer(plan[5:], 8)
    assert caller.indices == [0, 3, 4, 6, 7]


@pytest.mark.parametrize("reason", [None, "no file flur\udce9"])
def test_a_report_that_cannot_be_sent_changes_nothing(reason):
    caller = Caller()
    caller.offer(0)
    with pytest.raises(PlannerError) as caught:
        caller.handle.report(SEGMENTS[0], ReportStatus.FAILED, reason=reason)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    caller.offer(1)
    assert (caller.indices, caller.reports) == ([0, 1], [])
