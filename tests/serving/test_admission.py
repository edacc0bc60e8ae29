# SPDX-License-Identifier: Apache-2.0
"""Admission as a table: which goals are admitted, refused with which code, or take another's place."""

import math
import pickle
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.core.request import Urgency
from llm_planner.core.segment import ReportStatus, SegmentReport, Situation
from llm_planner.core.time_utility import TimeUtility
from llm_planner.serving.goal_book import GoalBook
from tests.serving.builders import failed, make_admission, make_request

REFUSED = {
    "empty": ({"instruction": ""}, ErrorCode.EMPTY_INSTRUCTION),
    "white space": ({"instruction": " \n\t "}, ErrorCode.EMPTY_INSTRUCTION),
    "100 kB": ({"instruction": "x" * 100_000}, ErrorCode.INSTRUCTION_TOO_LONG),
    "bytes, not characters": ({"instruction": "é" * 2049}, ErrorCode.INSTRUCTION_TOO_LONG),
    "long scene": ({"scene": "x" * 65537}, ErrorCode.INSTRUCTION_TOO_LONG),
    "lone surrogate": ({"instruction": "go \ud800"}, ErrorCode.INVALID_ENCODING),
    "control character": ({"instruction": "go\x00"}, ErrorCode.INVALID_ENCODING),
    "escape in scene": ({"scene": "\x1b[2J"}, ErrorCode.INVALID_ENCODING),
    "unknown model": ({"robot_model": "r2d2"}, ErrorCode.UNKNOWN_ROBOT_MODEL),
    "no model": ({"robot_model": ""}, ErrorCode.UNKNOWN_ROBOT_MODEL),
    "no robot": ({"robot_id": ""}, ErrorCode.INVALID_ROBOT_ID),
    "strange robot": ({"robot_id": "x; rm"}, ErrorCode.INVALID_ROBOT_ID),
    "line end in robot": ({"robot_id": "x\n"}, ErrorCode.INVALID_ROBOT_ID),
    "long robot": ({"robot_id": "x" * 65}, ErrorCode.INVALID_ROBOT_ID),
    "strange client": ({"client_id": "x; rm"}, ErrorCode.INVALID_ROBOT_ID),
    "long client": ({"client_id": "x" * 129}, ErrorCode.INVALID_ROBOT_ID),
    "negative budget": ({"time_budget_s": -1.0}, ErrorCode.INVALID_TIME_BUDGET),
    "zero budget": ({"time_budget_s": 0.0}, ErrorCode.INVALID_TIME_BUDGET),
    "NaN budget": ({"time_budget_s": math.nan}, ErrorCode.INVALID_TIME_BUDGET),
    "infinite budget": ({"time_budget_s": math.inf}, ErrorCode.INVALID_TIME_BUDGET),
    "endless budget": ({"time_budget_s": 1e10}, ErrorCode.INVALID_TIME_BUDGET),
    "steep utility": ({"time_utility": TimeUtility(0.0, -1e308, 1.0)}, ErrorCode.INVALID_TIME_UTILITY),
    "robot beyond the moon": ({"start_pose": Pose(y_m=-1e308)}, ErrorCode.INVALID_POSE),
    "lost robot": ({"start_pose": Pose(x_m=float("nan"))}, ErrorCode.INVALID_POSE),
    "no tokens": ({"max_tokens": 0}, ErrorCode.INVALID_MAX_TOKENS),
    "too many tokens": ({"max_tokens": 8193}, ErrorCode.INVALID_MAX_TOKENS),
}
TAKEN = {
    "plain": {},
    "longest": {"instruction": "x" * 4096, "scene": "y" * 65536},
    "unicode": {"instruction": "flieg zur 📦\n\tbitte"},
    "name spaces": {"robot_id": "/fleet/drone_1-a"},
    "client": {"client_id": "/fleet/drone_1"},
    "budget": {"time_budget_s": 0.001},
    "tokens": {"max_tokens": 8192},
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    changes, code = REFUSED[case]
    with pytest.raises(PlannerError) as caught:
        make_admission().check(make_request(**changes), {})
    assert caught.value.code is code
    assert len(caught.value.message) < 300


@pytest.mark.parametrize("case", TAKEN)
def test_taken(case):
    assert make_admission().check(make_request(**TAKEN[case]), {}) is None


@pytest.mark.parametrize("old", list(Urgency))
@pytest.mark.parametrize("new", list(Urgency))
def test_a_robot_has_one_goal_and_urgent_goes_before(old, new):
    previous = make_request("r1", robot_id="x", urgency=old)
    request = make_request("r2", robot_id="x", urgency=new)
    if new is Urgency.URGENT and old is not Urgency.URGENT:
        assert make_admission().check(request, {"r1": previous}) is previous
    else:
        with pytest.raises(PlannerError, match="r1") as caught:
            make_admission().check(request, {"r1": previous})
        assert caught.value.code is ErrorCode.ROBOT_BUSY


def test_what_is_only_shown_takes_no_place():
    previous = make_request("r1", robot_id="x")
    preview = make_request("r2", robot_id="x", urgency=Urgency.URGENT, plan_only=True)
    assert refusal(lambda: make_admission().check(preview, {"r1": previous})) is ErrorCode.ROBOT_BUSY
    urgent = replace(preview, plan_only=False)
    assert make_admission().check(urgent, {"r1": replace(previous, plan_only=True)}) is not None


def test_a_goal_cannot_be_sent_twice():
    with pytest.raises(PlannerError) as caught:
        make_admission().check(make_request("r1", robot_id="y"), {"r1": make_request("r1", robot_id="x")})
    assert caught.value.code is ErrorCode.ROBOT_BUSY


def test_a_full_queue_takes_only_those_who_take_a_place():
    unfinished = {f"r{i}": make_request(f"r{i}") for i in range(3)}
    admission = make_admission(max_queued=3)
    with pytest.raises(PlannerError) as caught:
        admission.check(make_request("new"), unfinished)
    assert caught.value.code is ErrorCode.OVERLOADED
    urgent = make_request("new", robot_id="robot_r1", urgency=Urgency.URGENT)
    assert admission.check(urgent, unfinished) is unfinished["r1"]


def refusal(ask: Callable[[], object]) -> ErrorCode | None:
    try:
        ask()
    except PlannerError as error:
        return error.code
    return None


URGENCIES = st.sampled_from(Urgency)
CLIENTS = st.sampled_from(["", "/a", "/b"])


@settings(max_examples=300)
@given(
    st.lists(st.tuples(URGENCIES, st.integers(0, 15), CLIENTS, st.booleans()), max_size=60),
    st.integers(1, 12),
    st.floats(0.0, 0.9),
    st.integers(1, 12),
)
def test_places_are_kept_for_urgent_goals(moves, max_queued, urgent_share, max_goals_per_client):
    """Goals of any urgency, robot and client come and end in any order."""
    admission = make_admission(
        max_queued=max_queued, urgent_share=urgent_share, max_goals_per_client=max_goals_per_client
    )
    book, kept = GoalBook(admission), admission.num_urgent_places
    open_goals = {}
    for number, (urgency, robot, client_id, ends) in enumerate(moves):
        if ends and open_goals:
            name = sorted(open_goals)[robot % len(open_goals)]
            assert book.end(name, ErrorCode.CANCELLED, "", 9.0) is not None
            del open_goals[name]
            continue
        request = make_request(f"r{number}", robot_id=f"robot_{robot}", urgency=urgency, client_id=client_id)
        is_urgent = urgency is Urgency.URGENT
        num_urgent = sum(other.urgency is Urgency.URGENT for other in open_goals.values())
        num_own = sum(other.client_id == client_id for other in open_goals.values())
        has_goal = any(other.robot_id == request.robot_id for other in open_goals.values())
        code = refusal(lambda request=request: book.open(request, 0.0))
        if code is not None:
            assert has_goal == (code is ErrorCode.ROBOT_BUSY)
            if code is ErrorCode.ROBOT_BUSY:
                continue
            assert not (is_urgent and num_urgent < kept), "an urgent goal was refused though places are kept for it"
            is_too_many = code is ErrorCode.TOO_MANY_GOALS
            assert is_too_many or len(open_goals) >= (max_queued if is_urgent else max_queued - kept)
            assert not is_too_many or (client_id and num_own >= max_goals_per_client)
            continue
        open_goals = {n: other for n, other in open_goals.items() if other.robot_id != request.robot_id}
        open_goals[request.request_id] = request
        assert len(open_goals) <= max_queued
        num_others = sum(other.urgency is not Urgency.URGENT for other in open_goals.values())
        assert num_others <= max_queued - kept, "a goal that is not urgent took a place that is kept for urgent ones"
        if client_id and not has_goal and not (is_urgent and num_urgent < kept):
            assert num_own < max_goals_per_client
    assert set(book.request_ids) == set(open_goals)


def test_a_flood_of_robots_of_one_client_is_refused_and_others_and_emergencies_are_not():
    admission, unfinished = make_admission(), {}
    codes = set()
    for n in range(500):
        request = make_request(f"flood_{n}", client_id="/flood")
        code = refusal(lambda request=request: admission.check(request, unfinished))
        codes.add(code)
        if code is None:
            unfinished[request.request_id] = request
    assert codes == {None, ErrorCode.TOO_MANY_GOALS}
    assert len(unfinished) == 64
    assert admission.check(make_request("other", client_id="/robot_1"), unfinished) is None
    crowd = {f"c{n}": make_request(f"c{n}", client_id=f"/robot_{n}") for n in range(224)}
    with pytest.raises(PlannerError, match="OVERLOADED"):
        admission.check(make_request("one_more"), crowd)
    for n in range(32):
        request = make_request(f"u{n}", urgency=Urgency.URGENT, client_id="/flood")
        assert admission.check(request, crowd) is None
        crowd[request.request_id] = request
    with pytest.raises(PlannerError, match="OVERLOADED"):
        admission.check(make_request("urgent", urgency=Urgency.URGENT), crowd)


@pytest.mark.parametrize("max_queued", [1, 3, 7])
def test_a_short_queue_takes_goals_that_are_not_urgent(max_queued):
    assert make_admission(max_queued=max_queued).check(make_request(), {}) is None


def test_of_a_report_only_what_is_read_is_kept():
    report = SegmentReport(
        request_id="r1",
        index=0,
        status=ReportStatus.FAILED,
        value="v \ud800" * 10_000_000,
        said=("s \udfff" * 10_000,) * 100_000,
        reason="gone \ud800" + "x" * 10_000_000,
        situation=Situation(scene="cat \udfff" + "y" * 10_000_000, pose=Pose(x_m=math.nan)),
    )
    bounded = make_admission().bounded(report)
    assert (bounded.request_id, bounded.index, bounded.status) == ("r1", 0, ReportStatus.FAILED)
    assert bounded.value.startswith("v ?v ?")
    assert bounded.said[0].startswith("s ?s ?")
    assert bounded.reason.startswith("gone ?xx")
    assert bounded.situation.scene.startswith("cat ?yy")
    assert bounded.situation.pose is None
    assert len(pickle.dumps(bounded)) < 100_000


def test_a_plain_report_stays_as_it_is():
    report = failed("r1", 1, "cat is not visible")
    assert make_admission().bounded(report) == report
    situation = Situation(scene="cat_1", pose=Pose(x_m=1.0))
    assert make_admission().bounded(replace(report, situation=situation)).situation == situation
