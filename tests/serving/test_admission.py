"""Admission as a table: who comes in, who is refused with which number, who takes whose place."""

import math

import pytest

from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.core.request import Urgency
from llm_planner.core.time_utility import TimeUtility
from tests.serving.builders import make_admission, make_request

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
