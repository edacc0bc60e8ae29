# SPDX-License-Identifier: Apache-2.0
"""The book of goals: exactly one end each, no segment twice, whatever two loops say in whatever order."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import BudgetScope, OverrunStrategy, PlanResult, Urgency
from llm_planner.core.segment import MarkStatus, ReportStatus, SegmentMark, SegmentReport, Situation, make_replan
from llm_planner.scheduling.execution_tracker import ExecutionTracker, Reception
from llm_planner.serving.events import Finished, PlanComplete, SegmentReady
from llm_planner.serving.goal_book import GoalBook
from llm_planner.serving.goal_record import GoalRecord
from tests.serving.builders import failed, make_admission, make_request, make_segment, started, succeeded


def make_book(*request_ids: str) -> GoalBook:
    book = GoalBook(make_admission())
    for request_id in request_ids:
        assert book.open(make_request(request_id), 1.0) is None
    return book


def test_a_life_in_the_book():
    book = make_book("r1")
    ready = SegmentReady("r1", make_segment(0))
    assert book.accept(ready, 2.0) is ready
    assert book.report(started("r1", 0), 2.5)
    assert not book.report(started("r2", 0), 2.5)
    goal = book.get("r1")
    assert goal.request.delivered == (make_segment(0),)
    assert goal.arrival_s == 1.0
    assert goal.delivered_at_s == (2.0,)
    assert goal.reports == ((2.5, started("r1", 0)),)
    assert book.accept(PlanComplete("r1", 1), 3.0) is not None
    assert book.accept(PlanComplete("r1", 1), 3.0) is None
    assert book.get("r1").is_complete
    end = book.accept(Finished(PlanResult(request_id="r1")), 4.0)
    assert end.result.segments == (make_segment(0),)
    assert book.request_ids == ()
    assert book.get("r1") is None
    assert book.end("r1", ErrorCode.CANCELLED, "", 9.0) is None


def test_an_end_without_the_loop_still_knows_the_response_time():
    book = make_book("r1")
    book.accept(SegmentReady("r1", make_segment(0)), 1.5)
    result = book.end("r1", ErrorCode.CANCELLED, "why", 9.0).result
    assert result.error_code is ErrorCode.CANCELLED
    assert result.error_msg == "why"
    assert result.segments == (make_segment(0),)
    assert result.metrics.response_time_s == 0.5
    assert result.metrics.time_utility == 0.0  # nothing of it was achieved


def test_superseded():
    book = GoalBook(make_admission())
    book.open(make_request("r1", robot_id="x"), 0.0)
    with pytest.raises(PlannerError):
        book.open(make_request("r2", robot_id="x"), 0.0)
    assert book.request_ids == ("r1",)
    ended = book.open(make_request("r3", robot_id="x", urgency=Urgency.URGENT), 0.0)
    assert ended.result.error_code is ErrorCode.SUPERSEDED
    assert book.request_ids == ("r3",)


def test_a_babbling_robot_fills_no_memory():
    book = make_book("r1")
    book.accept(SegmentReady("r1", make_segment(0)), 1.0)
    for i in range(100):
        book.report(succeeded("r1", 0, float(i)), 2.0 + i)
        book.report(failed("r1", 7 + i), 2.0)
    assert book.get("r1").reports == ((2.0, succeeded("r1", 0, 0.0)),)


_EVENTS = st.one_of(
    st.builds(lambda r, i: SegmentReady(r, make_segment(i)), st.sampled_from("ab"), st.integers(0, 4)),
    st.builds(PlanComplete, st.sampled_from("ab"), st.just(3), st.booleans()),
    st.builds(lambda r: Finished(PlanResult(request_id=r)), st.sampled_from("ab")),
)


@given(st.lists(_EVENTS, max_size=40))
def test_whatever_loops_say_the_owner_hears_a_clean_story(events):
    book = make_book("a", "b")
    announced = [e for e in (book.accept(event, float(i)) for i, event in enumerate(events)) if e is not None]
    for name in "ab":
        mine = [e for e in announced if e.request_id == name]
        indices = [e.segment.index for e in mine if isinstance(e, SegmentReady)]
        assert indices == list(range(len(indices)))
        ends = [e for e in mine if isinstance(e, Finished)]
        assert len(ends) <= 1
        if ends:
            assert mine[-1] is ends[0]
            assert len(ends[0].result.segments) == len(indices)
        completes = [i for i, e in enumerate(mine) if isinstance(e, PlanComplete)]
        assert len(completes) <= 1
        assert not any(isinstance(e, SegmentReady) for i in completes for e in mine[i:])


@pytest.mark.parametrize(
    ("response_s", "is_complete", "scope", "code"),
    [
        (None, False, BudgetScope.FIRST_SEGMENT, ErrorCode.BUDGET_EXCEEDED),  # overrun, and not there yet
        (0.5, False, BudgetScope.FIRST_SEGMENT, ErrorCode.ROBOT_BUSY),
        (1.5, False, BudgetScope.FIRST_SEGMENT, ErrorCode.ROBOT_BUSY),  # it was late, but it has come
        (0.5, False, BudgetScope.WHOLE_PLAN, ErrorCode.BUDGET_EXCEEDED),
        (0.5, True, BudgetScope.WHOLE_PLAN, ErrorCode.ROBOT_BUSY),
    ],
)
def test_skip_next_refuses_what_comes_during_an_overrun(response_s, is_complete, scope, code):
    book = GoalBook(make_admission())
    budget = {"time_budget_s": 1.0, "overrun": OverrunStrategy.SKIP_NEXT, "budget_scope": scope}
    book.open(make_request("r1", robot_id="drone", **budget), 1.0)
    if response_s is not None:
        book.accept(SegmentReady("r1", make_segment(0)), 1.0 + response_s)
    if is_complete:
        book.accept(PlanComplete("r1", 1), 1.9)
    with pytest.raises(PlannerError) as caught:
        book.open(make_request("early", robot_id="drone"), 2.0)
    assert caught.value.code is ErrorCode.ROBOT_BUSY
    with pytest.raises(PlannerError) as caught:
        book.open(make_request("r2", robot_id="drone"), 3.0)
    assert caught.value.code is code
    book.open(make_request("other", robot_id="another_drone"), 3.0)
    ended = book.open(make_request("urgent", robot_id="drone", urgency=Urgency.URGENT), 4.0)  # is never skipped
    assert ended.result.error_code is ErrorCode.SUPERSEDED
    book.end("urgent", ErrorCode.CANCELLED, "", 9.0)
    assert book.open(make_request("r2", robot_id="drone"), 7.0) is None  # the overrun one has ended


def test_kill_skips_nothing():
    book = GoalBook(make_admission())
    book.open(make_request("r1", robot_id="drone", time_budget_s=1.0), 1.0)
    with pytest.raises(PlannerError) as caught:
        book.open(make_request("r2", robot_id="drone"), 3.0)
    assert caught.value.code is ErrorCode.ROBOT_BUSY


@pytest.mark.parametrize("is_engine_ready", [False, True])
@pytest.mark.parametrize(("budget_s", "decide_by_s"), [(1.0, 1.93), (0.1, 1.03), (0.02, 1.006)])
def test_what_no_engine_has_decided_about_is_refused_while_the_reflex_has_time(budget_s, decide_by_s, is_engine_ready):
    book = GoalBook(make_admission())
    for name in ("undecided", "admitted", "served", "skip_next"):
        overrun = OverrunStrategy.SKIP_NEXT if name == "skip_next" else OverrunStrategy.KILL
        book.open(make_request(name, robot_id=name, time_budget_s=budget_s, overrun=overrun), 1.0)
    book.open(make_request("unlimited", robot_id="unlimited"), 1.0)
    book.admit("admitted")
    book.accept(SegmentReady("served", make_segment(0)), 1.0)
    assert book.take_overdue(decide_by_s - 1e-6, has_engine=lambda _: is_engine_ready) == []
    refused = book.take_overdue(decide_by_s + 1e-6, has_engine=lambda _: is_engine_ready)
    gone = [] if is_engine_ready else ["admitted"]  # no engine keeps what was decided
    assert [e.request_id for e in refused] == ["undecided", *gone]
    assert {e.result.error_code for e in refused} == {ErrorCode.BUDGET_INFEASIBLE}
    book.admit("undecided")  # too late: it has ended
    assert book.get("undecided") is None
    late = book.take_overdue(1.001 + budget_s, has_engine=lambda _: is_engine_ready)
    assert [e.request_id for e in late] == (["admitted"] if is_engine_ready else [])
    assert all(e.result.error_code is ErrorCode.BUDGET_EXCEEDED for e in late)


def test_what_another_engine_decided_does_not_count_once_it_is_gone():
    book = GoalBook(make_admission())
    for name in ("admitted", "served", "ended"):
        book.open(make_request(name, robot_id=name, time_budget_s=1.0), 1.0)
        book.admit(name)
    book.accept(SegmentReady("served", make_segment(0)), 1.5)
    book.end("ended", ErrorCode.CANCELLED, "", 1.5)
    assert book.take_overdue(1.94, has_engine=lambda _: True) == []
    assert [book.withdraw_admission(name) for name in ("admitted", "served", "ended")] == [1.93, None, None]
    (refused,) = book.take_overdue(1.94, has_engine=lambda _: True)  # the next one is there, and has not decided
    assert (refused.request_id, refused.result.error_code) == ("admitted", ErrorCode.BUDGET_INFEASIBLE)


@pytest.mark.parametrize("overrun", OverrunStrategy)
@pytest.mark.parametrize("num_segments", [0, 1])
@pytest.mark.parametrize("is_engine_ready", [False, True])
def test_budgets_hold_without_an_engine(overrun, num_segments, is_engine_ready):
    book = GoalBook(make_admission())
    book.open(
        make_request("r1", time_budget_s=1.0, overrun=overrun, budget_scope=BudgetScope.WHOLE_PLAN),
        1.0,
    )
    book.admit("r1")
    for index in range(num_segments):
        book.accept(SegmentReady("r1", make_segment(index)), 1.5)
    assert book.take_overdue(1.92, has_engine=lambda _: is_engine_ready) == []
    events = book.take_overdue(2.1, has_engine=lambda _: is_engine_ready)
    assert book.take_overdue(2.2, has_engine=lambda _: is_engine_ready) == []
    if overrun is OverrunStrategy.SKIP_NEXT or (
        overrun is OverrunStrategy.PARTIAL and num_segments and is_engine_ready
    ):
        assert events == []
    elif overrun is OverrunStrategy.PARTIAL and num_segments:
        assert events == [PlanComplete("r1", 1, is_partial=True)]
        assert book.accept(SegmentReady("r1", make_segment(1)), 2.3) is None  # closed is closed
        assert book.accept(PlanComplete("r1", 1, is_partial=True), 2.3) is None
        assert book.get("r1").is_partial
    else:
        (end,) = events
        is_refused = not (num_segments or is_engine_ready)
        assert end.result.error_code is (ErrorCode.BUDGET_INFEASIBLE if is_refused else ErrorCode.BUDGET_EXCEEDED)
        assert len(end.result.segments) == num_segments
        assert book.request_ids == ()


@pytest.mark.parametrize("is_engine_ready", [False, True])
def test_a_plan_under_a_token_cap_is_closed_by_its_engine_or_as_it_would_have_been(is_engine_ready):
    book = GoalBook(make_admission())
    book.open(make_request("r1", time_budget_s=1.0, budget_scope=BudgetScope.WHOLE_PLAN), 1.0)
    book.admit("r1")
    book.admit("r1", is_capped=True)
    book.accept(SegmentReady("r1", make_segment(0)), 1.5)
    book.withdraw_admission("r1")
    events = book.take_overdue(2.1, has_engine=lambda _: is_engine_ready)
    assert book.leaves_to_engine(2.1) == is_engine_ready
    assert events == ([] if is_engine_ready else [PlanComplete("r1", 1, is_partial=True)])


def test_an_end_tells_how_every_segment_went():
    book = make_book("r1")
    for index in range(3):
        book.accept(SegmentReady("r1", make_segment(index)), 2.0)
    book.report(replace(succeeded("r1", 0), value=3.0, said=("hello",)), 3.0)
    book.report(replace(failed("r1", 1), reason="no cup"), 4.0)
    finished = book.accept(Finished(PlanResult(request_id="r1", error_code=ErrorCode.SKILL_FAILED)), 5.0)
    assert finished.result.marks == (
        SegmentMark(status=MarkStatus.SUCCEEDED, value=3.0, said=("hello",)),
        SegmentMark(status=MarkStatus.FAILED, reason="no cup"),
        SegmentMark(),
    )
    assert finished.result.findings == "hello; 3"


def test_a_verdict_survives_the_engine():
    book = make_book("r1")
    book.accept(SegmentReady("r1", make_segment(0)), 2.0)
    verdict = PlannerError(ErrorCode.NOT_ACHIEVED, "there is no door")
    book.accept(PlanComplete("r1", 1, verdict=verdict), 3.0)
    assert book.get("r1").verdict is verdict


@given(
    st.lists(
        st.tuples(st.integers(-1, 5), st.sampled_from([None, *ReportStatus]), st.sampled_from([None, Situation()])),
        max_size=30,
    )
)
def test_a_report_counts_for_the_book_as_for_the_tracker_of_the_engine(steps):
    """``None`` stands for the next segment, which is a replan if the plan has failed."""
    goal, tracker = GoalRecord(request=make_request("r1"), arrival_s=0.0), ExecutionTracker(0.0, 0.0)
    for now_s, (index, status, situation) in enumerate(steps, start=1):
        if status is None:
            number = tracker.num_delivered
            segment = make_replan(number) if tracker.has_failed else make_segment(number)
            goal = goal.with_segment(segment, now_s)
            tracker.deliver(segment, now_s)
            continue
        report = SegmentReport(request_id="r1", index=index, status=status, situation=situation)
        counts = goal.counts(report)
        assert counts == (tracker.report(report, now_s) is not Reception.IGNORED)
        goal = goal.with_report(report, now_s) if counts else goal
