# SPDX-License-Identifier: Apache-2.0
"""A replanned goal survives its engine, and the book of goals receives its events to the end."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.tests.serving.test_replans import failed, make_loop, texts, written
from llm_planner.core.errors import ErrorCode
from llm_planner.core.pose import Pose
from llm_planner.core.segment import Situation
from llm_planner.planning.failure_context import ReplanContext
from llm_planner.serving.events import PlanComplete, SegmentReady
from llm_planner.serving.goal_book import GoalBook
from tests.serving.builders import make_admission, make_request, succeeded


@settings(max_examples=25, deadline=None)
@given(
    num_before=st.integers(0, 12),
    has_replan=st.booleans(),
    can_insert=st.booleans(),
    context=st.sampled_from(ReplanContext),
    num_kv_blocks=st.sampled_from([4096, 150]),
)
def test_a_new_engine_goes_on_behind_what_was_delivered(num_before, has_replan, can_insert, context, num_kv_blocks):
    """The engine dies at any time after a segment failed: before or after it said that there is another way."""
    book = GoalBook(make_admission())
    request = make_request(instruction="go to all of them")
    book.open(request, 0.0)
    options = {"can_insert": can_insert, "num_kv_blocks": num_kv_blocks, "policy": "fcfs_stream", "context": context}
    loop = make_loop(**options)
    for event in (*loop.submit(request, 0.0), *written(loop)):
        book.accept(event, 0.1)
    report = failed(1, Situation(scene="chair_alone", pose=Pose(x_m=1.0, z_m=1.0)))
    book.report(succeeded("r1", 0), 0.5)
    book.report(report, 1.0)
    delivered = []
    if has_replan:
        loop.report(succeeded("r1", 0), 0.5)
        events = loop.report(report, 1.0)
        for _ in range(num_before):
            events += loop.step(1.0)
        delivered = [event for event in events if book.accept(event, 1.1) is not None]
    loop = make_loop(**options)
    events = [*loop.open(book.get("r1"), 2.0), *written(loop)]
    assert all(book.accept(event, 2.1) is event for event in events)
    fresh = context is ReplanContext.FRESH  # reads no reason; what is done stands behind its prompt
    expected = ["mu(20);"] if fresh else ["tc(45);", "mu(50);"]
    assert [t for t in (*texts(delivered), *texts(events)) if t] == expected
    last = len(book.get("r1").segments) - 1
    (end,) = loop.report(succeeded("r1", last), 5.0)
    assert end.result.error_code is ErrorCode.NONE
    assert end.result.metrics.num_replans == 1
    assert loop._scheduler.check_integrity() is None


def handed_over(*reports):
    """Returns what a new loop says to a goal whose robot has reported ``reports``, and what it was handed."""
    book, request = GoalBook(make_admission()), make_request()
    book.open(request, 0.0)
    loop = make_loop(policy="fcfs_stream")
    for event in (*loop.submit(request, 0.0), *written(loop)):
        book.accept(event, 0.1)
    for report in reports:
        book.report(report, 1.0)
    loop = make_loop(policy="fcfs_stream")
    again = book.get("r1")
    return loop.open(again, 2.0), again.request


def test_a_new_engine_ends_a_goal_that_its_robot_has_given_up():
    (end,), _ = handed_over(failed(1, None))
    assert end.result.error_code is ErrorCode.SKILL_FAILED


def test_surplus_failures_of_one_plan_are_not_handed_over():
    events, again = handed_over(failed(1), failed(2), failed(0), succeeded("r1", 3))
    assert again.failures == (failed(1),)
    assert texts(events) == [""]


def test_a_failure_behind_a_segment_that_has_ended_is_not_handed_over():
    events, again = handed_over(succeeded("r1", 2), failed(1))
    assert again.failures == ()
    assert texts(events) == []


def test_a_book_receives_a_complete_plan_twice_if_it_failed_in_between():
    book, request = GoalBook(make_admission()), make_request()
    book.open(request, 0.0)
    loop = make_loop(policy="fcfs_stream")
    events = [*loop.submit(request, 0.0), *written(loop), *loop.report(failed(3), 1.0), *written(loop)]
    assert [event for event in events if book.accept(event, 1.0) is None] == []
    completions = [event for event in events if isinstance(event, PlanComplete)]
    assert [event.num_segments for event in completions] == [4, 7]
    late = SegmentReady("r1", replace(events[0].segment, index=7))
    assert book.accept(late, 1.0) is None  # complete again
