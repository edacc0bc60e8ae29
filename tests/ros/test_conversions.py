# SPDX-License-Identifier: Apache-2.0
"""Messages and dataclasses are two spellings of one thing; garbage from the network is refused with its number."""

import dataclasses
import math
from dataclasses import replace

import numpy as np
import pytest
from geometry_msgs.msg import Point, Quaternion
from geometry_msgs.msg import Pose as StandardPose
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message

import llm_planner.msg as msgs
from llm_planner.action import PlanTask
from llm_planner.core.config import PlannerConfig
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.pose import Pose
from llm_planner.core.request import BudgetScope, OverrunStrategy, PlanMetrics, PlanRequest, PlanResult, Urgency
from llm_planner.core.segment import (
    BlockEdge,
    ExpectedDuration,
    MarkStatus,
    ReportStatus,
    Segment,
    SegmentReport,
    Situation,
    make_replan,
)
from llm_planner.core.skill import SkillCall
from llm_planner.core.time_utility import NORMAL, URGENT, TimeUtility
from llm_planner.ros import conversions

pytestmark = pytest.mark.ros

GOAL_ID = "0123456789abcdef0123456789abcdef"

texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffd"), max_size=30)
numbers = st.floats(allow_nan=False, allow_infinity=False)
seconds = st.floats(0, 1e6)
counts = st.integers(0, 2**32 - 1)
yaws = st.integers(-179_999_999, 180_000_000).map(lambda millionths: millionths / 1e6)
places = st.builds(Pose, x_m=numbers, y_m=numbers, z_m=numbers, yaw_deg=yaws)
values = st.one_of(numbers, texts, st.booleans())
calls = st.builds(SkillCall, texts, st.lists(values, max_size=3).map(tuple))
durations = st.builds(ExpectedDuration, min_s=seconds, p50_s=seconds, p90_s=seconds)
segments = st.builds(
    Segment,
    index=counts,
    text=texts,
    calls=st.lists(calls, max_size=3).map(tuple),
    expected=durations,
    generation_time_s=seconds,
    block_edge=st.sampled_from(BlockEdge),
)
requests = st.builds(
    PlanRequest,
    request_id=st.just(GOAL_ID),
    robot_id=st.from_regex(r"[A-Za-z0-9_/-]{1,64}", fullmatch=True),
    client_id=st.from_regex(r"[A-Za-z0-9_/-]{1,128}", fullmatch=True),
    robot_model=texts,
    instruction=texts,
    scene=texts,
    urgency=st.sampled_from(Urgency),
    time_utility=st.builds(
        TimeUtility, seconds, st.floats(-1e3, 0), st.floats(0.01, 1e3), st.sampled_from(("linear", "step"))
    ),
    time_budget_s=st.none() | st.floats(1e-3, 1e6),
    overrun=st.sampled_from(OverrunStrategy),
    budget_scope=st.sampled_from(BudgetScope),
    max_tokens=st.integers(1, 8192),
    start_pose=st.none() | places,
    takes_open_blocks=st.booleans(),
)
metrics = st.builds(
    PlanMetrics,
    response_time_s=st.none() | seconds,
    waiting_time_s=seconds,
    execution_time_s=seconds,
    time_utility=st.none() | numbers,
    num_prompt_tokens=counts,
    num_cached_tokens=counts,
    num_output_tokens=counts,
    num_suspensions=counts,
    plan_time_s=st.none() | seconds,
    predicted_output_tokens=st.none() | st.integers(1, 2**32 - 1),
    predicted_time_s=st.none() | seconds,
    wcet_s=st.none() | seconds,
    eviction_ratio=st.floats(0, 1),
    measures=st.lists(texts, max_size=3).map(tuple),
)


def make_goal(**fields):
    defaults = {"robot_id": "drone_1", "robot_model": "tello", "instruction": "go to the chair", "scene": "chair_1"}
    return PlanTask.Goal(**(defaults | fields))


def make_report(**fields):
    return msgs.SegmentReport(**({"goal_id": GOAL_ID, "status": msgs.SegmentReport.SUCCEEDED} | fields))


def lying(**turn):
    return StandardPose(orientation=Quaternion(**turn))


def refused(convert, *arguments) -> ErrorCode:
    with pytest.raises(PlannerError) as caught:
        convert(*arguments)
    return caught.value.code


def test_error_codes_are_the_enum():
    names = {name for name in dir(msgs.ErrorCode) if name.isupper()} - {"SLOT_TYPES"}
    constants = {name: getattr(msgs.ErrorCode, name) for name in names}
    assert constants == {code.name: int(code) for code in ErrorCode}


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (Urgency, PlanTask.Goal),
        (OverrunStrategy, PlanTask.Goal),
        (BudgetScope, PlanTask.Goal),
        (ReportStatus, msgs.SegmentReport),
    ],
)
def test_constants_are_the_enums(cls, message):
    assert {m.name: m.value for m in cls} == {m.name: getattr(message, m.name) for m in cls}


def test_constants_of_what_a_segment_begins_or_ends_and_of_how_it_went():
    assert [e.value for e in BlockEdge] == [msgs.Segment.NO_EDGE, msgs.Segment.OPENS_BLOCK, msgs.Segment.CLOSES_BLOCK]
    assert {m.name: m.value for m in MarkStatus} == {m.name: getattr(msgs.SegmentOutcome, m.name) for m in MarkStatus}


def test_an_edge_of_a_block_that_is_not_known_is_refused():
    message = msgs.Segment(goal_id=GOAL_ID, text="?iv(cat){", block_edge=3)
    assert refused(conversions.to_segment, message, GOAL_ID) is ErrorCode.INVALID_ARGUMENT


def test_a_client_that_does_not_say_so_takes_no_open_blocks():
    assert not conversions.to_request(make_goal(), GOAL_ID).takes_open_blocks


@given(requests)
def test_request_round_trip(request_):
    assert conversions.to_request(conversions.to_goal(request_), GOAL_ID) == request_


def test_clients_without_a_name_are_one_client():
    assert conversions.to_request(make_goal(), GOAL_ID).client_id == conversions.ANONYMOUS


@given(segments)
def test_segment_round_trip(segment):
    message = conversions.from_segment(segment, GOAL_ID, is_last=True)
    assert (message.goal_id, message.is_last) == (GOAL_ID, True)
    assert conversions.to_segment(message, GOAL_ID) == segment


@given(
    st.builds(
        SegmentReport,
        request_id=st.just(GOAL_ID),
        index=counts,
        status=st.sampled_from(ReportStatus),
        duration_s=seconds,
        value=st.none() | values,
        reason=texts,
        enters_block=st.booleans(),
    )
)
def test_report_round_trip(report):
    assert conversions.to_report(conversions.from_report(report)) == report


@pytest.mark.parametrize("number", [2, -3, np.float32(0.5), np.int64(4)])
def test_numbers_of_any_type_travel_as_they_are(number):
    """rclpy sends the memory of an int as if it were that of a float, and does not complain."""
    pose, size = Pose(x_m=number, y_m=number, z_m=number, yaw_deg=number), abs(number)
    sent = PlanRequest(
        request_id=GOAL_ID,
        robot_id="drone_1",
        client_id="c",
        robot_model="tello",
        instruction="go",
        time_budget_s=size,
        time_utility=TimeUtility(size, -size, size),
        start_pose=pose,
    )
    goal = deserialize_message(serialize_message(conversions.to_goal(sent)), PlanTask.Goal)
    assert conversions.to_request(goal, GOAL_ID) == sent
    failed = SegmentReport(
        request_id=GOAL_ID,
        index=2,
        status=ReportStatus.FAILED,
        duration_s=size,
        value=number,
        situation=Situation(pose=pose),
    )
    message = deserialize_message(serialize_message(conversions.from_report(failed)), msgs.SegmentReport)
    assert conversions.to_report(message) == failed
    assert message.situation.robot_pose.position.x == number


@pytest.mark.parametrize("is_so", [1, np.bool_(True)])
def test_booleans_of_any_type_travel_as_they_are(is_so):
    request = PlanRequest(
        request_id=GOAL_ID, robot_id="x", robot_model="tello", instruction="", plan_only=is_so, takes_open_blocks=is_so
    )
    goal = deserialize_message(serialize_message(conversions.to_goal(request)), PlanTask.Goal)
    assert (goal.plan_only, goal.takes_open_blocks) == (True, True)
    report = SegmentReport(
        request_id=GOAL_ID, index=0, status=ReportStatus.SUCCEEDED, enters_block=is_so, is_permanent=is_so
    )
    message = deserialize_message(serialize_message(conversions.from_report(report)), msgs.SegmentReport)
    assert (message.enters_block, message.is_permanent) == (True, True)


@pytest.mark.parametrize(
    ("situation", "code"),
    [
        (Situation(pose=Pose(y_m=math.nan)), ErrorCode.INVALID_POSE),
        (Situation(pose=Pose(yaw_deg=math.inf)), ErrorCode.INVALID_POSE),
        (Situation(scene="x" * 70_000), ErrorCode.INVALID_ARGUMENT),
    ],
)
def test_a_robot_is_told_of_a_situation_that_the_planner_would_ignore(situation, code):
    report = SegmentReport(request_id=GOAL_ID, index=2, status=ReportStatus.FAILED, situation=situation)
    assert refused(conversions.from_report, report) is code


@given(
    st.builds(
        PlanResult,
        request_id=st.just(GOAL_ID),
        error_code=st.sampled_from(ErrorCode),
        error_msg=texts,
        segments=st.lists(segments, max_size=3).map(tuple),
        metrics=metrics,
    )
)
def test_result_round_trip(result):
    message = conversions.from_result(result)
    assert [s.is_last for s in reversed(message.segments)] == [i == 0 for i in range(len(result.segments))]
    assert conversions.to_result(message, GOAL_ID) == result


def test_presets_apply_without_a_time_utility():
    assert conversions.to_request(make_goal(), GOAL_ID).time_utility == NORMAL
    assert conversions.to_request(make_goal(urgency=PlanTask.Goal.URGENT), GOAL_ID).time_utility == URGENT
    firm = make_goal(urgency=PlanTask.Goal.URGENT, time_utility=msgs.TimeUtility(function="step"))
    assert conversions.to_request(firm, GOAL_ID).time_utility == replace(URGENT, function="step")


@given(st.builds(Situation, scene=texts, pose=st.none() | places))
def test_a_robot_that_waits_for_another_way_says_where(situation):
    report = SegmentReport(request_id=GOAL_ID, index=2, status=ReportStatus.FAILED, reason="lost", situation=situation)
    assert conversions.to_report(conversions.from_report(report)) == report


def test_a_situation_travels_in_its_own_field_and_leaves_the_value_alone():
    situation = Situation(scene="cat_1", pose=Pose(x_m=1.0))
    report = SegmentReport(
        request_id=GOAL_ID, index=2, status=ReportStatus.FAILED, value="cat_1", reason="lost", situation=situation
    )
    message = conversions.from_report(report)
    assert (message.value.text_value, message.has_situation, message.situation.scene) == ("cat_1", True, "cat_1")
    assert conversions.to_report(message) == report


def test_a_situation_counts_only_with_a_failure():
    message = make_report(status=msgs.SegmentReport.SUCCEEDED, has_situation=True)
    assert conversions.to_report(message).situation is None


def test_only_the_marker_of_a_replan_says_that_it_is_one():
    marker = conversions.from_segment(make_replan(3), GOAL_ID)
    assert (marker.is_replan, marker.text) == (True, "")
    empty = msgs.Segment(goal_id=GOAL_ID, index=3)
    assert not conversions.to_segment(empty, GOAL_ID).is_replan


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"scene": "x" * 70_000}, ErrorCode.INVALID_ARGUMENT),
        ({"scene": "\x1b[2J"}, ErrorCode.INVALID_ARGUMENT),
        ({"has_pose": True, "robot_pose": StandardPose(position=Point(z=math.inf))}, ErrorCode.INVALID_POSE),
        ({"has_pose": True, "robot_pose": lying(w=math.nan)}, ErrorCode.INVALID_POSE),
    ],
)
def test_a_situation_that_cannot_be_is_refused(fields, code):
    message = make_report(status=msgs.SegmentReport.FAILED, has_situation=True, situation=msgs.Situation(**fields))
    assert refused(conversions.to_report, message) is code


@pytest.mark.parametrize("text", ["cat_1", '{"scene": "cat_1", "pose": null}', "[" * 10000])
def test_a_text_that_was_returned_is_no_situation(text):
    value = msgs.Value(type=msgs.Value.TEXT, text_value=text)
    report = conversions.to_report(make_report(status=msgs.SegmentReport.FAILED, value=value))
    assert (report.situation, report.value) == (None, text)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"has_start_pose": True, "robot_pose": lying(w=0.0)}, ErrorCode.INVALID_POSE),
        ({"has_start_pose": True, "robot_pose": lying(z=0.2)}, ErrorCode.INVALID_POSE),
        ({"has_start_pose": True, "robot_pose": lying(x=1e300, y=1e300)}, ErrorCode.INVALID_POSE),
        ({"robot_id": ""}, ErrorCode.INVALID_ROBOT_ID),
        ({"robot_id": "a" * 65}, ErrorCode.INVALID_ROBOT_ID),
        ({"robot_id": "drone 1\n"}, ErrorCode.INVALID_ROBOT_ID),
        ({"instruction": "go \ufffd"}, ErrorCode.INVALID_ENCODING),
        ({"scene": "chair\x00"}, ErrorCode.INVALID_ENCODING),
        ({"robot_model": "\x1b[2J"}, ErrorCode.INVALID_ENCODING),
        ({"instruction": "x" * 5000}, ErrorCode.INSTRUCTION_TOO_LONG),
        ({"scene": "x" * 70_000}, ErrorCode.INSTRUCTION_TOO_LONG),
        ({"robot_model": "x" * 200}, ErrorCode.UNKNOWN_ROBOT_MODEL),
        ({"time_utility": msgs.TimeUtility(function="x" * 200)}, ErrorCode.INVALID_TIME_UTILITY),
        ({"urgency": 3}, ErrorCode.INVALID_URGENCY),
        ({"overrun": 255}, ErrorCode.INVALID_OVERRUN),
        ({"budget_scope": 2}, ErrorCode.INVALID_TIME_BUDGET),
        ({"time_budget_s": math.nan}, ErrorCode.INVALID_TIME_BUDGET),
        ({"time_budget_s": math.inf}, ErrorCode.INVALID_TIME_BUDGET),
        ({"time_budget_s": -1.0}, ErrorCode.INVALID_TIME_BUDGET),
        ({"time_utility": msgs.TimeUtility(ert_s=math.nan)}, ErrorCode.INVALID_TIME_UTILITY),
        ({"time_utility": msgs.TimeUtility(function="lottery")}, ErrorCode.INVALID_TIME_UTILITY),
        ({"time_utility": msgs.TimeUtility(ert_s=1.0)}, ErrorCode.INVALID_TIME_UTILITY),
        ({"time_utility": msgs.TimeUtility(alpha=1.0, beta=1.0)}, ErrorCode.INVALID_TIME_UTILITY),
    ],
)
def test_garbage_goals_are_refused(fields, code):
    assert refused(conversions.to_request, make_goal(**fields), GOAL_ID) is code


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"goal_id": "robot"}, ErrorCode.UNKNOWN_GOAL),
        ({"goal_id": GOAL_ID.upper()}, ErrorCode.UNKNOWN_GOAL),
        ({"status": 0}, ErrorCode.INVALID_ARGUMENT),
    ],
)
def test_garbage_reports_are_refused(fields, code):
    assert refused(conversions.to_report, make_report(**fields)) is code


@pytest.mark.parametrize(
    ("fields", "duration_s"),
    [
        ({"duration_s": math.nan}, 0.0),
        ({"duration_s": -0.1}, 0.0),
        ({"duration_s": 1e308}, conversions.MAX_DURATION_S),
        ({"duration_s": 2.0, "value": msgs.Value(type=msgs.Value.TEXT, text_value="x" * 300_000)}, 2.0),
        ({"duration_s": 2.0, "value": msgs.Value(type=9)}, 2.0),
        ({"duration_s": 2.0, "value": msgs.Value(type=msgs.Value.NUMBER, number_value=math.inf)}, 2.0),
    ],
)
def test_what_a_report_says_of_its_segment_counts_whatever_its_numbers_are(fields, duration_s):
    report = conversions.to_report(make_report(**fields))
    assert report.status is ReportStatus.SUCCEEDED
    assert (report.duration_s, report.value) == (duration_s, None)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"allowed_skills": frozenset()}, ErrorCode.INVALID_ARGUMENT),
        ({"max_tokens": 0}, ErrorCode.INVALID_MAX_TOKENS),
    ],
)
def test_what_a_message_would_turn_into_its_opposite_is_not_sent(fields, code):
    request = PlanRequest(request_id=GOAL_ID, robot_id="r", robot_model="tello", instruction="go", **fields)
    assert refused(conversions.to_goal, request) is code


@pytest.mark.parametrize("urgency", Urgency)
def test_a_request_is_worth_what_its_urgency_says_unless_it_says_so_itself(urgency):
    request = PlanRequest(request_id=GOAL_ID, robot_id="r", robot_model="tello", instruction="go", urgency=urgency)
    assert request.time_utility == urgency.time_utility
    assert conversions.to_request(conversions.to_goal(request), GOAL_ID).time_utility == urgency.time_utility
    own = TimeUtility(3.0, -1.0, 4.0)
    assert replace(request, time_utility=own).time_utility == own


def test_the_limits_are_those_of_the_configuration():
    goal = make_goal(instruction="x" * 5000, scene="x" * 70_000)
    config = PlannerConfig(max_instruction_bytes=5000, max_scene_bytes=70_000)
    assert conversions.to_request(goal, GOAL_ID, config).instruction == goal.instruction


def test_a_long_reason_is_cut():
    assert len(conversions.to_report(make_report(reason="x" * 10_000)).reason) == conversions.MAX_REASON_LENGTH


def test_garbage_segments_are_refused():
    broken = msgs.Segment(goal_id=GOAL_ID, expected_p50_s=math.nan)
    assert refused(conversions.to_segment, broken, GOAL_ID) is ErrorCode.INVALID_ARGUMENT
    assert refused(conversions.to_segment, msgs.Segment(goal_id="f" * 32), GOAL_ID) is ErrorCode.UNKNOWN_GOAL
    result = PlanTask.Result(segments=[msgs.Segment(goal_id="f" * 32)])
    assert refused(conversions.to_result, result, GOAL_ID) is ErrorCode.UNKNOWN_GOAL


def test_an_error_code_of_a_newer_planner_is_an_error():
    code, text = conversions.to_error(999, "what")
    assert code is ErrorCode.ENGINE_FAILED
    assert "999" in text


def test_the_message_holds_every_metric():
    fields = {field.name for field in dataclasses.fields(PlanMetrics)}
    assert set(msgs.PlanMetrics.get_fields_and_field_types()) == fields
