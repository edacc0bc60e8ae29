# SPDX-License-Identifier: Apache-2.0
"""Goals over real DDS, through the client library: every goal has a defined end, and no segment is lost."""

import math
import re
import subprocess
import sys
import threading
import time
import uuid

import pytest
import rclpy
from rclpy.action.client import ActionClient
from rclpy.task import Future

from llm_planner import client
from llm_planner.core.errors import ErrorCode, PlannerError
from llm_planner.core.request import BudgetScope, OverrunStrategy, PlanRequest, Urgency
from llm_planner.core.segment import ReportStatus
from llm_planner.ros.planner_client import PlannerClient
from llm_planner.ros.remote_goal import ANSWER_S, RemoteGoal
from llm_planner.ros.spinning import spinning
from tests.documented import ROOT
from tests.ros import played_robot
from tests.ros.nodes import Robot, wait_until

pytestmark = pytest.mark.ros

TIMEOUT_S = 15.0


def test_the_library_exports_what_the_page_imports():
    text = (ROOT / "docs" / "interfaces.md").read_text(encoding="utf-8")
    names = {name for line in re.findall(r"from llm_planner\.client import (.*)", text) for name in line.split(", ")}
    assert "PlanRequest" in names
    assert names <= set(client.__all__)


def carry_out(handle):
    """Reports every segment as done, as a robot would; returns their texts."""
    texts = []
    for segment in handle:
        handle.report(segment, ReportStatus.STARTED)
        texts.append(segment.text)
        handle.report(segment, ReportStatus.SUCCEEDED, duration_s=0.1, value=True)
    return texts


def test_a_goal_from_instruction_to_result(planner, start_robot):
    robot = start_robot("drone_1")
    handle = robot.client.plan("mf(20);mb(30);tc(90);", scene="chair_1")
    assert carry_out(handle) == ["mf(20);", "mb(30);", "tc(90);"]
    result = handle.result(TIMEOUT_S)
    assert result.error_code is ErrorCode.NONE
    assert result.plan == "mf(20);mb(30);tc(90);"
    assert [r.status for r in planner.server.reports[:2]] == [ReportStatus.STARTED, ReportStatus.SUCCEEDED]
    assert planner.server.reports[1].value is True
    assert planner.server.seen[-1].client_id == robot.node.get_fully_qualified_name()


@pytest.fixture
def lose_feedback(monkeypatch):
    """Loses every feedback that ``is_lost`` says, by number; returns the list of all numbers that came."""
    numbers = []
    take = RemoteGoal._on_feedback

    def lose(is_lost):
        def on_feedback(goal, message):
            numbers.append(len(numbers))
            if not is_lost(numbers[-1]):
                take(goal, message)

        monkeypatch.setattr(RemoteGoal, "_on_feedback", on_feedback)
        return numbers

    return lose


def test_a_client_that_loses_all_feedback_loses_no_segment(planner, start_robot, lose_feedback):
    numbers = lose_feedback(lambda n: True)
    handle = start_robot("deaf").client.plan("mf(20);mb(30);tc(90);")
    assert carry_out(handle) == ["mf(20);", "mb(30);", "tc(90);"]
    assert len(numbers) >= 3


def test_an_acceptance_that_was_lost_is_not_missed(planner, start_robot, monkeypatch):
    monkeypatch.setattr(RemoteGoal, "_on_response", lambda goal, future: None)
    robot = start_robot("drone_1")
    assert carry_out(robot.client.plan("mf(20);")) == ["mf(20);"]
    monkeypatch.setattr(RemoteGoal, "_on_feedback", lambda goal, message: None)
    assert carry_out(robot.client.plan("mb(20);")) == ["mb(20);"]


def test_a_goal_that_was_lost_is_sent_again_and_planned_once(planner, start_robot, monkeypatch):
    robot = start_robot("drone_1")
    robot.client.wait_for_planner(TIMEOUT_S)
    action = robot.client._endpoints.action
    sent = []

    def send_goal_async(*arguments, **fields):
        sent.append(fields["goal_uuid"])
        return Future() if len(sent) == 1 else ActionClient.send_goal_async(action, *arguments, **fields)

    monkeypatch.setattr(action, "send_goal_async", send_goal_async)
    assert carry_out(robot.client.plan("mf(20);mb(30);")) == ["mf(20);", "mb(30);"]
    assert (len(sent), sent[0]) == (2, sent[1])


def test_a_refusal_whose_acceptance_was_lost_still_has_its_reason(planner, start_robot, monkeypatch):
    robot = start_robot("drone_1")
    robot.client.wait_for_planner(TIMEOUT_S)
    on_response, answers = RemoteGoal._on_response, []

    def lose_first(goal, future):
        answers.append(future.result().accepted)
        if len(answers) > 1:
            on_response(goal, future)

    monkeypatch.setattr(RemoteGoal, "_on_response", lose_first)
    assert robot.client.plan(" ").result(TIMEOUT_S).error_code is ErrorCode.EMPTY_INSTRUCTION
    assert answers == [True, False]  # the second is rejected: the planner has it


def test_a_burst_arrives_once_and_in_order(planner, start_robot, lose_feedback):
    plan = [f"mf({20 + i});" for i in range(300)]
    lose_feedback(lambda n: n % 2)
    handle = start_robot("fast").client.plan("flood " + "".join(plan))
    assert carry_out(handle) == plan
    assert handle.result(TIMEOUT_S).error_code is ErrorCode.NONE


def test_cancel(planner, start_robot):
    handle = start_robot("drone_1").client.plan("hang mf(20);")
    assert next(iter(handle)).text == "mf(20);"
    handle.cancel()
    assert handle.result(TIMEOUT_S).error_code is ErrorCode.CANCELLED
    assert list(handle) == []


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_request_behind_a_cancel_waits_until_the_planner_has_ended_the_goal(is_taken):
    robot = played_robot.Robot()
    first = robot.client.plan("go")
    robot.spin()
    if is_taken:
        robot.feed(first.goal_id, played_robot.messages(first.goal_id, "mf(20);"))
    first.cancel()
    second = robot.client.plan("go back", time_budget_s=2.0)
    robot.spin()
    robot.clock.advance(0.5)
    assert list(robot.action.sent) == [first.goal_id]
    robot.say_status({first.goal_id: 0})
    robot.spin()
    assert robot.action.cancelled == [first.goal_id]
    robot.end(first.goal_id, ErrorCode.CANCELLED)
    robot.spin()
    assert list(robot.action.sent) == [first.goal_id, second.goal_id]
    assert robot.action.sent[second.goal_id].time_budget_s == 1.5


def test_an_emergency_behind_a_cancel_waits_for_nothing_that_it_replaces():
    robot = played_robot.Robot()
    first = robot.client.plan("go")
    robot.spin()
    first.cancel()
    second = robot.client.plan("go back", urgency=Urgency.URGENT)
    robot.spin()
    assert list(robot.action.sent) == [first.goal_id, second.goal_id]


def test_a_failed_skill_ends_the_goal(planner, start_robot):
    handle = start_robot("drone_1").client.plan("mf(20);mb(30);")
    segment = next(iter(handle))
    handle.report(segment, ReportStatus.FAILED, duration_s=0.1, reason="an obstacle")
    result = handle.result(TIMEOUT_S)
    assert (result.error_code, result.error_msg) == (ErrorCode.SKILL_FAILED, "an obstacle")


def test_a_second_goal_of_a_robot_is_refused_and_the_first_goes_on(planner, start_robot):
    robot = start_robot("drone_1")
    first = robot.client.plan("mf(20);mb(30);")
    segments = iter(first)
    segment = next(segments)
    assert robot.client.plan("tc(90);").result(TIMEOUT_S).error_code is ErrorCode.ROBOT_BUSY
    first.report(segment, ReportStatus.SUCCEEDED)
    first.report(next(segments), ReportStatus.SUCCEEDED)
    assert first.result(TIMEOUT_S).error_code is ErrorCode.NONE


def test_an_urgent_goal_silences_the_one_that_it_replaces_at_once(planner, start_robot):
    robot = start_robot("drone_1")
    first = robot.client.plan("flood mf(20);mb(30);tc(90);")
    segments = iter(first)
    assert next(segments).text == "mf(20);"
    urgent = robot.client.plan("mr(20);", urgency=Urgency.URGENT)
    assert list(segments) == []
    assert carry_out(urgent) == ["mr(20);"]
    assert first.result(TIMEOUT_S).error_code is ErrorCode.SUPERSEDED


def test_a_goal_whose_replacement_is_refused_is_cancelled(planner, start_robot):
    robot = start_robot("drone_1")
    first = robot.client.plan("hang mf(20);")
    assert next(iter(first)).text == "mf(20);"
    assert robot.client.plan(" ", urgency=Urgency.URGENT).result(TIMEOUT_S).error_code is ErrorCode.EMPTY_INSTRUCTION
    assert first.result(TIMEOUT_S).error_code is ErrorCode.CANCELLED


def test_an_urgent_goal_of_another_robot_silences_nothing(planner, start_robot):
    robot = start_robot("drone_1")
    first = robot.client.plan("mf(20);mb(30);")
    request = PlanRequest(
        request_id=uuid.uuid4().hex,
        robot_id="other",
        robot_model="tello",
        instruction="mr(20);",
        urgency=Urgency.URGENT,
    )
    other = robot.client.ask(request)
    assert carry_out(first) == ["mf(20);", "mb(30);"]
    assert carry_out(other) == ["mr(20);"]


def test_a_callback_that_fails_ends_the_goal_and_nothing_else(planner, start_robot):
    errors = []
    robot = start_robot("drone_1", on_error=errors.append)
    handle = robot.client.plan("mf(20);mb(30);", on_segment=lambda segment: 1 / 0)
    assert handle.result(TIMEOUT_S).error_code is ErrorCode.CANCELLED
    assert [type(error) for error in errors] == [ZeroDivisionError]
    assert carry_out(robot.client.plan("mf(20);")) == ["mf(20);"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"instruction": " "}, ErrorCode.EMPTY_INSTRUCTION),
        ({"instruction": "go\x00"}, ErrorCode.INVALID_ENCODING),
        ({"instruction": "go \ud800"}, ErrorCode.INVALID_ENCODING),
        ({"time_budget_s": math.nan}, ErrorCode.INVALID_TIME_BUDGET),
        ({"time_budget_s": -1.0}, ErrorCode.INVALID_TIME_BUDGET),
        ({"time_budget_s": 0.0}, ErrorCode.INVALID_TIME_BUDGET),
        ({"robot_id": "a b"}, ErrorCode.INVALID_ROBOT_ID),
        ({"request_id": str(uuid.uuid4())}, ErrorCode.UNKNOWN_GOAL),
        ({"request_id": "robot"}, ErrorCode.UNKNOWN_GOAL),
        ({"scene": None}, ErrorCode.INVALID_ARGUMENT),
        ({"time_budget_s": "soon"}, ErrorCode.INVALID_ARGUMENT),
        ({"max_tokens": -1}, ErrorCode.INVALID_MAX_TOKENS),
        ({"robot_model": None}, ErrorCode.INVALID_ARGUMENT),
    ],
)
def test_a_garbage_goal_is_refused_and_the_others_are_unharmed(planner, start_robot, fields, code):
    errors = []
    robot = start_robot("drone_1", on_error=errors.append)
    other = robot.client.plan("mb(20);")
    request = PlanRequest(
        **({"request_id": uuid.uuid4().hex, "robot_id": "x", "robot_model": "tello", "instruction": "mf(20);"} | fields)
    )
    assert robot.client.ask(request).result(TIMEOUT_S).error_code is code
    assert carry_out(other) == ["mb(20);"]
    assert carry_out(robot.client.plan("mf(20);")) == ["mf(20);"]
    assert not errors


@pytest.mark.parametrize("server_timeout_s", [math.nan, 0.0, 1.0])
def test_a_patience_shorter_than_three_periods_of_the_status_is_refused(ros, server_timeout_s):
    node = rclpy.create_node("hasty")
    try:
        with pytest.raises(PlannerError, match="server_timeout_s") as caught:
            PlannerClient(node, "tello", server_timeout_s=server_timeout_s)
        assert caught.value.code is ErrorCode.INVALID_CONFIG
    finally:
        node.destroy_node()


def test_a_client_that_dies_ends_its_goal(start_planner):
    planner = start_planner("short_timeout", client_timeout_s=3.0)
    robot = Robot("mortal", planner="/short_timeout")
    handle = robot.client.plan("hang mf(20);")
    next(iter(handle))
    robot.stop()
    wait_until(lambda: planner.server.ended.get(handle.goal_id) is ErrorCode.CLIENT_GONE)


def test_a_planner_that_dies_is_noticed_in_bounded_time(start_planner, start_robot):
    planner = start_planner("mortal")
    handle = start_robot("drone_1", planner="/mortal", server_timeout_s=1.5).client.plan("hang mf(20);")
    next(iter(handle))
    planner.die()
    died_at_s = time.monotonic()
    assert handle.result(TIMEOUT_S).error_code is ErrorCode.SERVER_UNREACHABLE
    assert time.monotonic() - died_at_s < 3.5


def test_a_planner_that_restarts_is_noticed_and_takes_new_goals(start_planner, start_robot):
    robot = start_robot("drone_1", planner="/phoenix", server_timeout_s=10.0)
    planner = start_planner("phoenix")
    handle = robot.client.plan("hang mf(20);")
    next(iter(handle))
    time.sleep(0.6)  # a status that names the goal
    planner.die()
    start_planner("phoenix")
    assert handle.result(TIMEOUT_S).error_code is ErrorCode.SERVER_UNREACHABLE
    assert carry_out(robot.client.plan("mf(20);")) == ["mf(20);"]


def test_a_planner_that_came_back_and_loads_its_model_has_lost_the_goal():
    robot = played_robot.Robot()
    goal_id = robot.instruct()
    robot.spin()
    robot.feed(goal_id, played_robot.messages(goal_id, "mf(20);"))
    robot.say_status({goal_id: 1})
    robot.client._endpoints.get_segments.service_is_ready = lambda: False
    for passes_s in (1.0, 1.0, 0.9):
        robot.clock.advance(passes_s)
        robot.say_status({})
        robot.client._tick()
        robot.spin()
        assert not robot.missions._find(goal_id).handle.is_done
    robot.clock.advance(0.2)
    robot.say_status({})
    handle = robot.missions._find(goal_id).handle
    robot.client._tick()
    assert handle.result(0.0).error_code is ErrorCode.SERVER_UNREACHABLE


def test_without_a_planner_a_goal_ends_in_bounded_time(start_robot):
    robot = start_robot("lonely", planner="/absent", server_timeout_s=1.5)
    assert robot.client.plan("mf(20);").result(TIMEOUT_S).error_code is ErrorCode.SERVER_UNREACHABLE
    assert not robot.client.is_planner_active


class Budgeted:
    """A goal with a time budget of 2 s, on a clock that the test moves, and what a planner hears of it."""

    def __init__(self, *, is_there=True, **fields):
        self._robot = robot = played_robot.Robot()
        self.is_there, self.action, self._client = is_there, robot.action, robot.client
        self.action.server_is_ready = lambda: self.is_there
        request = {"request_id": uuid.uuid4().hex, "robot_id": "x", "robot_model": "tello", "instruction": "go"}
        self.handle = robot.client.ask(PlanRequest(**({"time_budget_s": 2.0} | request | fields)))
        self.goal_id = self.handle.goal_id
        robot.spin()

    def wait(self, seconds):
        self._robot.clock.advance(seconds)
        self._client._tick()

    def feed(self, *texts):
        self._robot.feed(self.goal_id, played_robot.messages(self.goal_id, *texts))

    @property
    def code(self):
        return self.handle.result(0.0).error_code if self.handle.is_done else None


def test_a_planner_that_comes_late_gets_what_is_left_of_the_budget():
    goal = Budgeted(is_there=False)
    goal.wait(1.5)
    goal.is_there = True
    goal.wait(0.25)
    assert goal.action.sent[goal.goal_id].time_budget_s == 0.25


def test_a_goal_ends_with_its_budget_if_no_planner_comes():
    goal = Budgeted(is_there=False)
    goal.wait(2.0)
    assert goal.code is None  # the robot's own answer comes first
    goal.is_there = True
    goal.wait(ANSWER_S)
    assert goal.code is ErrorCode.BUDGET_EXCEEDED
    assert not goal.action.sent


@pytest.mark.parametrize("scope", BudgetScope)
@pytest.mark.parametrize("overrun", [OverrunStrategy.KILL, OverrunStrategy.PARTIAL])
@pytest.mark.parametrize("is_taken", [False, True])
def test_a_goal_that_is_not_answered_ends_with_its_budget(scope, overrun, is_taken):
    goal = Budgeted(budget_scope=scope, overrun=overrun)
    assert goal.action.sent[goal.goal_id].time_budget_s == 2.0
    if is_taken:
        goal.feed()
    goal.wait(2.0)
    assert goal.code is None  # the planner's word may be on its way
    goal.wait(ANSWER_S)
    assert goal.code is ErrorCode.BUDGET_EXCEEDED
    assert set(goal.action.cancelled) == {goal.goal_id}
    goal.feed("mf(20);")
    assert list(goal.handle) == []


@pytest.mark.parametrize(("texts", "overrun"), [(["mf(20);"], OverrunStrategy.KILL), ([], OverrunStrategy.SKIP_NEXT)])
def test_a_goal_that_the_planner_may_go_on_with_outlives_its_budget(texts, overrun):
    goal = Budgeted(overrun=overrun)
    goal.feed(*texts)
    goal.wait(2.0 + ANSWER_S)
    assert goal.code is None


def test_a_goal_that_can_be_none_is_refused_without_a_planner():
    assert Budgeted(is_there=False, time_budget_s=0.0).code is ErrorCode.INVALID_TIME_BUDGET


def test_goals_that_have_ended_are_forgotten(start_planner, start_robot):
    planner = start_planner("forgetful")
    robot = start_robot("drone_1", planner="/forgetful", server_timeout_s=1.5)
    for _ in range(5):
        carry_out(robot.client.plan("mf(20);"))
        handle = robot.client.plan("hang mf(20);")
        next(iter(handle))
        handle.cancel()
        handle.result(TIMEOUT_S)
    lost = robot.client.plan("hang mf(20);")
    next(iter(lost))
    planner.die()
    assert lost.result(TIMEOUT_S).error_code is ErrorCode.SERVER_UNREACHABLE
    action, questions = robot.client._endpoints.action, robot.client._endpoints.get_segments._pending_requests
    wait_until(lambda: not robot.client._goals, what="the client's next tick")
    kept = [action._feedback_callbacks, action._pending_result_requests, action._pending_goal_requests, questions]
    wait_until(lambda: not any(kept), what=f"nothing kept of {kept}")
    assert len(robot.client._handles) <= 1


def kept_by_rclpy(client):
    """Everything that rclpy keeps for a goal; the names are rclpy's."""
    action = client._endpoints.action
    return [getattr(action, name) for name in vars(action) if name in KEPT]


KEPT = {
    "_goal_handles", "_pending_goal_requests", "_goal_sequence_number_to_goal_id", "_pending_cancel_requests",
    "_pending_result_requests", "_result_sequence_number_to_goal_id", "_feedback_callbacks",
}  # fmt: skip


def test_refused_goals_are_forgotten(planner, start_robot):
    robot = start_robot("drone_1")
    for _ in range(5):
        assert robot.client.plan("").result(TIMEOUT_S).error_code is ErrorCode.EMPTY_INSTRUCTION
    kept = kept_by_rclpy(robot.client)
    assert len(kept) == len(KEPT)
    wait_until(lambda: not any(kept), what=f"nothing kept of {kept}")


@pytest.mark.parametrize("is_taken", [False, True])
def test_goals_that_were_never_answered_are_forgotten(start_planner, start_robot, is_taken):
    planner, is_over = start_planner("mute"), threading.Event()
    robot = start_robot("drone_1", planner="/mute", server_timeout_s=2.0)
    wait_until(lambda: robot.client.is_planner_active)
    if is_taken:
        handle = robot.client.plan("hang mf(20);")
        next(iter(handle))
    planner.spinner.executor.create_task(is_over.wait)  # its endpoints are there, and no server listens
    time.sleep(0.2)
    if is_taken:
        handle.cancel()
    else:
        handle = robot.client.plan("mf(20);")
    code, kept = handle.result(TIMEOUT_S).error_code, kept_by_rclpy(robot.client)
    try:
        assert code is ErrorCode.SERVER_UNREACHABLE
        wait_until(lambda: not any(kept), what=f"nothing kept of {kept}")
    finally:
        is_over.set()


def test_a_planner_that_shuts_down_ends_its_goals(start_planner, start_robot):
    planner = start_planner("leaving")
    handle = start_robot("drone_1", planner="/leaving").client.plan("hang mf(20);")
    next(iter(handle))
    planner.spinner.executor.create_task(planner.node.end_goals)
    assert handle.result(TIMEOUT_S).error_code is ErrorCode.SHUTTING_DOWN


def test_goals_end_when_their_node_is_spun_no_more(planner):
    with spinning("leaver") as node:
        robot = client.PlannerClient(node, "tello", server_timeout_s=60.0)
        handle = robot.plan("hang mf(20);")
        segment = next(iter(handle))
    wait_until(lambda: planner.server.ended.get(handle.goal_id) is ErrorCode.CANCELLED, timeout_s=2.0)  # is told
    for ended in (handle, robot.plan("mf(20);")):
        assert ended.result(0.0).error_code is ErrorCode.SHUTTING_DOWN
        assert list(ended) == []
    handle.report(segment, ReportStatus.SUCCEEDED)  # in vain, as this
    handle.cancel()


SIGNALLED = """
import os, signal, threading, rclpy
from llm_planner.client import PlannerClient, spinning

rclpy.init()  # with rclpy's own handlers of signals
with spinning("signalled") as node:
    handle = PlannerClient(node, "tello", planner="/absent", server_timeout_s=60.0).plan("go")
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    assert list(handle) == []
    handle.cancel()
    print(handle.result().error_code.name)
"""


def test_goals_end_when_a_signal_shuts_rclpy_down():
    command = [sys.executable, "-c", SIGNALLED]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (ended.stdout, ended.returncode) == ("SHUTTING_DOWN\n", 0), ended.stderr


def test_whoever_waits_for_a_planner_waits_for_one_that_is_silent_too():
    robot = played_robot.Robot()
    robot.say_status({})
    assert robot.client.wait_for_planner(0.0)
    robot.clock.advance(6.0)
    assert not robot.client.wait_for_planner(0.0)
    comes_back = threading.Timer(0.3, robot.say_status, ({},))
    comes_back.start()
    assert robot.client.wait_for_planner(TIMEOUT_S)
    comes_back.join()


@pytest.mark.parametrize(
    "fields",
    [
        {"urgency": "urgent"},
        {"urgency": 1},
        {"max_tokens": 3.5},
        {"allowed_skills": "mu"},
        {"unsupported_skills": "mu"},
        {"allowed_skills": frozenset({7})},
    ],
)
def test_a_request_with_a_field_of_a_wrong_type_ends_at_once(fields):
    code = ErrorCode.INVALID_MAX_TOKENS if "max_tokens" in fields else ErrorCode.INVALID_ARGUMENT
    assert Budgeted(**fields).code is code


def test_a_planner_may_be_named_with_a_slash_at_its_end(ros):
    node = rclpy.create_node("slash")
    try:
        assert PlannerClient(node, "tello", planner="/planner/").robot_id == "slash"
    finally:
        node.destroy_node()
