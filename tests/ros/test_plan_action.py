# SPDX-License-Identifier: Apache-2.0
"""The planner's action, service and topics, spoken to by strangers: nothing they send ends it or costs others much."""

import math
import threading
import time

import pytest
import rclpy
from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from geometry_msgs.msg import Point, Pose
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.action.client import ActionClient
from unique_identifier_msgs.msg import UUID

import llm_planner.msg as msgs
from llm_planner.action import PlanTask
from llm_planner.core.errors import ErrorCode
from llm_planner.core.segment import ReportStatus, Situation
from llm_planner.ros import qos
from llm_planner.ros.action_server import MAX_REFUSED, RCLError
from llm_planner.srv import GetCapacity, GetSegments
from tests.ros.hostile import TEXTS, messages
from tests.ros.nodes import Spinner, wait_until

pytestmark = pytest.mark.ros

NOWHERE = msgs.Situation(has_pose=True, robot_pose=Pose(position=Point(x=math.inf)))


class Stranger:
    """A node that talks to the planner without the client library, and sees what it answers."""

    def __init__(self, planner="/planner"):
        self.node = rclpy.create_node("stranger")
        self.reports = self.node.create_publisher(msgs.SegmentReport, f"{planner}/report", qos.REPORTS)
        self.heartbeats = self.node.create_publisher(msgs.Heartbeat, f"{planner}/heartbeat", qos.HEARTBEATS)
        self.action = ActionClient(self.node, PlanTask, f"{planner}/plan_task")
        self.statuses = []
        self.node.create_subscription(
            self.action._action_type.Impl.GoalStatusMessage,
            f"{planner}/plan_task/_action/status",
            self.statuses.append,
            10,
        )
        self._planner = planner
        self.spinner = Spinner(self.node)
        assert self.action.wait_for_server(10.0)
        wait_until(lambda: self.reports.get_subscription_count() and self.heartbeats.get_subscription_count())

    def call(self, cls, name, request):
        client = self.node.create_client(cls, f"{self._planner}/{name}")
        assert client.wait_for_service(10.0)
        return self._answer(client.call_async, request)

    def send(self, **fields):
        goal = {"robot_id": "s", "robot_model": "tello", "instruction": "mf(20);"} | fields
        return self._answer(lambda: self.action.send_goal_async(PlanTask.Goal(**goal)))

    def result(self, handle):
        return self._answer(handle.get_result_async)

    def _answer(self, start, *arguments):
        future = self.spinner.executor.create_task(start, *arguments)
        wait_until(lambda: future.done() and future.result().done())
        return future.result().result()

    def stop(self):
        self.spinner.stop()
        self.node.destroy_node()


@pytest.fixture(scope="module")
def stranger(planner):
    stranger = Stranger()
    yield stranger
    stranger.stop()


@pytest.fixture
def handle(planner, start_robot):
    """A goal whose robot has its first segment; it has ended before the next test begins."""
    handle = start_robot("drone_1").client.plan("hang mf(20);")
    assert next(iter(handle)).text == "mf(20);"
    yield handle
    handle.cancel()
    handle.result(10.0)


def planner_lives(stranger):
    """Whether the planner still answers, after everything that was sent before."""
    request = GetSegments.Request(goal_id="0" * 32)
    return stranger.call(GetSegments, "get_segments", request).error_code == ErrorCode.UNKNOWN_GOAL


def text_value(text):
    return msgs.Value(type=msgs.Value.TEXT, text_value=text)


def make_report(goal_id, **fields):
    return msgs.SegmentReport(**({"goal_id": goal_id, "status": msgs.SegmentReport.FAILED} | fields))


@pytest.mark.parametrize("is_known", [False, True])
def test_a_report_from_nowhere_is_passed_over(planner, stranger, handle, is_known):
    goal_id = handle.goal_id if is_known else "0" * 32
    stranger.reports.publish(make_report(goal_id, has_situation=True, situation=NOWHERE))
    assert planner_lives(stranger)
    handle.report(handle._segments[0], ReportStatus.SUCCEEDED)
    wait_until(lambda: planner.server.reports and planner.server.reports[-1].request_id == handle.goal_id)
    assert planner.server.reports[-1].status is ReportStatus.SUCCEEDED  # the other one never got there


def test_a_robot_that_waits_says_what_it_sees(planner, stranger, handle):
    seen = msgs.Situation(scene="cat_1")
    stranger.reports.publish(make_report(handle.goal_id, has_situation=True, situation=seen, value=text_value("cat_2")))
    wait_until(lambda: planner.server.reports and planner.server.reports[-1].request_id == handle.goal_id)
    report = planner.server.reports[-1]
    assert (report.situation, report.value) == (Situation(scene="cat_1"), "cat_2")


def test_nothing_is_read_of_reports_on_goals_that_are_unknown_or_have_ended(planner, stranger, handle, monkeypatch):
    read = []
    monkeypatch.setattr("llm_planner.ros.conversions.to_report", read.append)
    stranger.reports.publish(make_report("0" * 32))
    stranger.reports.publish(make_report(handle.goal_id, index=7))
    handle.cancel()
    assert handle.result(10.0).error_code is ErrorCode.CANCELLED
    stranger.reports.publish(make_report(handle.goal_id))
    assert planner_lives(stranger)
    assert read == []


def test_a_long_reason_is_cut(planner, stranger, handle):
    stranger.reports.publish(make_report(handle.goal_id, reason="why " * 1_000_000))
    result = handle.result(10.0)
    assert result.error_code is ErrorCode.SKILL_FAILED
    assert len(result.error_msg) == 1000


def test_any_report_and_heartbeat_leave_it_alive(planner, stranger, handle):
    failed = st.builds(make_report, st.just(handle.goal_id), value=st.sampled_from(TEXTS).map(text_value))
    reports = messages(msgs.SegmentReport, handle.goal_id) | failed
    heartbeats = messages(msgs.Heartbeat, handle.goal_id)

    @given(reports, heartbeats)
    @settings(max_examples=60)
    def send(report, heartbeat):
        stranger.reports.publish(report)
        stranger.heartbeats.publish(heartbeat)
        assert planner_lives(stranger)

    send()
    handle.cancel()


@given(goal=messages(PlanTask.Goal, "tello", "mf(20);"))
@settings(max_examples=40)
def test_any_goal_is_answered(planner, stranger, goal):
    handle = stranger._answer(lambda: stranger.action.send_goal_async(goal))
    assert handle.accepted
    stranger._answer(handle.cancel_goal_async)
    assert stranger.result(handle).status in (GoalStatus.STATUS_ABORTED, GoalStatus.STATUS_CANCELED)


@given(request=messages(GetCapacity.Request, "tello"))
@settings(max_examples=40)
def test_any_question_for_capacity_is_answered(planner, stranger, request):
    answer = stranger.call(GetCapacity, "get_capacity", request)
    assert ErrorCode(answer.error_code) in ErrorCode
    assert len(answer.error_msg) < 1000


@given(request=messages(GetSegments.Request))
@settings(max_examples=20)
def test_any_question_for_segments_is_answered(planner, stranger, request):
    answer = stranger.call(GetSegments, "get_segments", request)
    assert answer.error_code == ErrorCode.UNKNOWN_GOAL
    assert len(answer.error_msg) < 1000


@given(st.builds(UUID, uuid=st.binary(min_size=16, max_size=16).map(list)), st.integers(0, 2**31 - 1))
@settings(max_examples=20)
def test_any_cancel_is_answered(planner, stranger, goal_id, seconds):
    request = CancelGoal.Request()
    request.goal_info.goal_id = goal_id
    request.goal_info.stamp.sec = seconds
    assert stranger.call(CancelGoal, "plan_task/_action/cancel_goal", request) is not None


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"instruction": "x" * 10_000_000}, ErrorCode.INSTRUCTION_TOO_LONG),
        ({"scene": "x" * 10_000_000}, ErrorCode.INSTRUCTION_TOO_LONG),
        ({"robot_id": "x" * 10_000_000}, ErrorCode.INVALID_ROBOT_ID),
        ({"robot_model": "x" * 10_000_000}, ErrorCode.UNKNOWN_ROBOT_MODEL),
        ({"time_utility": msgs.TimeUtility(function="x" * 10_000_000)}, ErrorCode.INVALID_TIME_UTILITY),
    ],
)
def test_a_long_text_is_refused_unread_and_not_told_to_anybody(planner, stranger, fields, code, monkeypatch):
    read = []
    monkeypatch.setattr("llm_planner.ros.conversions._require_readable", lambda _, *names: read.extend(names))
    result = stranger.result(stranger.send(**fields)).result
    assert result.error_code == code
    assert len(result.error_msg) < 1000
    assert read == []


def test_a_refused_goal_leaves_nothing_behind(planner, stranger):
    action = planner.node._action._action
    handles = [stranger.send(robot_id="no name") for _ in range(MAX_REFUSED + 5)]
    assert all(handle.accepted for handle in handles)
    response = stranger.result(handles[-1])
    assert (response.status, response.result.error_code) == (GoalStatus.STATUS_ABORTED, ErrorCode.INVALID_ROBOT_ID)
    assert stranger.result(handles[0]).status == GoalStatus.STATUS_UNKNOWN  # the oldest are forgotten
    refused = {bytes(handle.goal_id.uuid) for handle in handles}
    assert not refused & action._goal_handles.keys()
    assert len(action._refused) == MAX_REFUSED
    running = stranger.send(instruction="hang mf(20);")
    wait_until(lambda: stranger.statuses and told(stranger) & {bytes(running.goal_id.uuid)})
    assert not refused & told(stranger)
    stranger._answer(running.cancel_goal_async)


def told(stranger):
    """Returns the ids of all goals that the action's status names."""
    return {bytes(status.goal_info.goal_id.uuid) for status in stranger.statuses[-1].status_list}


def test_one_request_that_fails_takes_no_other_with_it(planner, stranger, monkeypatch):
    admit = planner.node._action._action._admit

    def fail(goal, goal_id):
        if goal.robot_id == "poison":
            raise ZeroDivisionError("by a goal")
        return admit(goal, goal_id)

    monkeypatch.setattr(planner.node._action._action, "_admit", fail)
    lost = stranger.spinner.executor.create_task(
        lambda: stranger.action.send_goal_async(PlanTask.Goal(robot_id="poison"))
    )
    assert planner_lives(stranger)
    assert stranger.result(stranger.send(robot_id="no name")).result.error_code == ErrorCode.INVALID_ROBOT_ID
    assert not lost.result().done()


def test_a_goal_behind_a_cancel_finds_its_robot_free(planner, stranger):
    goals = [stranger.send(robot_id=f"s_{i}", instruction="hang mf(20);") for i in range(3)]
    is_free = threading.Event()
    stall = planner.spinner.executor.create_task(is_free.wait)  # meanwhile the planner reads nothing
    cancels = [stranger.spinner.executor.create_task(goal.cancel_goal_async) for goal in goals]
    wait_until(lambda: all(cancel.done() for cancel in cancels))
    time.sleep(0.2)  # they wait at the planner
    new = stranger.spinner.executor.create_task(
        stranger.action.send_goal_async, PlanTask.Goal(robot_id="s_2", robot_model="tello", instruction="hang mf(20);")
    )
    time.sleep(0.2)
    is_free.set()
    wait_until(lambda: stall.done() and new.done() and new.result().done())
    handle = new.result().result()
    assert planner.server.ended[bytes(goals[2].goal_id.uuid).hex()] is ErrorCode.CANCELLED
    assert bytes(handle.goal_id.uuid).hex() in planner.server.requests
    stranger._answer(handle.cancel_goal_async)
    assert stranger.result(handle).result.error_code == ErrorCode.CANCELLED


def test_a_goal_ends_whose_client_cannot_be_told_that_it_was_accepted(planner, stranger, monkeypatch):
    action = planner.node._action._action
    goal = PlanTask.Goal(robot_id="lost", robot_model="tello", instruction="hang mf(20);")

    def fail(*_):
        raise RCLError("the client has gone")

    with monkeypatch.context() as broken:
        broken.setattr(type(action._handle), "send_goal_response", fail)
        stranger.spinner.executor.create_task(lambda: stranger.action.send_goal_async(goal))
        wait_until(lambda: ErrorCode.CLIENT_GONE in planner.server.ended.values())
    goal_id = next(g for g, code in planner.server.ended.items() if code is ErrorCode.CLIENT_GONE)
    wait_until(lambda: not action._goal_handles[bytes.fromhex(goal_id)].is_active)  # rclpy may forget it
    assert goal_id not in planner.node._action._lines
    running = stranger.send(robot_id="lost", instruction="hang mf(20);")  # the robot is not busy
    stranger._answer(running.cancel_goal_async)
    assert stranger.result(running).result.error_code == ErrorCode.CANCELLED


def test_texts_of_every_kind_were_sent():
    assert max(map(len, TEXTS)) >= 300_000
